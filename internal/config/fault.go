// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Fault is one thing that is wrong with a file.
type Fault struct { //nolint:errname // what people call it, and what a file has
	File         string
	Line, Column int    // from 1; 0 if the fault is of the file as a whole
	Problem      string // what is wrong; what to write instead
}

// Error returns FILE:LINE:COLUMN: and the problem.
func (f Fault) Error() string {
	if f.Line == 0 {
		return f.File + ": " + f.Problem
	}
	return fmt.Sprintf("%s:%d:%d: %s", f.File, f.Line, f.Column, f.Problem)
}

// Faults are all that is wrong with a file, by their place.
type Faults []Fault //nolint:errname // as Fault

// Error returns all faults, a line each.
func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i := range f {
		lines[i] = f[i].Error()
	}
	return strings.Join(lines, "\n")
}

// sorted returns the faults by place, each of them once.
func (f Faults) sorted() Faults {
	slices.SortStableFunc(f, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return slices.Compact(f)
}
