// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"bytes"
	"sync"
	"testing"
	"time"
)

// Ceiling is the longest time that a test waits for an event that certainly comes. It bounds
// a failed test, and is long enough for a busy machine.
const Ceiling = time.Minute

// Until waits until is returns true, and ends the test if that takes longer than [Ceiling].
// The failure names what.
func Until(t testing.TB, what string, is func() bool) {
	t.Helper()
	end, pause := time.Now().Add(Ceiling), time.Millisecond
	for !is() {
		if time.Now().After(end) {
			t.Fatalf("waited %v for %s", Ceiling, what)
		}
		time.Sleep(pause)
		pause = min(2*pause, 32*time.Millisecond) // is may be expensive
	}
}

// Buffer is a bytes.Buffer that is safe for concurrent use, for example for a log that the
// test reads while the program writes it.
type Buffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

// Write implements [io.Writer].
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

// String returns all that was written.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}
