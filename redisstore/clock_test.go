// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
)

// TestClockOfThisMachineHasNoSay: a store on a machine with a wrong clock decides like any
// other, also for calendar windows.
func TestClockOfThisMachineHasNoSay(t *testing.T) {
	server := redistest.Shared(t, redistest.Redis(t))
	for _, off := range []time.Duration{0, time.Hour, -time.Hour, 40 * 24 * time.Hour, -400 * 24 * time.Hour} {
		t.Run(off.String(), func(t *testing.T) {
			s, err := New(Over(server.Client(t)), Options{Prefix: t.Name(), Timeout: testkit.Ceiling})
			if err != nil {
				t.Fatal(err)
			}
			testkit.Closed(t, s).clock = func() time.Time { return time.Now().Add(off) }
			for _, text := range []string{"3/day", "3/day sliding-log", "3/366day sliding-counter", "3/year calendar Asia/Seoul", "3/month calendar America/New_York"} {
				l := testkit.Limiter(t, s, text, text)
				for i := range 4 {
					before := time.Now().Add(-time.Millisecond)
					d, err := l.Take(t.Context(), "k", 1)
					if err != nil || d.Allowed != (i < 3) {
						t.Fatalf("%s: take %d: got %+v, %v", text, i+1, d, err)
					}
					if at := d.At.Time(); at.Before(before) || at.After(time.Now().Add(time.Millisecond)) {
						t.Errorf("%s: decided at %v, want now", text, at)
					}
					if term := l.Plan().Term(0); term.Calendar != sluice.NoCalendar {
						if _, end := algo.CalendarWindow(term, int64(d.At)); d.ResetAfter != time.Duration(end-int64(d.At))*time.Microsecond {
							t.Errorf("%s: resets after %v, want the end of the window", text, d.ResetAfter)
						}
					}
				}
			}
		})
	}
}

// TestSlotScriptEqualsAlgo compares the script for slots with package algo, over random
// requests and instants.
func TestSlotScriptEqualsAlgo(t *testing.T) {
	server := redistest.Shared(t, redistest.Redis(t))
	now := int64(1_763_700_000_000_000)
	s, err := New(Over(server.Client(t)), Options{Timeout: testkit.Ceiling})
	if err != nil {
		t.Fatal(err)
	}
	s.inject = func() int64 { return now }
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 2))
	model := make(map[string]*algo.State)
	for range testkit.Steps(2000, 20_000) {
		switch rnd.IntN(6) {
		case 0, 1, 2:
			now += rnd.Int64N(2000)
		case 3:
			now += rnd.Int64N(1e6)
		case 4:
			if rnd.IntN(20) == 0 {
				now = max(now-rnd.Int64N(800*24*3600*1e6), 0)
			}
		}
		owner := uint64(rnd.IntN(8))
		req := sluice.SlotRequest{
			Op:    sluice.SlotOp(rnd.IntN(3)),
			Scope: "s",
			Key:   fmt.Sprint(rnd.IntN(3)),
			Owner: fmt.Sprintf("owner %d %0*d", owner, int(owner)*3, 0),
			Limit: sluice.SlotLimit{Name: "slots", Cap: 1 + rnd.Int64N(10), TTL: time.Duration(1+rnd.Int64N(1000)) * time.Millisecond},
			Cost:  1 + rnd.Int64N(4),
		}
		if rnd.IntN(10) == 0 {
			req.Limit.TTL = sluice.MaxWindow
		}
		got, err := s.Slot(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		state := model[req.Key]
		if state == nil {
			state = &algo.State{}
			model[req.Key] = state
		}
		kept := copyOf(state)
		want, written := algo.DecideSlot(&req, owner, state, now)
		if !written {
			*state = kept
		}
		if got != want {
			t.Fatalf("%+v at %d: got %+v, want %+v", req, now, got, want)
		}
	}
}

func TestVersionIsChecked(t *testing.T) {
	for _, c := range []struct {
		name, info string
		ok         bool
	}{
		{"redis 7.0", "# Server\r\nredis_version:7.0.15\r\n", true},
		{"redis 8", "redis_version:8.2.1\r\n", true},
		{"redis 6.2", "redis_version:6.2.14\r\n", false},
		{"valkey 8", "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.0.1\r\n", true},
		{"valkey 7", "redis_version:7.2.4\r\nvalkey_version:7.2.5\r\n", false},
		{"something else", "version:1\r\n", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := checkVersion(parseInfo(c.info)); (err == nil) != c.ok {
				t.Errorf("got %v, want ok %t", err, c.ok)
			}
		})
	}
}
