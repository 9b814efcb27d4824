// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/remote"
)

var errBroken = errors.New("store is broken")

// fault is a way in which a store fails.
type fault string

const (
	none   fault = "none"
	erring fault = "errors"            // returns an error at once
	unsent fault = "does not send"     // returns at once that it has not sent the request
	hung   fault = "hangs"             // decides nothing and ignores its context until it is mended
	lost   fault = "loses answers"     // decides, and returns an error
	late   fault = "answers late"      // decides, and answers when it is mended
	slow   fault = "is slow"           // decides after a while, whatever its context says
	deaf   fault = "heeds its context" // waits for the end of its context
	tardy  fault = "is tardy"          // decides, and answers soon, unless its context has ended by then
)

const (
	slowness  = 3 * time.Second
	tardiness = 250 * time.Millisecond
)

// faulty is a store of this process that can be broken and mended. It ignores its context: see
// strict.
type faulty struct {
	*memstore.Store
	detach    bool // to be wrapped with Options.Detach instead of strict
	mu        sync.Mutex
	fault     fault
	mended    chan struct{}
	now, most int           // concurrent calls that count, now and at most
	counts    func() bool   // whether a call that comes now counts; nil if all do
	pause     time.Duration // of every call that is answered
	refuses   sluice.Op     // the operation whose requests fail, if not 0
}

func newFaulty() *faulty {
	return &faulty{Store: memstore.New(memstore.Options{MaxKeys: 10_000}), fault: none, mended: make(chan struct{})}
}

func (f *faulty) set(next fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = next
	if next == none {
		close(f.mended)
		f.mended = make(chan struct{})
	}
}

func (f *faulty) enter() (fault fault, mended chan struct{}, leave func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.counts != nil && !f.counts() {
		return f.fault, f.mended, func() {}
	}
	f.now++
	f.most = max(f.most, f.now)
	return f.fault, f.mended, f.leave
}

func (f *faulty) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now--
}

// peak returns the most concurrent calls since it was last called.
func (f *faulty) peak() (most int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	most, f.most = f.most, f.now
	return most
}

func (f *faulty) do(ctx context.Context, decide func() error) error {
	fault, mended, leave := f.enter()
	defer leave()
	time.Sleep(f.pause)
	switch fault {
	case erring:
		return errBroken
	case unsent:
		return &sluice.NotSentError{Err: errBroken}
	case hung:
		<-mended
		return errBroken
	case deaf:
		<-ctx.Done()
		return ctx.Err()
	case slow:
		time.Sleep(slowness)
	case tardy:
		if err := decide(); err != nil {
			return err
		}
		time.Sleep(tardiness)
		return ctx.Err() // like a client that no longer reads answers
	case lost, late:
		err := decide()
		if fault == lost {
			return errBroken
		}
		<-mended
		return err
	}
	return decide()
}

func (f *faulty) Take(ctx context.Context, req sluice.Request) (d sluice.Decision, err error) {
	failed := f.do(ctx, func() error {
		if f.refused(&req) {
			return errBroken
		}
		d, err = f.Store.Take(ctx, req)
		return err
	})
	if failed != nil {
		return sluice.Decision{}, failed
	}
	return d, nil
}

func (f *faulty) TakeBatch(ctx context.Context, reqs []sluice.Request, out []sluice.Result) error {
	return f.do(ctx, func() error {
		for i := range reqs {
			if f.refused(&reqs[i]) {
				return errBroken
			}
		}
		return sluice.TakeBatch(context.WithoutCancel(ctx), f.Store, reqs, out)
	})
}

func (f *faulty) refused(req *sluice.Request) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.refuses != 0 && req.Op == f.refuses
}

func (f *faulty) Slot(ctx context.Context, req sluice.SlotRequest) (d sluice.SlotDecision, err error) {
	failed := f.do(ctx, func() error {
		d, err = f.Store.Slot(ctx, req)
		return err
	})
	if failed != nil {
		return sluice.SlotDecision{}, failed
	}
	return d, nil
}

// both runs a test on a store that returns when its context ends, and on a detached one that
// ignores its context.
func both(t *testing.T, test func(*testing.T, *faulty)) {
	t.Helper()
	for _, detach := range []bool{false, true} {
		t.Run(fmt.Sprint("detach ", detach), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFaulty()
				f.detach = detach
				test(t, f)
			})
		})
	}
}

func (f *faulty) detached() bool { return f.detach }

// wrap returns a Store that wraps f, which is made strict unless it is detached.
func wrap(t *testing.T, f sluice.Store, opts remote.Options) *remote.Store {
	t.Helper()
	if store, ok := f.(interface {
		sluice.BatchStore
		sluice.SlotStore
		detached() bool
	}); ok {
		if opts.Detach = store.detached(); !opts.Detach {
			f = strict{store, store}
		}
	}
	opts.Local = memstore.New(memstore.Options{MaxKeys: bounds.DefaultMaxOwed})
	s, err := remote.Wrap(f, opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// leaping returns a clock by which all memory of a key has expired.
func leaping() func() time.Time {
	began := time.Now()
	var readings atomic.Int64
	return func() time.Time { return began.Add(time.Duration(readings.Add(1)) * time.Hour) }
}

// end closes s and mends f. No goroutine may remain: the bubble of the test would not end.
func end(t *testing.T, f *faulty, s *remote.Store) {
	t.Helper()
	f.set(none)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	time.Sleep(2 * slowness)
	synctest.Wait()
	if st := s.Stats(); st.InFlight != 0 {
		t.Errorf("%d calls left in flight", st.InFlight)
	}
}

// bring breaks the store and sends requests until the breaker is open.
func bring(t *testing.T, f *faulty, s *remote.Store, to fault) {
	t.Helper()
	f.set(to)
	p := testkit.Plan(t, "breaking", "1000000/s")
	for range 20 {
		if s.Err() != nil {
			return
		}
		_, err := s.Take(context.Background(), sluice.Request{Op: sluice.OpPeek, Charge: sluice.Charge{Plan: p}})
		if _, unavailable := errors.AsType[*remote.UnavailableError](err); err != nil && !unavailable {
			t.Fatal(err)
		}
	}
	t.Fatal("the breaker did not open")
}

// mend mends f and waits until all requests are back.
func mend(t *testing.T, f *faulty, s *remote.Store) time.Duration {
	t.Helper()
	f.set(none)
	began := time.Now()
	for s.Err() != nil {
		if time.Since(began) > time.Minute {
			t.Fatal("not healthy after a minute")
		}
		time.Sleep(time.Millisecond)
	}
	return time.Since(began)
}
