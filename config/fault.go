// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
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

// sorted returns the faults by place, without duplicates.
func (f Faults) sorted() Faults {
	slices.SortStableFunc(f, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return slices.Compact(f)
}

func (d *decoder) add(f Fault) {
	switch {
	case d.over:
	case len(d.faults) < maxFaults:
		d.faults = append(d.faults, f)
	default:
		d.more = true
	}
}

// problems returns the faults by place, or nil if there are none.
func (d *decoder) problems() error {
	if len(d.faults) == 0 {
		return nil
	}
	faults := d.faults.sorted()
	if d.more {
		faults = append(faults, Fault{File: d.file, Problem: fmt.Sprintf("has more faults; these are the first %d that were found", maxFaults)})
	}
	return faults
}

func (d *decoder) whole(format string, args ...any) {
	d.add(Fault{File: d.file, Problem: fmt.Sprintf(format, args...)})
}

func (d *decoder) fault(n *yaml.Node, format string, args ...any) {
	d.faultAt(n, 0, format, args...)
}

// faultAt adds a fault at an offset in a scalar's text.
func (d *decoder) faultAt(n *yaml.Node, offset int, format string, args ...any) {
	if d.recorded != nil {
		return
	}
	f := Fault{File: d.file, Line: n.Line, Column: n.Column, Problem: fmt.Sprintf(format, args...)}
	switch n.Style {
	case yaml.DoubleQuotedStyle, yaml.SingleQuotedStyle:
		f.Column += offset + 1
	case yaml.LiteralStyle, yaml.FoldedStyle:
	default:
		f.Column += offset
	}
	d.add(f)
}
