// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/sluicegate/sluice/config/internal/document"
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

// NamedFile is a file named in a configuration: its key, such as "token_file", and its path.
// For the files in a store's URL the path is that URL.
type NamedFile struct{ Key, Path string }

// NamedFaults returns the problems of named files as [Faults], each at the first place that
// names its file, or nil if there are no problems. Each line of an error is a fault. A fault of a
// file that the configuration does not name is at 1:1 and names that file.
func (c *Config) NamedFaults(problems map[NamedFile][]error) error {
	var faults []document.Fault
	for name, errs := range problems {
		at, found := c.named[name]
		said := ""
		if !found {
			at, said = place{1, 1}, name.Key+" "+name.Path+": "
		}
		for _, err := range errs {
			for line := range strings.SplitSeq(err.Error(), "\n") {
				faults = append(faults, document.Fault{File: c.File, Line: at.line, Column: at.column, Problem: said + line})
			}
		}
	}
	if len(faults) == 0 {
		return nil
	}
	return Faults(document.Sorted[Fault](faults))
}

// place is a position in a file.
type place struct{ line, column int }

// path returns a field that reads the path of a file.
func (d *decoder) path(name, text string, into *string) field {
	word := d.Word(name, text, into)
	return document.Key(name, text, func(n *yaml.Node) {
		word.Read(n)
		d.name(n, name, *into)
	})
}

// name records the first place that names a file.
func (d *decoder) name(n *yaml.Node, key, path string) {
	if _, twice := d.named[NamedFile{key, path}]; !twice {
		d.named[NamedFile{key, path}] = place{n.Line, n.Column}
	}
}
