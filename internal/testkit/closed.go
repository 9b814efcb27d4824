// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"errors"
	"io"
	"net"
	"testing"
)

// Closed has c closed when the test ends, and returns it. A connection that is closed
// already is no failure.
func Closed[T io.Closer](t testing.TB, c T) T {
	t.Helper()
	t.Cleanup(func() {
		if err := c.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
	return c
}
