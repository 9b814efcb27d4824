// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package overrides

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"

	"github.com/sluicegate/sluice/internal/regular"
	"github.com/sluicegate/sluice/server/internal/replace"
)

// Bounds of the file of overrides. Changes at this node make it no larger than mostKept, and
// changes of other nodes no larger than mostLearned, so that the next start can read it.
const (
	mostBytes   = 64 << 20
	mostLearned = 60 << 20
	mostKept    = 48 << 20
)

var errTooMuch = fmt.Errorf("override: they take %d MiB already; end some, or put lasting ones into the configuration", mostKept>>20)

// fileVersion is the version of the file's layout.
const fileVersion = 1

// overrideFile is the document in the file.
type overrideFile struct {
	Version   int      `json:"version"`
	Overrides []Stored `json:"overrides"`
}

// Read returns the overrides in a file, none if there is no file.
func Read(file string) (all []Stored, err error) {
	data, _, err := regular.Read(file, mostBytes+1)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("override: %w", err)
	}
	if len(data) > mostBytes {
		return nil, fmt.Errorf("override: %s is larger than %d MiB; take out what is not needed, or move it away to start without overrides", file, mostBytes>>20)
	}
	var f overrideFile
	err = json.Unmarshal(data, &f)
	switch {
	case f.Version > fileVersion || err == nil && f.Version < fileVersion: // a later version may have other types
		return nil, fmt.Errorf("override: %s has version %d, and this program reads version %d; start the release that wrote it, or move the file away to start without overrides", file, f.Version, fileVersion)
	case err != nil:
		return nil, fmt.Errorf("override: %s cannot be read: %w; correct it, or move it away to start without overrides", file, err)
	}
	return f.Overrides, nil
}

// write makes the line of the override in the file, if it is not made yet.
func (k *kept) write() (err error) {
	if k.line == nil {
		k.line, err = json.Marshal(&k.Stored)
	}
	return err
}

// size returns the size of an override in the file, in bytes.
func (k *kept) size() int {
	if k == nil || k.write() != nil { // the next save returns the error
		return 0
	}
	return len(k.line) + len(",\n")
}

// size returns the size of the overrides in the file, in bytes.
func (l *List) size() (n int) {
	for _, of := range []map[string]*kept{l.own, l.shared} {
		for _, k := range of {
			n += k.size()
		}
	}
	return n
}

// save writes the file. If it fails, the file does not change.
func (l *List) save() error {
	if l.file == "" {
		return nil
	}
	list := slices.Collect(maps.Values(l.own))
	list = slices.AppendSeq(list, maps.Values(l.shared))
	slices.SortFunc(list, func(a, b *kept) int { return cmp.Compare(a.at, b.at) })
	for _, k := range list {
		if err := k.write(); err != nil {
			return err
		}
	}
	return replace.File(l.file, func(w io.Writer) error {
		var b bytes.Buffer
		fmt.Fprintf(&b, "{\"version\": %d, \"overrides\": [\n", fileVersion)
		for i, k := range list {
			if i > 0 {
				b.WriteString(",\n")
			}
			b.Write(k.line)
		}
		b.WriteString("\n]}\n")
		_, err := w.Write(b.Bytes())
		return err
	})
}
