// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/sluicegate/sluice/server/internal/reload"
)

// memory manages the memory of this process so that a change of the configuration delays
// requests little: see also server/internal/serve/background_linux.go.
type memory struct {
	room     []byte
	giveBack *time.Timer // returns unused memory to the system; nil before the start is over
}

func newMemory() *memory { return &memory{room: newHeapRoom()} }

// started plans the return of the memory of the start to the system. Call it before around.
func (m *memory) started() { m.giveBack = newReturn() }

// around calls f, which reads a configuration and activates it.
func (m *memory) around(f func() error) error {
	m.giveBack.Stop()
	defer m.giveBack.Reset(returnAfter)
	return collectAfter(f)
}

func (m *memory) stop() {
	if m.giveBack != nil {
		m.giveBack.Stop()
	}
	runtime.KeepAlive(m.room)
}

// heapRoom is the least garbage that starts a collection. By default the collector runs
// after 4 MB of garbage while the program keeps little, which is a hundred times a second
// under load.
const heapRoom = 32 << 20 // bytes

// newHeapRoom returns memory that is never touched, so that it takes no pages, but
// counts for the collector while it is kept. It returns nil if the operator has set the
// collector up.
func newHeapRoom() []byte {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return nil
	}
	return make([]byte, heapRoom)
}

// heapBurst is the most garbage that a change of the configuration makes before a
// collection.
const heapBurst = 256 << 20 // bytes

// collectAfter calls f, which makes much garbage at once, and collects it afterwards. A
// collection during f would slow requests down: each allocation would have to help with
// the garbage of f.
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
	runtime.GC()
	return err
}

// returnAfter is the time after a start or a change of the configuration at which its memory
// goes back to the system. The runtime alone keeps most of it: with 20,000 rules a process
// takes 90 MB, and took 200 to 360 MB after it had read them again. But one change often
// follows another, and returning memory and getting it again is a third of the cost of a
// change. So the memory is kept until the next check of the file.
const returnAfter = reload.Every + 500*time.Millisecond

// newReturn returns a timer that returns unused memory when it ends. That collects garbage
// once more, and only then frees all memory of rules that requests have used.
func newReturn() *time.Timer { return time.AfterFunc(returnAfter, debug.FreeOSMemory) }
