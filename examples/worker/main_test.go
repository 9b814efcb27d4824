// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
)

// reset forgets what earlier tests have spent, as the limit outlives them.
func reset(t *testing.T) {
	t.Helper()
	if err := partner.Reset(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
}

// TestPace: 21 jobs go out a tenth of a second apart.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reset(t)
		start := time.Now()
		var mu sync.Mutex
		var sent []time.Duration
		for job := range 21 {
			go func() {
				err := call(t.Context(), job, func(int) {
					mu.Lock()
					defer mu.Unlock()
					sent = append(sent, time.Since(start))
				})
				if err != nil {
					t.Error(err)
				}
			}()
		}
		time.Sleep(3 * time.Second)
		var want []time.Duration
		for i := range 21 {
			want = append(want, time.Duration(i)*100*time.Millisecond)
		}
		mu.Lock()
		defer mu.Unlock()
		if !slices.Equal(sent, want) {
			t.Errorf("sent after %v, want %v", sent, want)
		}
	})
}

// TestDeadline: a call whose turn comes too late returns at once and sends nothing.
func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reset(t)
		nothing := func(int) { t.Error("sent") }
		if err := call(t.Context(), 1, func(int) {}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 99*time.Millisecond)
		defer cancel()
		start := time.Now()
		err := call(ctx, 2, nothing)
		denied, ok := errors.AsType[*sluice.DeniedError](err)
		if !ok || denied.Decision.RetryAfter != 100*time.Millisecond {
			t.Errorf("got %v, want a denial for 100 ms", err)
		}
		if waited := time.Since(start); waited != 0 {
			t.Errorf("waited %v", waited)
		}
	})
}
