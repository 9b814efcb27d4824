// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"errors"
	"io"
	"net"
	"testing"
)

// Closed returns c and closes it when the test ends. The test does not fail if c is a
// connection that is closed already.
func Closed[T io.Closer](t testing.TB, c T) T {
	t.Helper()
	t.Cleanup(func() {
		if err := c.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
	return c
}
