// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"testing/synctest"
	"time"
)

// TestHeapRoom: there is heap room, unless the operator has set the collector up.
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

// TestCollectAfter: the collector waits while the function runs, up to a bound, and
// afterwards has its old settings.
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

// TestMemoryIsReturned: the memory of changes goes back to the system a while after the last.
func TestMemoryIsReturned(t *testing.T) {
	const took = 128 << 20
	kept := func() uint64 {
		free := []metrics.Sample{{Name: "/memory/classes/heap/free:bytes"}} // and not returned
		metrics.Read(free)
		return free[0].Value.Uint64()
	}
	synctest.Test(t, func(t *testing.T) {
		m := &memory{room: newHeapRoom()}
		defer m.stop() // also where it has not started
		m.started()
		for range 2 {
			err := m.around(func() error {
				for range 128 {
					runtime.KeepAlive(make([]byte, took/128))
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
