// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/redisstore"
)

// steppable are limits of every algorithm. Each has the longest wait of a key with units left
// after the server's clock has stepped back.
var steppable = []struct {
	limit string
	waits time.Duration
}{
	{"5/min", time.Minute},
	{"5/min debt 20", 5 * time.Minute},
	{"5/min credit 10 credit-for 10m", time.Minute},
	{"5/min interval-refill", time.Minute},
	{"5/min leaky-bucket burst 5", time.Minute},
	{"5/min burst 10 warm-up 30s", 135 * time.Second},
	{"5/min fixed-window", time.Minute},
	{"5/min fixed-window anchor first", time.Minute},
	{"5/day calendar Asia/Seoul", 24 * time.Hour},
	{"5/min sliding-log", time.Minute},
	{"5/min sliding-histogram precision 3", time.Minute},
	{"5/min sliding-counter", time.Minute},
	{"5/min sliding-counter sub-windows 6 conservative", time.Minute},
}

// clients are the limits over one server.
func clients(t *testing.T, s *redistest.Server, prefix string) []*sluice.Limiter {
	t.Helper()
	store, err := redisstore.New(redisstore.Over(s.Connect(t)), redisstore.Options{Prefix: prefix, Timeout: testkit.Ceiling})
	if err != nil {
		t.Fatal(err)
	}
	testkit.Closed(t, store)
	list := make([]*sluice.Limiter, len(steppable))
	for i, tt := range steppable {
		list[i] = testkit.Limiter(t, store, fmt.Sprint(i), tt.limit)
	}
	return list
}

// spend takes some of the units of a key under each limit.
func spend(t *testing.T, limits []*sluice.Limiter, units int) {
	t.Helper()
	for i, lim := range limits {
		for range units {
			if d, err := lim.Take(t.Context(), "k", 1); err != nil || !d.Allowed {
				t.Fatalf("%s: got %+v, %v, want allowed", steppable[i].limit, d, err)
			}
		}
	}
}

// waits moves the server's clock back and checks that keys with units left wait no longer than
// allowed, and exactly as long as RetryAfter.
func waits(t *testing.T, limits []*sluice.Limiter, s *redistest.Clocked, ahead time.Duration) {
	t.Helper()
	for i, lim := range limits {
		s.SetAhead(t, ahead)
		d, err := lim.Take(t.Context(), "k", 1)
		if err != nil || !d.Allowed && d.RetryAfter > steppable[i].waits {
			t.Errorf("%s, %v ahead: got %+v, %v, want no denial for more than %v", steppable[i].limit, ahead, d, err, steppable[i].waits)
			continue
		}
		if !d.Allowed {
			s.SetAhead(t, ahead+d.RetryAfter)
			if again, err := lim.Take(t.Context(), "k", 1); err != nil || !again.Allowed {
				t.Errorf("%s, %v ahead: denied for %v, and then again: %+v, %v", steppable[i].limit, ahead, d.RetryAfter, again, err)
			}
		}
	}
}

// TestServersClockStepsBack sets the clock of a real server back by less and by more than the
// furthest reservation.
func TestServersClockStepsBack(t *testing.T) {
	s := redistest.StartClocked(t, redistest.Redis(t), 0)
	for _, back := range []time.Duration{time.Second, 59 * time.Minute, 61 * time.Minute, 40 * 24 * time.Hour} {
		for _, units := range []int{1, 4} {
			s.SetAhead(t, 0)
			limits := clients(t, s.Server, back.String()+strconv.Itoa(units))
			spend(t, limits, units)
			waits(t, limits, s, -back)
		}
	}
}

// TestFailoverToAServerWhoseClockIsBehind promotes a replica whose clock is 59 minutes
// behind that of the primary, which dies.
func TestFailoverToAServerWhoseClockIsBehind(t *testing.T) {
	primary := redistest.StartClocked(t, redistest.Redis(t), 0)
	replica := redistest.StartClocked(t, redistest.Redis(t), -59*time.Minute, "--replicaof", "127.0.0.1", strconv.Itoa(primary.Port))
	testkit.Until(t, "the replica to follow", func() bool {
		return strings.Contains(replica.Do(t, "INFO", "replication"), "master_link_status:up")
	})
	spend(t, clients(t, primary.Server, "p"), 1)
	testkit.Until(t, "the replica to have it all", func() bool {
		return primary.Do(t, "DBSIZE") == replica.Do(t, "DBSIZE")
	})
	primary.Kill(t)
	replica.Do(t, "REPLICAOF", "NO", "ONE")
	waits(t, clients(t, replica.Server, "p"), replica, -59*time.Minute)
}
