// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"testing"
	"time"
)

// TestChangeIsNotSent: where the copy cannot be compared with the store the change that
// waits for that is not sent, which is known.
func TestChangeIsNotSent(t *testing.T) {
	c := &Conn{}
	c.failure.Store(&failure{}) // the last poll was answered
	r := NewRecords(c, Copy{}, time.Time{})
	r.turn <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Change(ctx, "x", Version{}, nil, nil); !errors.Is(err, ErrNotSent) {
		t.Errorf("got %v, want %v", err, ErrNotSent)
	}
}
