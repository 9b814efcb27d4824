// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"testing"
)

// TestChangeIsNotSent: a change is not sent, and says so, if the last poll has failed.
func TestChangeIsNotSent(t *testing.T) {
	c := &Conn{}
	c.failure.Store(&failure{context.DeadlineExceeded})
	r := NewRecords(c, Copy{Versions: func() map[string]Version { return nil }})
	if _, err := r.Change(t.Context(), "x", 0, nil, nil); !errors.Is(err, ErrNotSent) {
		t.Errorf("got %v, want %v", err, ErrNotSent)
	}
}
