// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/sluicegate/sluice/internal/server/reload"
)

// memory is what this process does with its memory.
type memory struct {
	room     []byte
	giveBack *time.Timer // until unused memory is returned to the system
}

func newMemory() *memory {
	return &memory{newHeapRoom(), time.AfterFunc(returnAfter, debug.FreeOSMemory)}
}

// loaded has the memory returned that a configuration took while it was read.
func (m *memory) loaded() { m.giveBack.Reset(returnAfter) }

func (m *memory) stop() {
	m.giveBack.Stop()
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

// returnAfter is how long after a start or a change of the configuration its memory goes
// back to the system. By itself the runtime keeps most of it: with 20,000 rules a process
// takes 90 MB, and took 200 to 360 once they had been read again. But one change often
// follows another, and to return memory and to get it again is a third of what a change
// costs. So it is kept until the file has been looked at once more.
const returnAfter = reload.Every + 500*time.Millisecond
