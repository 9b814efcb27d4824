// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package faults

import (
	"strings"
	"sync"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
)

// witness is a store that remembers what the store behind it was asked and how
// servers refused.
type witness struct {
	testkit.Store
	mu      sync.Mutex
	refused map[string]int // by the first word of the answer
}

func (c *Client) witness(store sluice.Store) *witness {
	w := &witness{refused: make(map[string]int)}
	w.Store.Store, w.After = store, func(_ sluice.Request, r sluice.Result) error {
		if answer, ok := c.Answer(r.Err); ok {
			word, _, _ := strings.Cut(answer, " ")
			w.mu.Lock()
			defer w.mu.Unlock()
			w.refused[word]++
		}
		return nil
	}
	return w
}

// refusals returns how often a server's answer began with a word.
func (w *witness) refusals(word string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.refused[word]
}
