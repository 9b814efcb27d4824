// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package document

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// Document parses data and returns its one document, or nil if there is none.
func (d *Decoder) Document(data []byte) *yaml.Node {
	if len(data) > MaxBytes {
		d.Whole("%d bytes; at most %d are read", len(data), MaxBytes)
		return nil
	}
	d.most = fewNodes + len(data) // without aliases, a file has fewer values than bytes
	dec := yaml.NewDecoder(&yielding{bytes.NewReader(data)})
	var doc, second yaml.Node
	err := dec.Decode(&doc)
	switch {
	case errors.Is(err, io.EOF):
		d.Whole("is empty; add at least one rule under rules")
		return nil
	case err != nil:
		d.syntax(data, err)
		return nil
	}
	switch err = dec.Decode(&second); {
	case err == nil:
		d.Fault(&second, "a second document; a file has one")
	case !errors.Is(err, io.EOF):
		d.syntax(data, err)
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 {
		d.Whole("has no content; add at least one rule under rules")
		return nil
	}
	return doc.Content[0]
}

// yielding lets other goroutines run at each read of a large file by the parser.
type yielding struct{ io.Reader }

func (y *yielding) Read(b []byte) (int, error) {
	runtime.Gosched()
	return y.Reader.Read(b[:min(len(b), 4<<10)])
}

// syntax adds a parser's error as a fault.
func (d *Decoder) syntax(data []byte, err error) {
	f := Fault{File: d.file}
	text := err.Error()
	if at, ok := errors.AsType[*yaml.LoadError](err); ok {
		f.Line, f.Column, text = at.Mark.Line, at.Mark.Column, at.Message
		if at.Stage == yaml.ReaderStage { // the reader counts bytes only
			f.Line, f.Column = placeOf(data, at.Mark.Index)
		}
	}
	f.Problem = "is not YAML: " + text
	d.add(f)
}

// placeOf returns the line and column of a byte in data.
func placeOf(data []byte, i int) (line, column int) {
	before := data[:min(i, len(data))]
	start := bytes.LastIndexByte(before, '\n') + 1
	return 1 + bytes.Count(before, []byte("\n")), 1 + utf8.RuneCount(before[start:])
}

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
	if d.Recording() {
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

// suggestion returns the field whose name is at most two letters, and at most half of its own,
// from a misspelt word, or else all fields.
func suggestion(word string, fields []Field) string {
	best, least := "one of "+names(fields), 3
	for _, f := range fields {
		if len(word) > 2*len(f.Name) {
			continue
		}
		if d := distance(word, f.Name); d < least {
			best, least = f.Name, d
		}
	}
	return best
}

// distance returns the number of letters to change, insert or delete to make b of a
// (Levenshtein, 1965).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			d := diagonal
			if a[i] != b[j] {
				d = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], d
		}
	}
	return row[len(b)]
}
