// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package document

import (
	"cmp"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v4"
)

// Fault is one fault of a file.
type Fault struct {
	File         string
	Line, Column int    // from 1; 0 if the fault is about the whole file
	Problem      string // the fault and its remedy
}

// Count returns the number of faults until now.
func (d *Decoder) Count() int { return len(d.faults) }

// Since returns the faults after the first n.
func (d *Decoder) Since(n int) []Fault { return d.faults[n:] }

func (d *Decoder) add(f Fault) {
	switch {
	case d.over:
	case len(d.faults) < maxFaults:
		d.faults = append(d.faults, f)
	default:
		d.more = true
	}
}

// fault is the fault of a caller's own type.
type fault interface {
	~struct {
		File         string
		Line, Column int
		Problem      string
	}
}

// Sorted returns faults by place, without duplicates.
func Sorted[F fault](faults []Fault) (sorted []F) {
	slices.SortStableFunc(faults, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	for _, f := range slices.Compact(faults) {
		sorted = append(sorted, F(f))
	}
	return sorted
}

// Problems returns the faults that a decoder has found, by place.
func Problems[F fault](d *Decoder) []F {
	faults := Sorted[F](d.faults)
	if d.more {
		faults = append(faults, F(Fault{File: d.file, Problem: fmt.Sprintf("has more faults; these are the first %d that were found", maxFaults)}))
	}
	return faults
}

// Whole adds a fault about the whole file.
func (d *Decoder) Whole(format string, args ...any) {
	d.add(Fault{File: d.file, Problem: fmt.Sprintf(format, args...)})
}

// Fault adds a fault at a node.
func (d *Decoder) Fault(n *yaml.Node, format string, args ...any) {
	d.FaultAt(n, 0, format, args...)
}

// FaultAt adds a fault at an offset in a scalar's text.
func (d *Decoder) FaultAt(n *yaml.Node, offset int, format string, args ...any) {
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
