// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
)

// TestLimitThatLooked: a limit that only peeks at a key is registered, even if it finds a
// state that another limit wrote.
func TestLimitThatLooked(t *testing.T) {
	var found []sluice.Decision
	for _, looked := range []string{"k", "another"} {
		now := time.UnixMicro(500_000 * time.Hour.Microseconds())
		s := memstore.New(memstore.Options{MaxKeys: 1000, Now: func() time.Time { return now }})
		a, b := testkit.Plan(t, "s", "x: 1000003/day burst 300000"), testkit.Plan(t, "s", "x: 2000003/day burst 200000")
		peek := func(key string, cost int64) sluice.Decision {
			req := testkit.Request(b, key, cost)
			req.Op = sluice.OpPeek
			return testkit.Take(t, s, req)
		}
		testkit.Take(t, s, testkit.Request(a, "k", 100))
		peek(looked, 2)
		now = now.Add(2 * time.Hour)
		testkit.Take(t, s, testkit.Request(a, "k", 300_000))
		now = now.Add(2 * time.Hour)
		found = append(found, peek("k", 200_000))
	}
	if found[0] != found[1] {
		t.Errorf("it looked at the key: %+v\nat another: %+v", found[0], found[1])
	}
}

// TestStartStays: the start of a rule is kept, however many other rules come, and even if
// no key has a state.
func TestStartStays(t *testing.T) {
	for _, text := range []string{"x: 20/min sliding-counter pre-filled", "x: 1000003/h burst 100000 initial 0"} {
		now := time.UnixMicro(500_000 * time.Hour.Microseconds())
		s := memstore.New(memstore.Options{MaxKeys: 100_000, Now: func() time.Time { return now }})
		p := testkit.Plan(t, "s", text)
		ask := func(op sluice.Op) sluice.Decision {
			req := testkit.Request(p, "k", 1)
			req.Op = op
			return testkit.Take(t, s, req)
		}
		ask(sluice.OpTake)
		now = now.Add(100 * 24 * time.Hour)
		before := ask(sluice.OpPeek).Remaining
		ask(sluice.OpReset)
		now = now.Add(3 * time.Second)
		for i := range 1100 {
			testkit.Take(t, s, testkit.Request(testkit.Plan(t, fmt.Sprint("other ", i), "x: 5/min sliding-log"), "k", 1))
		}
		if after := ask(sluice.OpPeek).Remaining; after != before {
			t.Errorf("%s: %d left, %d before the others came", text, after, before)
		}
	}
}

// between is a writer that calls a function at its first write.
type between struct {
	bytes.Buffer
	happens func()
}

func (w *between) Write(b []byte) (int, error) {
	if f := w.happens; f != nil {
		w.happens = nil
		f()
	}
	return w.Buffer.Write(b)
}

// TestSnapshotWhileLimitsChange: a snapshot does not mix up limits that are forgotten while it
// is written with new ones.
func TestSnapshotWhileLimitsChange(t *testing.T) {
	now := time.UnixMicro(500_000 * time.Hour.Microseconds())
	o := memstore.Options{MaxKeys: 1 << 18, Now: func() time.Time { return now }}
	s := memstore.New(o)
	fill := testkit.Plan(t, "fill", "x: 9/day sliding-log")
	for i := range testkit.Steps(20_000, 60_000) { // it is written in several parts
		testkit.Take(t, s, testkit.Request(fill, fmt.Sprint(i), 1))
	}
	old := func(i int) sluice.Request {
		return testkit.Request(testkit.Plan(t, fmt.Sprint("old ", i), "x: 5/day sliding-log"), "k", 5)
	}
	for i := range 500 {
		testkit.Take(t, s, old(i))
	}
	next := func(i int) sluice.Request {
		return testkit.Request(testkit.Plan(t, fmt.Sprint("next ", i), "x: 5/day sliding-counter"), "k", 5)
	}
	limits := testkit.Steps(1000, 3000)
	var saved between
	saved.happens = func() {
		for i := range 500 {
			req := old(i)
			req.Op = sluice.OpReset
			testkit.Take(t, s, req)
		}
		now = now.Add(3 * time.Second)
		for i := range limits {
			testkit.Take(t, s, next(i))
		}
	}
	if err := s.Snapshot(&saved); err != nil {
		t.Fatal(err)
	}
	restored := memstore.New(o)
	if err := restored.Restore(&saved.Buffer); err != nil {
		t.Fatal(err)
	}
	kept := 0
	for i := range limits {
		req := next(i)
		req.Op = sluice.OpPeek
		// A key that came too late for the snapshot is new.
		switch got := testkit.Take(t, restored, req); {
		case !got.Allowed && got == testkit.Take(t, s, req):
			kept++
		case got.Remaining != 5:
			t.Fatalf("limit %d: %+v", i, got)
		}
	}
	if kept == 0 {
		t.Error("all came too late: this shows nothing")
	}
}
