// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"strings"
)

// Fault is one fault of a file.
type Fault struct { //nolint:errname // the usual name of a file's faults
	File         string
	Line, Column int    // from 1; 0 if the fault is about the whole file
	Problem      string // the fault and its remedy
}

// Error returns FILE:LINE:COLUMN: and the problem.
func (f Fault) Error() string {
	if f.Line == 0 {
		return f.File + ": " + f.Problem
	}
	return fmt.Sprintf("%s:%d:%d: %s", f.File, f.Line, f.Column, f.Problem)
}

// Faults are all faults of a file, sorted by place.
type Faults []Fault //nolint:errname // as Fault

// Error returns all faults, a line each.
func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i := range f {
		lines[i] = f[i].Error()
	}
	return strings.Join(lines, "\n")
}
