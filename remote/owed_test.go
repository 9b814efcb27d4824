// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote_test

import (
	"context"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/remote"
)

// TestRefundOfWhatIsNotOwed: a node admits units that may have been sent. They are not owed,
// so a refund of them does not reduce the debt of other units.
func TestRefundOfWhatIsNotOwed(t *testing.T) {
	both(t, func(t *testing.T, f *faulty) {
		s := wrap(t, f, remote.Options{Policy: sluice.FailLocal, Failures: 2})
		defer end(t, f, s)
		l := testkit.Limiter(t, s, "api", "100/h sliding-log")
		f.set(deaf)
		sent, err := l.Take(t.Context(), "k", 50)
		if err != nil || !sent.Allowed {
			t.Fatalf("%+v, %v", sent, err)
		}
		for range 2 {
			if _, err := l.Peek(t.Context(), "k", 1); err != nil {
				t.Fatal(err)
			}
		}
		if s.Err() == nil {
			t.Fatal("the outage is not noticed")
		}
		for range 40 {
			if d, err := l.Take(t.Context(), "k", 1); err != nil || !d.Allowed {
				t.Fatalf("%+v, %v", d, err)
			}
		}
		if _, err := l.Settle(t.Context(), "k", sent, 0); err != nil {
			t.Fatal(err)
		}
		mend(t, f, s)
		if got := testkit.Spent(t, f.Store, l.Plan(), "k"); got != 40 {
			t.Errorf("the store counts %d, want the 40 that were let through and kept", got)
		}
	})
}

// TestOwedKeepsItsKeyAlone: the debt of a key that is a part of a longer text, such as a URI,
// does not keep that text in memory.
func TestOwedKeepsItsKeyAlone(t *testing.T) {
	const keys, long = 200, 100_000
	f := newFaulty()
	f.set(erring)
	s := wrap(t, f, remote.Options{Policy: sluice.FailLocal, Probe: time.Hour})
	p := testkit.Plan(t, "api", "100/h")
	memory := func() (m runtime.MemStats) {
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m
	}
	before := memory()
	for i := range keys {
		uri := strconv.Itoa(i) + "?" + strings.Repeat("x", long)
		testkit.Take(t, s, testkit.Request(p, uri[:strings.IndexByte(uri, '?')], 1))
	}
	if n := s.Stats().Owed; n < keys/2 {
		t.Fatalf("%d keys owe", n)
	}
	if grown := int64(memory().HeapAlloc) - int64(before.HeapAlloc); grown > keys*long/2 {
		t.Errorf("%d bytes for each key that owes", grown/keys)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// heldLease is a store that decides leases in time but delays the answers.
type heldLease struct {
	*memstore.Store
	mu   sync.Mutex
	gate chan struct{}
}

func (s *heldLease) hold(gate chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gate = gate
}

func (s *heldLease) Take(ctx context.Context, req sluice.Request) (sluice.Decision, error) {
	d, err := s.Store.Take(ctx, req)
	s.mu.Lock()
	gate := s.gate
	s.mu.Unlock()
	if gate != nil && req.Op == sluice.OpTakeUpTo {
		<-gate
	}
	return d, err
}

// TestLeaseOverAReset: units leased before a reset are not spent if their answer comes after
// it: the store has forgotten them.
func TestLeaseOverAReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &heldLease{Store: memstore.New(memstore.Options{})}
		terms := sluice.LeaseTerms{TTL: 10 * time.Second, Units: 50}
		s, err := remote.Wrap(store, remote.Options{Timeout: time.Minute, Lease: func(*sluice.Plan) (sluice.LeaseTerms, bool) { return terms, true }})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close() //nolint:errcheck // its error is not a part of this test
		p := testkit.Plan(t, "api", "1000/h sliding-log")
		one, reset := testkit.Request(p, "k", 1), testkit.Request(p, "k", 0)
		reset.Op = sluice.OpReset
		for range 500 {
			testkit.Take(t, s, one)
		}
		time.Sleep(11 * time.Second) // the leases end
		for range 120 {
			testkit.Take(t, s, one)
		}
		if s.Stats().Leases.Asked == 0 {
			t.Fatal("nothing is leased")
		}
		testkit.Take(t, s, reset)
		gate := make(chan struct{})
		store.hold(gate)
		go testkit.Take(t, s, one)
		synctest.Wait()
		testkit.Take(t, s, reset)
		store.hold(nil)
		close(gate)
		synctest.Wait()
		allowed := 0
		for range 1100 {
			if d := testkit.Take(t, s, one); d.Allowed {
				allowed++
			}
		}
		if allowed > 1000 {
			t.Errorf("%d pass behind the reset, of 1000", allowed)
		}
	})
}
