// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package faults

import (
	"context"
	"strings"
	"sync"

	"github.com/sluicegate/sluice"
)

// witness is a store that remembers what the store behind it was asked and how
// servers refused.
type witness struct {
	sluice.Store
	client  *Client
	mu      sync.Mutex
	asked   int
	refused map[string]int // by the first word of the answer
}

func (w *witness) saw(errs ...error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked += len(errs)
	for _, err := range errs {
		if answer, ok := w.client.Answer(err); ok {
			if w.refused == nil {
				w.refused = make(map[string]int)
			}
			word, _, _ := strings.Cut(answer, " ")
			w.refused[word]++
		}
	}
}

// refusals returns how often a server's answer began with a word.
func (w *witness) refusals(word string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.refused[word]
}

// requests returns how many requests the store was asked.
func (w *witness) requests() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked
}

func (w *witness) Take(ctx context.Context, req sluice.Request) (sluice.Decision, error) {
	d, err := w.Store.Take(ctx, req)
	w.saw(err)
	return d, err
}

func (w *witness) TakeBatch(ctx context.Context, reqs []sluice.Request, out []sluice.Result) error {
	err := sluice.TakeBatch(ctx, w.Store, reqs, out)
	for i := range out {
		w.saw(out[i].Err)
	}
	return err
}
