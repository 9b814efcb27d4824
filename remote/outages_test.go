// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/remote"
)

// TestManyOutages: hundreds of outages leave no more behind than a few.
func TestManyOutages(t *testing.T) {
	outages := testkit.Steps(200, 1000)
	both(t, func(t *testing.T, f *faulty) {
		s := wrap(t, f, remote.Options{Policy: sluice.FailLocal, SlotPolicyOf: func(string) sluice.Failure { return sluice.FailOpen }})
		defer end(t, f, s)
		p := testkit.Plan(t, "api", "1000000/s")
		faults := []fault{erring, hung, lost, late, slow, deaf, unsent}
		var goroutines int
		var bytes uint64
		for n := 1; n <= outages; n++ {
			bring(t, f, s, faults[n%len(faults)])
			for i := range 8 {
				testkit.Take(t, s, testkit.Request(p, fmt.Sprint(i), 1))
				ask(t, s, sluice.SlotAcquire, fmt.Sprint(i))
				ask(t, s, sluice.SlotRelease, fmt.Sprint(i))
			}
			mend(t, f, s)
			if n != 14 && n != outages*3/10 && n != outages { // two of each fault; when tables and the runtime have grown; the end
				continue
			}
			time.Sleep(2 * slowness)
			settled(t, s)
			g, b := footprint()
			if n > 14 && g > goroutines || n == outages && b > bytes+64<<10 {
				t.Errorf("after %d outages %d goroutines and %d bytes, they were %d and %d", n, g, b, goroutines, bytes)
			}
			goroutines, bytes = g, b
		}
		if st := s.Stats(); st.Outages != uint64(outages) || st.InFlight != 0 || st.Owed != 0 || st.Unreleased != 0 {
			t.Errorf("%+v: want %d outages and nothing left of them", st, outages)
		}
	})
}

// footprint returns the number of goroutines and the bytes in use.
func footprint() (goroutines int, bytes uint64) {
	var m runtime.MemStats
	for range 3 { // pools are empty by the second
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return runtime.NumGoroutine(), m.HeapAlloc
}
