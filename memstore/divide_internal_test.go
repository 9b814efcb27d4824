// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore

import (
	"bytes"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
)

// shardCount returns how many shards there are, and checks that they hold all parts of the
// hashes, each once, with one array each.
func shardCount(t *testing.T, s *Store) (n int) {
	t.Helper()
	for part := 0; part < len(s.shards); n++ {
		first := part
		part = s.visit(part, func(sh *shard) {
			if sh.first != first || sh.parts&(sh.parts-1) != 0 || first%sh.parts != 0 {
				t.Fatalf("part %d: got a shard of parts %d to %d", first, sh.first, sh.first+sh.parts-1)
			}
			for i := range sh.parts {
				if s.shards[first+i].Load() != sh || s.arrays[first+i].Load() != sh.words.array.Load() {
					t.Fatalf("part %d: got another shard or array than in part %d", first+i, first)
				}
			}
		})
	}
	return n
}

// TestDivideWhileTaken: each of several goroutines takes each of many keys once, alone and
// with another key, while shards are divided and snapshots are made. Every key admits
// exactly its quota.
func TestDivideWhileTaken(t *testing.T) {
	t.Parallel()
	const callers, quota, keys = 8, 3, 5000
	for _, text := range []string{"3/day", "3/day fixed-window", "3/day sliding-log", "3/day sliding-counter sub-windows 3"} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			clock := testkit.NewClock()
			s := New(Options{Now: clock.Now})
			s.open(1) // on every machine
			before := shardCount(t, s)
			p := testkit.Plan(t, "s", text)
			admitted := make([]atomic.Int64, keys)
			var wg sync.WaitGroup
			for g := range callers {
				wg.Go(func() {
					r := rand.New(rand.NewPCG(1, uint64(g)))
					order := r.Perm(keys)
					for i := 0; i < len(order); i++ {
						req := testkit.Request(p, strconv.Itoa(order[i]), 1)
						taken := order[i : i+1]
						if i+1 < len(order) && r.IntN(4) == 0 {
							req.More = []sluice.Charge{{Plan: p, Key: strconv.Itoa(order[i+1]), Cost: 1}}
							taken = order[i : i+2]
							i++
						}
						if d := testkit.Take(t, s, req); !d.Allowed {
							if len(taken) == 2 { // one of the two had none left: take each by itself
								for _, k := range taken {
									if testkit.Take(t, s, testkit.Request(p, strconv.Itoa(k), 1)).Allowed {
										admitted[k].Add(1)
									}
								}
							}
							continue
						}
						for _, k := range taken {
							admitted[k].Add(1)
						}
						if i%(keys/2) == 1 {
							if err := s.Snapshot(new(bytes.Buffer)); err != nil {
								t.Error(err)
							}
						}
					}
				})
			}
			wg.Wait()
			for k := range admitted {
				if got := admitted[k].Load(); got != quota {
					t.Fatalf("key %d: got %d units admitted, want %d", k, got, quota)
				}
			}
			if st := s.Stats(); st.States != keys || st.Evicted != 0 {
				t.Errorf("got %+v, want %d states and no eviction", st, keys)
			}
			if got := shardCount(t, s); got <= before {
				t.Errorf("got %d shards, and %d before: none was divided", got, before)
			}
		})
	}
}

// TestDivideKeepsAll: states of every form, their classes and the evictions are the same in a
// Store that has divided its shards and in one that has not, except idle states.
func TestDivideKeepsAll(t *testing.T) {
	t.Parallel()
	clock := testkit.NewClock()
	s := New(Options{Now: clock.Now})
	s.open(1)
	texts := []string{"2/day", "2/s", "2/day fixed-window", "2/s fixed-window", "2/day sliding-log", "2/day sliding-counter sub-windows 3"}
	var requests []sluice.Request
	for i := range 150 {
		for k, text := range texts {
			req := testkit.Request(testkit.Plan(t, strconv.Itoa(k), text), strconv.Itoa(i), 1)
			for range 1 + i%3 {
				testkit.Take(t, s, req)
			}
			requests = append(requests, req)
		}
	}
	testkit.Take(t, s, testkit.Request(testkit.Plan(t, "all", "5/day"), "", 1))
	clock.Advance(2 * time.Second)
	type seen struct {
		d sluice.Decision
		c class
	}
	look := func() (list []seen) {
		for _, req := range requests {
			req.Op = sluice.OpPeek
			hash := s.secret.Sum(req.Plan.ScopeID, req.Key)
			at := seen{d: testkit.Take(t, s, req)}
			s.visit(int(s.part(hash)), func(sh *shard) {
				id := identity(hash, termMask(req.Plan.Term(0).Series))
				for f := range sh.tables {
					if i := sh.find(&sh.tables[f], id, clock.Now().UnixMicro()); i >= 0 {
						at.c = sh.tables[f].class(i)
					}
				}
				if a := sh.words.array.Load(); at.c == used && a != nil {
					at.c = classOf(a.live(identity(hash, termMask(req.Plan.Term(0).ID))))
				}
			})
			list = append(list, at)
		}
		return list
	}
	want := look()
	kept := s.shards[0].Load().eviction.kept
	for part := 0; part < len(s.shards); part += len(s.shards) / 16 {
		for s.shards[part].Load().parts > len(s.shards)/16 {
			sh := s.hold(uint64(part))
			s.divide(sh, clock.Now().UnixMicro())
			sh.mu.Unlock()
			checkSlab(t, s.shards[part].Load())
		}
	}
	if got := shardCount(t, s); got != 16 {
		t.Fatalf("got %d shards, want 16", got)
	}
	got := look()
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("%s of key %s: got %+v, want %+v", requests[i].Plan.Term(0).Limit, requests[i].Key, got[i], want[i])
		}
	}
	for part := 0; part < len(s.shards); {
		part = s.visit(part, func(sh *shard) { kept -= sh.eviction.kept })
	}
	if kept != 0 {
		t.Errorf("got %d fewer states kept than before", kept)
	}
}
