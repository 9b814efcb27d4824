// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
)

// TestRefusedTakesNothing: a refused connection or request takes no memory from others, even
// for a moment.
func TestRefusedTakesNothing(t *testing.T) {
	m := NewMemory(1_000_000, slog.New(slog.DiscardHandler))
	if !m.take(1, m.most) {
		t.Fatal("there is no room")
	}
	var over atomic.Bool
	var asks sync.WaitGroup
	asks.Go(func() {
		for !over.Load() {
			if m.take(m.most, m.most) {
				t.Error("more was taken than there is")
				return
			}
		}
	})
	refused := 0
	for range 100_000 {
		if !m.take(1, m.most) {
			refused++
			continue
		}
		m.giveBack(1)
	}
	over.Store(true)
	asks.Wait()
	if refused > 0 {
		t.Errorf("refused %d of 100,000 times although there was room", refused)
	}
}
