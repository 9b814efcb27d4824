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

// epoch is a moment like any other.
const epoch = 1_790_000_000_123_456

// TestLimitPutBackGivesNothing: a limit that is lowered and put back, in turn and
// at one instant, gives no more than the larger one.
func TestLimitPutBackGivesNothing(t *testing.T) {
	server := redistest.Shared(t, redistest.Redis(t))
	for _, c := range []struct {
		texts [2]string
		most  int64
	}{
		{[2]string{"x: 1000/day", "x: 10/day"}, 1000},
		{[2]string{"x: 1000/day leaky-bucket burst 1000", "x: 10/day leaky-bucket burst 10"}, 1000},
		{[2]string{"x: 1/s burst 100000", "x: 1/s burst 10"}, 100_000},
		{[2]string{"x: 1000/h interval-refill", "x: 10/h interval-refill"}, 1000},
		{[2]string{"x: 1000/h fixed-window", "x: 10/h fixed-window"}, 1000},
		{[2]string{"x: 1000/h sliding-log", "x: 10/h sliding-log"}, 1000},
		{[2]string{"x: 1000/h sliding-counter", "x: 10/h sliding-counter"}, 1000},
		{[2]string{"x: 1000/h sliding-histogram", "x: 10/h sliding-histogram"}, 1000},
		{[2]string{"x: 1000/h sliding-log", "x: 10/min sliding-log"}, 1010},
		{[2]string{"x: 1000/h", "x: 10/min fixed-window"}, 1010},
	} {
		t.Run(fmt.Sprint(c.texts), func(t *testing.T) {
			s := clocked(t, server, t.Name())
			s.Set(epoch)
			var sum int64
			for turn := range 100 {
				p := testkit.Plan(t, "s", c.texts[turn%2])
				req := testkit.Request(p, "k", sluice.MaxQuota)
				req.Op = sluice.OpTakeUpTo
				sum += testkit.Take(t, s.Store, req).Spent
			}
			if sum > c.most {
				t.Errorf("got %d units, want at most %d", sum, c.most)
			}
		})
	}
}

// TestNodesOfTwoVersionsStarveNobody: while half of the nodes have a changed
// limit, a key gets as much as the lesser of the two gives.
func TestNodesOfTwoVersionsStarveNobody(t *testing.T) {
	server := redistest.Shared(t, redistest.Redis(t))
	minutes := testkit.Steps(6, 60)
	for _, c := range []struct {
		texts [2]string
		every time.Duration
		least int // in a minute
	}{
		{[2]string{"x: 60/min", "x: 72/min"}, 500 * time.Millisecond, 60},
		{[2]string{"x: 60/min", "x: 120/min"}, 300 * time.Millisecond, 60},
		{[2]string{"x: 10/min", "x: 12/min"}, 500 * time.Millisecond, 10},
		{[2]string{"x: 5/min sliding-log", "x: 6/min sliding-log"}, 500 * time.Millisecond, 5},
		{[2]string{"x: 10/min sliding-histogram", "x: 12/min sliding-histogram"}, 500 * time.Millisecond, 10},
	} {
		t.Run(fmt.Sprint(c.texts), func(t *testing.T) {
			nodes := [2]onServer{clocked(t, server, t.Name()), clocked(t, server, t.Name())}
			plans := [2]*sluice.Plan{testkit.Plan(t, "s", c.texts[0]), testkit.Plan(t, "s", c.texts[1])}
			admitted := 0
			for at, turn := time.Duration(0), 0; at < time.Duration(minutes)*time.Minute; at, turn = at+c.every, 1-turn {
				nodes[turn].Set(epoch + at.Microseconds())
				if testkit.Take(t, nodes[turn].Store, testkit.Request(plans[turn], "k", 1)).Allowed {
					admitted++
				}
			}
			if admitted < minutes*c.least {
				t.Errorf("got %d admitted in %d minutes, want at least %d", admitted, minutes, minutes*c.least)
			}
		})
	}
}

// TestReceiptOfAnotherLimitGivesNothing: units of a limit that has been replaced
// are not given back in what others have spent since.
func TestReceiptOfAnotherLimitGivesNothing(t *testing.T) {
	server := redistest.Shared(t, redistest.Redis(t))
	for _, c := range []struct {
		name  string
		under int // which limit the refund names
	}{{"old", 0}, {"new", 1}} {
		t.Run(c.name, func(t *testing.T) {
			s := clocked(t, server, t.Name())
			plans := []*sluice.Plan{testkit.Plan(t, "s", "x: 100/min"), testkit.Plan(t, "s", "x: 1/min burst 100")}
			s.Set(epoch)
			first := testkit.Take(t, s.Store, testkit.Request(plans[0], "k", 100))
			s.Set(epoch + time.Minute.Microseconds())
			if d := testkit.Take(t, s.Store, testkit.Request(plans[1], "k", 100)); !d.Allowed {
				t.Fatalf("got %+v, want allowed", d)
			}
			refund := testkit.Request(plans[c.under], "k", 100)
			refund.Op, refund.At, refund.Due = sluice.OpRefund, first.At, first.Due
			if d := testkit.Take(t, s.Store, refund); d.Spent != 0 {
				t.Errorf("the refund gives back %d, want 0", -d.Spent)
			}
			if d := testkit.Take(t, s.Store, testkit.Request(plans[1], "k", 1)); d.Allowed {
				t.Errorf("a take behind it: got %+v, want denied", d)
			}
		})
	}
}

// TestManyVersionsForgetNothing: what a key has spent counts under every version
// of a limit, however many there are.
func TestManyVersionsForgetNothing(t *testing.T) {
	s := clocked(t, redistest.Shared(t, redistest.Redis(t)), "")
	s.Set(epoch)
	const versions = 100
	var last *sluice.Plan
	for i := range versions {
		last = testkit.Plan(t, "s", fmt.Sprintf("x: %d/h sliding-log", 100+i))
		key := fmt.Sprint("other ", i)
		if i == 0 {
			key = "k"
		}
		if d := testkit.Take(t, s.Store, testkit.Request(last, key, 100)); !d.Allowed {
			t.Fatalf("version %d: got %+v", i, d)
		}
	}
	req := testkit.Request(last, "k", sluice.MaxQuota)
	req.Op = sluice.OpTakeUpTo
	if d := testkit.Take(t, s.Store, req); d.Spent != versions-1 {
		t.Errorf("the last version gives %d, want %d", d.Spent, versions-1)
	}
}

// TestSeldomClientsAreServed: what a rule withholds it withholds at its start,
// not from every key that returns, and not again in every process.
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

// TestStartIsShared: a process that comes later knows since when the rule is, and
// one whose server's clock has stepped back behind that starts it anew.
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

// TestStartLivesOn: the start of a rule lives for more than a year from its last
// use, of which a process that uses it all the time reports once a day.
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
		if err := client.Do(t.Context(), client.B().Pexpire().Key(key).Milliseconds(3600_000).Build()).Error(); err != nil {
			t.Fatal(err)
		}
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

// TestChargeAfterTheClockSteppedBack: of a request over two limits, the one with
// short windows is not charged in the year in which the other's balance came to
// be, once the server's clock has stepped back behind that.
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
