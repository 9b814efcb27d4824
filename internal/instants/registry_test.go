// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package instants

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// room is a Registry in a bubble, with the receipts that it has given back.
type room struct {
	*Registry[string, int]
	start time.Time
	mu    sync.Mutex
	back  []string // "receipt at second"
}

func newRoom(most int) *room {
	r := &room{start: time.Now()}
	r.Registry = New[string](most, time.Now, func(d time.Duration, f func()) func() bool { return time.AfterFunc(d, f).Stop }, func(receipts []int) {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, n := range receipts {
			r.back = append(r.back, fmt.Sprintf("%d at %v", n, time.Since(r.start)))
		}
	})
	return r
}

// given returns the receipts given back once the bubble is idle.
func (r *room) given() []string {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.back
}

func of(key string, cost int64) []Charge[string] {
	return []Charge[string]{{Key: key, Plan: 1, Cost: cost}}
}

// enter makes a request wait for the instant after second seconds, which is also its receipt.
func (r *room) enter(charges []Charge[string], second int) *Waiter[string, int] {
	return r.Enter(charges, Instant[int]{Due: r.start.Add(time.Duration(second) * time.Second), Receipt: second})
}

// leave makes a waiting request leave, and returns the receipts to give back.
func leave(t *testing.T, w *Waiter[string, int]) []int {
	t.Helper()
	back, ok := w.Leave()
	if !ok {
		t.Error("the instant of one that leaves has come")
	}
	return back
}

// check waits for requests to proceed, one after another, at these instants.
func (r *room) check(t *testing.T, waiters []*Waiter[string, int], seconds ...int) {
	t.Helper()
	for i, w := range waiters {
		<-w.Come()
		if at := w.Instant(); at.Receipt != seconds[i] || time.Since(r.start) != time.Duration(seconds[i])*time.Second {
			t.Errorf("request %d goes on after %v with receipt %d, want %d", i, time.Since(r.start), at.Receipt, seconds[i])
		}
	}
}

// over checks that the registry is empty.
func (r *room) over(t *testing.T) {
	t.Helper()
	r.Registry.mu.Lock()
	defer r.Registry.mu.Unlock()
	if r.Free() != 0 || len(r.lines) != 0 || len(r.vacant) != 0 {
		t.Errorf("at the end %d are free, with %d lines and %d keys, want none", r.Free(), len(r.lines), len(r.vacant))
	}
}

func TestThoseBehindMoveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(10)
		var ws []*Waiter[string, int]
		for second := 1; second <= 5; second++ {
			ws = append(ws, r.enter(of("a", 1), second))
		}
		other := r.enter(of("b", 1), 9)
		leave(t, ws[1])
		leave(t, ws[0])
		if r.Free() != 2 {
			t.Errorf("%d are free, want 2", r.Free())
		}
		late, at, others := r.Claim(of("a", 1), r.start.Add(4*time.Second))
		if late == nil || at.Receipt != 4 || len(others) != 0 {
			t.Fatalf("claimed %v of %+v, to be given back %v; want the 4th", late, at, others)
		}
		if w, _, _ := r.Claim(of("a", 1), r.start.Add(4*time.Second)); w != nil {
			t.Error("the 5th is not due by then, and was claimed")
		}
		r.check(t, []*Waiter[string, int]{ws[2], ws[3], ws[4], late, other}, 1, 2, 3, 4, 9)
		if _, ok := late.Leave(); ok {
			t.Error("one whose instant has come could leave it to others")
		}
		if want := []string{"5 at 5s"}; !slices.Equal(r.given(), want) {
			t.Errorf("given back %v, want %v", r.given(), want)
		}
		r.over(t)
	})
}

// TestAnswersOutOfOrder: a request with an earlier instant proceeds earlier, whichever was
// reported first.
func TestAnswersOutOfOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(10)
		three, one, two := r.enter(of("a", 1), 3), r.enter(of("a", 1), 1), r.enter(of("a", 1), 2)
		r.check(t, []*Waiter[string, int]{one, two, three}, 1, 2, 3)
		r.over(t)
	})
}

// TestOthersUnderTheKeyAreGivenBack: before a request with other charges reserves an instant,
// free ones under its key are given back, the last first.
func TestOthersUnderTheKeyAreGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(10)
		both := append(of("a", 1), of("b", 1)...)
		var ws []*Waiter[string, int]
		for second := 1; second <= 3; second++ {
			ws = append(ws, r.enter(both, second))
		}
		leave(t, ws[0])
		leave(t, ws[1])
		for _, charges := range [][]Charge[string]{of("c", 1), both[:0]} {
			if w, _, others := r.Claim(charges, r.start.Add(time.Hour)); w != nil || len(others) > 0 {
				t.Errorf("%v: claimed %v, to be given back %v", charges, w, others)
			}
		}
		if _, _, others := r.Claim(of("b", 2), r.start.Add(time.Hour)); !slices.Equal(others, []int{3, 2}) {
			t.Errorf("to be given back %v, want 3, 2", others)
		}
		r.check(t, ws[2:], 1)
		r.over(t)
	})
}

// TestWhoDoesNotWait: a request that may not wait gives back free instants of its own line, too.
func TestWhoDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(10)
		leave(t, r.enter(of("a", 1), 1))
		if _, _, others := r.Claim(of("a", 1), r.start.Add(time.Millisecond)); len(others) > 0 {
			t.Errorf("one of little patience has %v given back", others)
		}
		if w, _, others := r.Claim(of("a", 1), time.Time{}); w != nil || !slices.Equal(others, []int{1}) {
			t.Errorf("claimed %v, to be given back %v, want 1", w, others)
		}
		r.over(t)
	})
}

// TestFreeInstantsAreBounded: beyond the bound the last free instant is given back at once.
func TestFreeInstantsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(1)
		a, b, c := r.enter(of("a", 1), 1), r.enter(of("a", 1), 2), r.enter(of("a", 1), 3)
		if back := leave(t, a); len(back) != 0 {
			t.Errorf("to be given back %v, want nothing", back)
		}
		if back := leave(t, b); !slices.Equal(back, []int{3}) {
			t.Errorf("to be given back %v, want 3", back)
		}
		r.Resize(2)
		if back := leave(t, c); len(back) != 0 || r.Free() != 2 {
			t.Errorf("to be given back %v with %d free, want nothing and 2", back, r.Free())
		}
		time.Sleep(time.Minute)
		if want := []string{"1 at 1s", "2 at 2s"}; !slices.Equal(r.given(), want) {
			t.Errorf("given back %v, want %v", r.given(), want)
		}
		r.over(t)
	})
}

// TestAlone: requests without charges move no request up.
func TestAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(10)
		first, second := r.enter(nil, 1), r.enter(nil, 2)
		if back := leave(t, first); !slices.Equal(back, []int{1}) {
			t.Errorf("to be given back %v, want its own", back)
		}
		r.check(t, []*Waiter[string, int]{second}, 2)
		r.over(t)
	})
}

// TestRandomLines: in any order of requests, each instant is used by one request at most; no
// request proceeds later than its reserved or claimed instant; and none overtakes another in a
// line.
func TestRandomLines(t *testing.T) {
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			r := newRoom(rnd.IntN(8))
			type request struct {
				*Waiter[string, int]
				latest int
			}
			waiting := make(map[int64][]request) // by cost, in their order
			made, used := 0, 0                   // instants
			last := map[int64]int{1: 0, 2: 0}    // second of the latest instant of a line
			for range 200 {
				cost := rnd.Int64N(2) + 1
				charges := of("a", cost)
				now := int(time.Since(r.start) / time.Second)
				switch line := waiting[cost]; rnd.IntN(4) {
				case 0:
					time.Sleep(time.Duration(rnd.IntN(5)) * time.Second)
					synctest.Wait()
				case 1:
					if len(line) > 0 {
						i := rnd.IntN(len(line))
						if back, ok := line[i].Leave(); ok {
							waiting[cost] = slices.Delete(line, i, i+1)
							used += len(back)
						}
					}
				default:
					by := r.start.Add(time.Duration(now+rnd.IntN(40)) * time.Second)
					w, at, others := r.Claim(charges, by)
					if used += len(others); w == nil {
						last[cost] = max(last[cost], now) + rnd.IntN(3)
						at.Receipt, made = last[cost], made+1
						w = r.enter(charges, last[cost])
					}
					waiting[cost] = append(line, request{w, at.Receipt})
				}
				synctest.Wait()
				for cost, line := range waiting {
					for len(line) > 0 {
						select {
						case <-line[0].Come():
							if at := line[0].Instant(); at.Receipt > line[0].latest {
								t.Fatalf("seed %d: at %d, reserved for %d", seed, at.Receipt, line[0].latest)
							}
							line, used = line[1:], used+1
							continue
						default:
						}
						break
					}
					for _, w := range line {
						select {
						case <-w.Come():
							t.Fatalf("seed %d: one has overtaken", seed)
						default:
						}
					}
					waiting[cost] = line
				}
			}
			time.Sleep(time.Hour)
			for _, line := range waiting {
				for _, w := range line {
					<-w.Come()
					used++
				}
			}
			if used += len(r.given()); used != made {
				t.Fatalf("seed %d: of %d instants %d were used or given back", seed, made, used)
			}
			r.over(t)
		})
	}
}
