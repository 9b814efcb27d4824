// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"errors"
	"fmt"
	"math"
	goruntime "runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/sluicegate/sluice/policy"
)

// TestOldRulesAreCollected: the rules of a start are not in memory beside those of a
// reload, nor are those of one reload beside those of the next.
func TestOldRulesAreCollected(t *testing.T) {
	const file = "upstream: %q\nrules: [{name: a, by: ip, limits: %d/h}]\n"
	up := named(t, "up")
	var first weak.Pointer[policy.Policy]
	s := start(t, fmt.Sprintf(file, up, 1), func(o *Options) { first = weak.Make(o.Config.Policy) })
	s.get(t, "/")
	for n := range 2 {
		before := s.hash(t)
		s.write(t, fmt.Sprintf(file, up, n+2))
		until(t, "a reload", func() bool { return s.hash(t) != before })
		s.get(t, "/")
	}
	until(t, "the first rules to be collected", func() bool {
		goruntime.GC()
		return first.Value() == nil
	})
}

// TestHeapRoom: there is room, unless the operator has said how to collect.
func TestHeapRoom(t *testing.T) {
	for _, c := range []struct {
		name, percent, limit string
		want                 int
	}{
		{"nothing said", "", "", heapRoom},
		{"GOGC", "50", "", 0},
		{"GOMEMLIMIT", "", "100MiB", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("GOGC", c.percent)
			t.Setenv("GOMEMLIMIT", c.limit)
			if got := len(newHeapRoom()); got != c.want {
				t.Errorf("got %d bytes, want %d", got, c.want)
			}
		})
	}
}

// TestCollectAfter: while it runs a function the collector waits, up to a
// bound, and afterwards all is as it was.
func TestCollectAfter(t *testing.T) {
	const percent, limit = 77, math.MaxInt64
	defer debug.SetGCPercent(debug.SetGCPercent(percent))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(limit))
	failure := errors.New("as f says")
	err := collectAfter(func() error {
		if got := debug.SetGCPercent(-1); got != -1 {
			t.Errorf("within: collects at %d %%, want not at all", got)
		}
		if got := debug.SetMemoryLimit(-1); got < heapBurst || got == limit {
			t.Errorf("within: a limit of %d bytes", got)
		}
		return failure
	})
	if !errors.Is(err, failure) {
		t.Errorf("got %v, want %v", err, failure)
	}
	if got := debug.SetGCPercent(percent); got != percent {
		t.Errorf("afterwards: collects at %d %%, want %d", got, percent)
	}
	if got := debug.SetMemoryLimit(-1); got != limit {
		t.Errorf("afterwards: a limit of %d bytes, want %d", got, int64(limit))
	}
}

// TestMemoryIsReturned: what changes took is the system's again, a while after the last.
func TestMemoryIsReturned(t *testing.T) {
	const took = 128 << 20
	kept := func() uint64 {
		free := []metrics.Sample{{Name: "/memory/classes/heap/free:bytes"}} // and not returned
		metrics.Read(free)
		return free[0].Value.Uint64()
	}
	synctest.Test(t, func(t *testing.T) {
		s := &server{memory: newReturn()}
		for range 2 {
			err := s.load(func() error {
				for range 128 {
					goruntime.KeepAlive(make([]byte, took/128))
				}
				return nil
			})
			if time.Sleep(returnAfter - time.Nanosecond); err != nil || kept() < took/2 {
				t.Errorf("%v, and %d bytes are left for the next change", err, kept())
			}
		}
		time.Sleep(time.Nanosecond)
		if synctest.Wait(); kept() > took/2 {
			t.Errorf("%d bytes are kept", kept())
		}
	})
}

// TestTurns: a change of the configuration lets others run when one of them waits at two
// glances, and when its turn is over.
func TestTurns(t *testing.T) {
	const often = glance / 4
	for _, c := range []struct {
		name  string
		waits func(glances int) bool
		want  time.Duration
	}{
		{"nobody waits", func(int) bool { return false }, turn},
		{"one that waits", func(int) bool { return true }, 2 * glance},
		{"one that has been waiting", func(n int) bool { return n > 3 }, 5 * glance},
		{"others run what waits", func(n int) bool { return n%2 == 0 }, turn},
	} {
		t.Run(c.name, func(t *testing.T) {
			var turns turns
			start, glances := time.Unix(0, 0), 0
			turns.begin(start)
			for range 2 {
				now := start.Add(often)
				for ; !turns.over(now, func() bool { glances++; return c.waits(glances) }); now = now.Add(often) {
					if now.Sub(start) > turn {
						t.Fatal("others never run")
					}
				}
				if got := now.Sub(start); got != c.want {
					t.Errorf("got %v, want %v", got, c.want)
				}
				turns.begin(now)
				start, glances = now, 0
			}
		})
	}
}
