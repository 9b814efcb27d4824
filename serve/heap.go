// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"os"
	goruntime "runtime"
	"runtime/debug"
	"runtime/metrics"
)

// heapRoom is how much garbage may come together at least before the collector
// runs. By itself it runs whenever 4 MB have come together while the program
// keeps little, which under load is a hundred times a second.
const heapRoom = 32 << 20 // bytes

// newHeapRoom returns memory that is never touched, and so takes none, but
// counts for the collector as long as it is kept. There is none where the
// operator has settled the matter.
func newHeapRoom() []byte {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return nil
	}
	return make([]byte, heapRoom)
}

// heapBurst is how much garbage a change of the configuration may make before
// it is collected.
const heapBurst = 256 << 20 // bytes

// collectAfter calls f, which makes much garbage at once, and collects it
// afterwards. A collection beside f would make requests help: with what they
// allocate they pay for what f does.
func collectAfter(f func() error) error {
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(samples)
	used := samples[0].Value.Uint64() - samples[1].Value.Uint64()
	limit := debug.SetMemoryLimit(-1)
	if most := int64(used) + heapBurst; most < limit {
		debug.SetMemoryLimit(most)
		defer debug.SetMemoryLimit(limit)
	}
	percent := debug.SetGCPercent(-1)
	defer debug.SetGCPercent(percent)
	err := f()
	goruntime.GC()
	return err
}
