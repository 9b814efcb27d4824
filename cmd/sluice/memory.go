// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/sluicegate/sluice/internal/server/reload"
)

// memory is what this process does with its memory so that requests feel little of a
// change of the configuration: see also internal/serve/background_linux.go.
type memory struct {
	room     []byte
	giveBack *time.Timer // until unused memory is returned to the system; nil before the start is over
}

func newMemory() *memory { return &memory{room: newHeapRoom()} }

// started has the memory returned that the start took. It comes before around.
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

// collectAfter calls f, which makes much garbage at once, and collects it afterwards. A
// collection beside f would make requests help: with what they allocate they pay for
// what f does.
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

// returnAfter is how long after a start or a change of the configuration its memory goes
// back to the system. By itself the runtime keeps most of it: with 20,000 rules a process
// takes 90 MB, and took 200 to 360 once they had been read again. But one change often
// follows another, and to return memory and to get it again is a third of what a change
// costs. So it is kept until the file has been looked at once more.
const returnAfter = reload.Every + 500*time.Millisecond

// newReturn returns a timer that has unused memory returned when it ends. That collects
// once more: only then is nothing left of rules that requests have used.
func newReturn() *time.Timer { return time.AfterFunc(returnAfter, debug.FreeOSMemory) }
