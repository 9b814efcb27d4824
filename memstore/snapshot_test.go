// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc64"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
)

// filled returns a store with states of every form, and their plans.
func filled(t testing.TB, clock *testkit.Clock, keys int) (*memstore.Store, []*sluice.Plan) {
	t.Helper()
	s := memstore.New(memstore.Options{Now: clock.Now})
	var plans []*sluice.Plan
	rnd := rand.New(rand.NewPCG(7, 7))
	for _, l := range limits {
		p := testkit.Plan(t, l.name, l.text)
		plans = append(plans, p)
		for i := range keys {
			testkit.Take(t, s, testkit.Request(p, fmt.Sprint(i), 1+rnd.Int64N(p.Term(0).Quota)))
			clock.Advance(time.Duration(rnd.IntN(1000)) * time.Microsecond)
		}
	}
	if _, err := s.Slot(t.Context(), slot("a")); err != nil {
		t.Fatal(err)
	}
	return s, plans
}

func slot(owner string) sluice.SlotRequest {
	return sluice.SlotRequest{Scope: "jobs", Limit: sluice.SlotLimit{Name: "slots", Cap: 1, TTL: time.Minute}, Key: "k", Owner: owner, Cost: 1}
}

func snapshot(t testing.TB, s *memstore.Store) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := s.Snapshot(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestRestoreForgetsNothing uses a restored store beside the original one: every decision must
// be the same, also if the stores differ in size.
func TestRestoreForgetsNothing(t *testing.T) {
	t.Parallel()
	for _, maxKeys := range []int{0, 40_000, 1 << 22} {
		t.Run(fmt.Sprint("MaxKeys ", maxKeys), func(t *testing.T) {
			t.Parallel()
			clock := testkit.NewClock()
			a, plans := filled(t, clock, 200)
			b := memstore.New(memstore.Options{Now: clock.Now, MaxKeys: maxKeys})
			if err := b.Restore(bytes.NewReader(snapshot(t, a))); err != nil {
				t.Fatal(err)
			}
			if got, most := b.Stats().States, a.Stats().States; got == 0 || got > most {
				t.Errorf("got %d states, want those of %d that are not idle", got, most)
			}
			if d, err := b.Slot(t.Context(), slot("b")); err != nil || d.Allowed {
				t.Errorf("slot: got %+v, %v, want denied: another holds it", d, err)
			}
			rnd := rand.New(rand.NewPCG(1, 1))
			for i := range 20_000 {
				p := plans[rnd.IntN(len(plans))]
				req := testkit.Request(p, fmt.Sprint(rnd.IntN(220)), 1+rnd.Int64N(p.Term(0).Quota))
				if got, want := testkit.Take(t, b, req), testkit.Take(t, a, req); got != want {
					t.Fatalf("take %d of %q: got %+v, want %+v", i, p.Scope(), got, want)
				}
				clock.Advance(time.Duration(rnd.IntN(20)) * time.Millisecond)
			}
		})
	}
}

// TestChangedLimitCarriesOverRestart changes limits while the program is down.
func TestChangedLimitCarriesOverRestart(t *testing.T) {
	t.Parallel()
	for _, l := range limits {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			clock := testkit.NewClock()
			a := memstore.New(memstore.Options{Now: clock.Now})
			from := testkit.Plan(t, "s", "n: "+l.text)
			other := from.Term(0).Limit
			if testkit.Token(other).WarmUp > 0 { // a limit of another rate has a state of its own
				other.Burst++
			} else {
				other.Quota++
			}
			other.Name = "n"
			to := testkit.Compile(t, "s", other)
			testkit.Take(t, a, testkit.Request(from, "another", 2))
			clock.Advance(50 * time.Hour) // after the start of the rule
			testkit.Take(t, a, testkit.Request(from, "k", 2))
			clock.Advance(time.Millisecond)
			b := memstore.New(memstore.Options{Now: clock.Now})
			if err := b.Restore(bytes.NewReader(snapshot(t, a))); err != nil {
				t.Fatal(err)
			}
			if got, want := testkit.Take(t, b, testkit.Request(to, "k", 1)), testkit.Take(t, a, testkit.Request(to, "k", 1)); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
			if got := b.Stats().States; got != 1 {
				t.Errorf("got %d states, want 1: the old limit's is carried over", got)
			}
		})
	}
}

// sealed returns body with the checksum it must have.
func sealed(body []byte) []byte {
	sum := crc64.Checksum(body, crc64.MakeTable(crc64.ECMA))
	return binary.LittleEndian.AppendUint64(bytes.Clone(body), sum)
}

func TestRestoreRefuses(t *testing.T) {
	t.Parallel()
	clock := testkit.NewClock()
	a, _ := filled(t, clock, 20)
	whole := snapshot(t, a)
	body := whole[:len(whole)-8]
	changed := func(at int, b byte) []byte {
		c := bytes.Clone(whole)
		c[at] ^= b
		return c
	}
	const head = 7 + 1 + 32 + 2 // magic, version, secret, no voids
	tests := []struct {
		name, want string
		maxKeys    int
		data       []byte
	}{
		{"nothing", "cut short", 0, nil},
		{"another file", "not a snapshot", 0, []byte("#!/bin/sh\necho hello")},
		{"a later version", "version 2, and this program reads version 1: restore it with the release that wrote it", 0, append([]byte("sluicem\x02"), whole[8:]...)},
		{"one byte less", "cut short", 0, whole[:len(whole)-1]},
		{"half", "cut short", 0, whole[:len(whole)/2]},
		{"a byte more", "data follows", 0, append(bytes.Clone(whole), 0)},
		{"a wrong checksum", "checksum", 0, changed(len(whole)-1, 1)},
		{"another secret", "checksum", 0, changed(10, 4)},
		{"too many states", "larger MaxKeys", 100, whole},
		{"no shard", "damaged", 0, sealed(append(bytes.Clone(body[:head]), 7))},
		{"a huge shard", "cut short", 0, sealed(append(bytes.Clone(body[:head]), 1, 0xff, 0xff, 0xff, 0xff))},
		{"an overlong number", "overflow", 0, sealed(append(bytes.Clone(body[:head]), append([]byte{1, 1, 0, 0, 0, 2, 1, 2, 3, 4, 5, 6, 7, 8}, bytes.Repeat([]byte{0xff}, 11)...)...))},
		{"a state of no size", "is not one", 0, sealed(append(bytes.Clone(body[:head]), 1, 1, 0, 0, 0, 67, 1, 2, 3, 4, 5, 6, 7, 8, 2, 2, 2, 2, 2, 0))},
		{"a state of no limit", "which is missing", 0, sealed(append(bytes.Clone(body[:head]), 1, 1, 0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 2, 2, 2, 2, 2, 9))},
		{"a state without identity", "is not one", 0, sealed(append(bytes.Clone(body[:head]), 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 0))},
		{"a ring beyond its size", "more than", 0, sealed(append(bytes.Clone(body[:head]), 1, 1, 0, 0, 0, 2, 1, 2, 3, 4, 5, 6, 7, 8, 2, 2, 2, 0, 0, 0, 4, 5, 1))},
		{"a huge ring", "cut short", 0, sealed(append(bytes.Clone(body[:head]), 1, 1, 0, 0, 0, 2, 1, 2, 3, 4, 5, 6, 7, 8, 2, 2, 2, 0, 0, 0, 0xff, 0xff, 0x3f, 0, 0))},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := memstore.New(memstore.Options{Now: clock.Now, MaxKeys: tt.maxKeys})
			err := s.Restore(bytes.NewReader(tt.data))
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "memstore: restore: byte ") {
				t.Fatalf("got %v, want an error with %q and its place", err, tt.want)
			}
			if got := s.Stats().States; got != 0 {
				t.Errorf("got %d states after it, want none", got)
			}
			if tt.maxKeys == 0 {
				if err := s.Restore(bytes.NewReader(whole)); err != nil {
					t.Errorf("got %v for a good snapshot after it, want no error", err)
				}
			}
		})
	}
	if err := a.Restore(bytes.NewReader(whole)); err == nil || !strings.Contains(err.Error(), "holds") {
		t.Errorf("a store in use: got %v, want an error that says so", err)
	}
}

var errFull = errors.New("disk full")

type fullDisk struct{ left int }

func (d *fullDisk) Write(b []byte) (int, error) {
	if len(b) > d.left {
		return 0, errFull
	}
	d.left -= len(b)
	return len(b), nil
}

func TestSnapshotReportsAWriteThatFails(t *testing.T) {
	t.Parallel()
	s, _ := filled(t, testkit.NewClock(), 500)
	for _, room := range []int{0, 70_000} {
		if err := s.Snapshot(&fullDisk{room}); !errors.Is(err, errFull) {
			t.Errorf("room for %d bytes: got %v, want %v", room, err, errFull)
		}
	}
}

// TestSnapshotDuringTakes takes while snapshots are written: each snapshot must be
// complete, and hold the keys that are not used meanwhile.
func TestSnapshotDuringTakes(t *testing.T) {
	t.Parallel()
	clock := testkit.NewClock()
	s, plans := filled(t, clock, 50)
	p := testkit.Plan(t, "quiet", "3/h")
	for i := range 1000 {
		testkit.Take(t, s, testkit.Request(p, fmt.Sprint(i), 3))
	}
	stop, ended := make(chan struct{}), make(chan error)
	go func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				ended <- nil
				return
			default:
			}
			if _, err := s.Take(t.Context(), testkit.Request(plans[i%len(plans)], fmt.Sprint(i%3000), 1)); err != nil {
				ended <- err
				return
			}
		}
	}()
	for range 5 {
		r, w := io.Pipe()
		go func() { w.CloseWithError(s.Snapshot(w)) }()
		b := memstore.New(memstore.Options{Now: clock.Now})
		if err := b.Restore(r); err != nil {
			t.Fatal(err)
		}
		for i := range 1000 {
			if testkit.Take(t, b, testkit.Request(p, fmt.Sprint(i), 1)).Allowed {
				t.Fatalf("key %d: got allowed, want denied: its state is in the snapshot", i)
			}
		}
	}
	close(stop)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// FuzzRestore reads damaged snapshots with a correct checksum, so that the reader itself
// must find the fault: it returns an error or the store works.
func FuzzRestore(f *testing.F) {
	clock := testkit.NewClock()
	s := memstore.New(memstore.Options{Now: clock.Now})
	for _, l := range limits {
		testkit.Take(f, s, testkit.Request(testkit.Plan(f, l.name, l.text), "k", 1))
	}
	whole := snapshot(f, s)
	f.Add(whole[:len(whole)-8])
	f.Add(whole[:60])
	f.Add([]byte("sluicem\x01"))
	f.Fuzz(func(t *testing.T, body []byte) {
		s := memstore.New(memstore.Options{Now: clock.Now, MaxKeys: 1000})
		for _, data := range [][]byte{body, sealed(body)} {
			if err := s.Restore(bytes.NewReader(data)); err != nil {
				continue
			}
			if got := s.Stats().States; got > 2000 {
				t.Fatalf("got %d states of at most 2000", got)
			}
			again := snapshot(t, s)
			if err := memstore.New(memstore.Options{Now: clock.Now, MaxKeys: 1000}).Restore(bytes.NewReader(again)); err != nil {
				t.Fatalf("what was restored and written again: %v", err)
			}
			return
		}
	})
}
