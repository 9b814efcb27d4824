// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/server/internal/reload"
)

// TestManyFaultsAreNotLogged: a file with a thousand faults does not flood the log at each
// reload.
func TestManyFaultsAreNotLogged(t *testing.T) {
	for _, c := range []struct{ faults, lines int }{{1, 1}, {21, 21}, {22, 21}, {1001, 21}} {
		var logs bytes.Buffer
		s := server{Options: Options{Log: slog.New(slog.NewTextHandler(&logs, nil))}}
		s.changed(reload.Version{}, errors.New(strings.Repeat("a fault\n", c.faults)))
		if got, want := strings.Count(logs.String(), "\n"), c.lines; got != want {
			t.Errorf("%d faults: %d lines, want %d", c.faults, got, want)
		}
		if got, want := strings.Contains(logs.String(), fmt.Sprintf("faults=%d", c.faults-20)), c.faults > 21; got != want {
			t.Errorf("%d faults: said how many more is %v, want %v", c.faults, got, want)
		}
	}
}
