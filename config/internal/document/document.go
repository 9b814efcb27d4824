// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package document

import (
	"bytes"
	"errors"
	"io"
	"runtime"
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
