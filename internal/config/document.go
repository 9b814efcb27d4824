// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/sluicegate/sluice/internal/bounds"
)

// document parses data and returns its one document, nil if there is none.
func (d *decoder) document(data []byte) *yaml.Node {
	if len(data) > bounds.MaxFileBytes {
		d.whole("%d bytes; at most %d are read", len(data), bounds.MaxFileBytes)
		return nil
	}
	d.most = fewNodes + len(data) // without aliases, a file has less values than bytes
	dec := yaml.NewDecoder(&paced{bytes.NewReader(data), d.pause})
	var doc, second yaml.Node
	err := dec.Decode(&doc)
	switch {
	case errors.Is(err, io.EOF):
		d.whole("is empty; add at least one rule under rules")
		return nil
	case err != nil:
		d.syntax(err)
		return nil
	}
	switch err = dec.Decode(&second); {
	case err == nil:
		d.fault(&second, "a second document; a file has one")
	case !errors.Is(err, io.EOF):
		d.syntax(err)
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 {
		d.whole("has no content; add at least one rule under rules")
		return nil
	}
	return doc.Content[0]
}

// paced pauses now and then while a large file is parsed: the parser asks for
// more of it as it goes.
type paced struct {
	io.Reader
	pause func()
}

func (p *paced) Read(b []byte) (int, error) {
	p.pause()
	return p.Reader.Read(b[:min(len(b), 1<<10)])
}

var yamlLine = regexp.MustCompile(`^(?:yaml: )?(?:line (\d+): )?`)

// syntax reports what the parser says, whose messages name the line only.
func (d *decoder) syntax(err error) {
	text := err.Error()
	line := 0
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		line, _ = strconv.Atoi(m[1]) // digits, or none, which is 0
		text = text[len(m[0]):]
	}
	f := Fault{File: d.file, Line: line, Column: 1, Problem: "is not YAML: " + text}
	d.add(f)
}
