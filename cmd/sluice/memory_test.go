// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"runtime"
	"runtime/metrics"
	"testing"
	"testing/synctest"
	"time"
)

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

// TestMemoryIsReturned: what changes took is the system's again, a while after the last.
func TestMemoryIsReturned(t *testing.T) {
	const took = 128 << 20
	kept := func() uint64 {
		free := []metrics.Sample{{Name: "/memory/classes/heap/free:bytes"}} // and not returned
		metrics.Read(free)
		return free[0].Value.Uint64()
	}
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		defer m.stop()
		for range 2 {
			var parts [128][]byte
			for i := range parts {
				parts[i] = make([]byte, took/len(parts))
			}
			runtime.KeepAlive(parts)
			runtime.GC()
			m.loaded()
			if time.Sleep(returnAfter - time.Nanosecond); kept() < took/2 {
				t.Errorf("%d bytes are left for the next change", kept())
			}
		}
		time.Sleep(time.Nanosecond)
		if synctest.Wait(); kept() > took/2 {
			t.Errorf("%d bytes are kept", kept())
		}
	})
}
