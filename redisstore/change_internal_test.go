// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
)

// epoch is an arbitrary moment.
const epoch = 1_790_000_000_123_456

// TestSeldomClientsAreServed: a rule withholds units at its start only, not from every key
// that returns, and not again in every process.
func TestSeldomClientsAreServed(t *testing.T) {
	server := redistest.Shared(t, redistest.Redis(t))
	for _, c := range []struct {
		limit string
		every time.Duration
	}{
		{"100/min initial 0", 3 * time.Minute},
		{"5/s initial 0", 10 * time.Second},
		{"5/min sliding-counter pre-filled", 3 * time.Minute},
		{"10/min sliding-counter pre-filled sub-windows 5", 3 * time.Minute},
		{"10/min interval-refill initial 0", 3 * time.Minute},
	} {
		t.Run(c.limit, func(t *testing.T) {
			p := testkit.Plan(t, "s", c.limit)
			served, s := 0, clocked(t, server, t.Name())
			for i := range 20 {
				if i == 10 {
					s = clocked(t, server, t.Name()) // another process
				}
				s.Set(epoch + int64(i)*c.every.Microseconds())
				if testkit.Take(t, s.Store, testkit.Request(p, fmt.Sprint("key ", i%2), 1)).Allowed {
					served++
				}
			}
			if served < 19 {
				t.Errorf("got %d of 20 served, want all but one at the start", served)
			}
		})
	}
}

// TestStartIsShared: a later process knows when the rule started, and starts it anew if the
// server's clock has stepped back behind that.
func TestStartIsShared(t *testing.T) {
	server := redistest.Shared(t, redistest.Redis(t))
	p := testkit.Plan(t, "s", "60/min initial 0")
	a, b := clocked(t, server, t.Name()), clocked(t, server, t.Name())
	a.Set(epoch)
	if d := testkit.Take(t, a.Store, testkit.Request(p, "k", 1)); d.Allowed || d.RetryAfter != time.Second {
		t.Errorf("at the start: got %+v, want denied for a second", d)
	}
	b.Set(epoch + 10_000_000)
	req := testkit.Request(p, "k", sluice.MaxQuota)
	req.Op = sluice.OpTakeUpTo
	if d := testkit.Take(t, b.Store, req); d.Spent != 10 {
		t.Errorf("10 seconds later another process gives %d, want 10", d.Spent)
	}
	b.Set(epoch - 3600_000_000)
	if d := testkit.Take(t, b.Store, testkit.Request(p, "l", 1)); d.Allowed || d.RetryAfter != time.Second {
		t.Errorf("an hour before: got %+v, want denied for a second", d)
	}
	c := clocked(t, server, t.Name())
	c.Set(epoch - 3540_000_000)
	req.Key = "m"
	if d := testkit.Take(t, c.Store, req); d.Spent != 60 {
		t.Errorf("a minute behind that: got %d, want 60", d.Spent)
	}
}

// TestStartLivesOn: the start of a rule lives for more than a year from its last use; a
// process that uses it all the time reports that once a day.
func TestStartLivesOn(t *testing.T) {
	server := redistest.Shared(t, redistest.Redis(t))
	client := server.Client(t)
	s := clocked(t, server, "")
	p := testkit.Plan(t, "s", "60/min initial 0")
	key := s.keyer.start("s", p.Term(0).Name)
	use := func(after time.Duration) time.Duration {
		t.Helper()
		s.clock = func() time.Time { return time.Now().Add(after) }
		s.Set(epoch + after.Microseconds())
		if _, err := s.Take(t.Context(), testkit.Request(p, "k", 1)); err != nil {
			t.Fatal(err)
		}
		left := redistest.Number(t, client, "PTTL", key)
		redistest.Do(t, client, "PEXPIRE", key, "3600000")
		return time.Duration(left) * time.Millisecond
	}
	for _, c := range []struct{ after, least, most time.Duration }{
		{0, 399 * 24 * time.Hour, 401 * 24 * time.Hour},
		{time.Hour, 0, 2 * time.Hour},
		{25 * time.Hour, 399 * 24 * time.Hour, 401 * 24 * time.Hour},
	} {
		if left := use(c.after); left < c.least || left > c.most {
			t.Errorf("after %v: got %v to live, want %v to %v", c.after, left, c.least, c.most)
		}
	}
}

// TestChargeAfterTheClockSteppedBack: once the server's clock has stepped back, a request over
// two limits does not charge the one with short windows in the year in which the balance of
// the other began.
func TestChargeAfterTheClockSteppedBack(t *testing.T) {
	server := redistest.Shared(t, redistest.Redis(t))
	for _, texts := range [][2]string{
		{"x: 50/366day interval-refill", "x: 54/366day interval-refill"},
		{"x: 50/366day", "x: 54/366day"},
	} {
		t.Run(texts[1], func(t *testing.T) {
			const day = "y: 3826/day fixed-window calendar Europe/London"
			s := clocked(t, server, t.Name())
			s.Set(epoch)
			for _, text := range texts {
				testkit.Take(t, s.Store, testkit.Request(testkit.Plan(t, "s", text), "k", 1))
			}
			s.Set(epoch - 337*24*time.Hour.Microseconds())
			req := testkit.Request(testkit.Plan(t, "s", texts[1], day), "k", 1)
			req.Op = sluice.OpCharge
			if d := testkit.Take(t, s.Store, req); d.At > sluice.Instant(s.micros.Load()+sluice.MaxWait.Microseconds()) {
				t.Errorf("charged at %d: got %+v", s.micros.Load(), d)
			}
			req = testkit.Request(testkit.Plan(t, "s", day), "k", sluice.MaxQuota)
			req.Op = sluice.OpTakeUpTo
			if d := testkit.Take(t, s.Store, req); d.Spent != 3825 {
				t.Errorf("of the day's 3826, 1 of them charged, got %d", d.Spent)
			}
		})
	}
}
