// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package front

import (
	"errors"
	"testing"
)

// TestBrought: limits are compiled once while they are kept. At most mostBrought are kept, and
// none that is faulty.
func TestBrought(t *testing.T) {
	var b Brought[int, int]
	compiled := 0
	of := func(terms int) {
		got, err := b.Of(terms, func() (int, error) { compiled++; return -terms, nil })
		if err != nil || got != -terms {
			t.Fatalf("got %d, %v", got, err)
		}
	}
	for terms := range 10 * mostBrought {
		of(terms)
		of(terms)
	}
	if compiled != 10*mostBrought {
		t.Errorf("compiled %d times", compiled)
	}
	if len(b.known) != mostBrought {
		t.Errorf("%d limits are kept", len(b.known))
	}
	faulty := errors.New("faulty")
	if _, err := b.Of(-1, func() (int, error) { return 0, faulty }); !errors.Is(err, faulty) {
		t.Errorf("got %v", err)
	}
	of(-1)
}
