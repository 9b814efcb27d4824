// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package arrivals

import (
	"context"
	"errors"
	"io"
	"math"
	"os"
	"slices"
	"sync/atomic"
)

// Log is one or more files, read as one log. It is read once.
type Log struct {
	Report Report // complete after [Log.All]
	Size   int64  // bytes of the files as they are stored, 0 if not known
	read   atomic.Int64
	files  []*file
}

// Read returns how many bytes of Size were read. It may be called at any time.
func (l *Log) Read() int64 { return l.read.Load() }

// Decisions reports whether some file is sluice's decision log.
func (l *Log) Decisions() bool {
	return slices.ContainsFunc(l.files, func(f *file) bool { j, ok := f.parser.(*jsonLines); return ok && j.decisions })
}

// Open opens files, of which "-" is stdin, and detects their formats.
func Open(names []string, stdin io.Reader, o Options) (*Log, error) {
	l, known := &Log{}, true
	for i, name := range names {
		in, err := openLines(name, stdin, &l.read)
		if err != nil {
			return nil, err
		}
		f := &file{index: i, name: name, lines: in}
		if err := f.detect(o); err != nil {
			return nil, errors.Join(err, in.file.Close())
		}
		l.files = append(l.files, f)
		info, err := os.Stat(name)
		if known = known && err == nil && info.Mode().IsRegular(); known {
			l.Size += info.Size()
		} else {
			l.Size = 0
		}
	}
	return l, nil
}

// head are the next arrivals of a file.
type head struct {
	*file
	at          int64 // of the first one
	block, rest []Arrival
}

// All calls visit with each arrival, in the order of time; those of one instant in the order
// of the files. The arrival is valid until visit returns. It ends with the error of visit, of
// ctx, or of a file without a usable line.
func (l *Log) All(ctx context.Context, visit func(*Arrival) error) error {
	ctx, cancel := context.WithCancel(ctx) // ends the readers
	defer cancel()
	var heads []head
	for _, f := range l.files {
		heads = append(heads, head{file: f, at: f.begins})
	}
	last := int64(0)
	for len(heads) > 0 {
		first, until := earliest(heads)
		h := &heads[first]
		if h.block == nil { // files that follow one another are not read all at once
			go h.run(ctx)
		}
		for len(h.rest) > 0 && h.rest[0].At <= until {
			a := &h.rest[0]
			if a.At < last {
				a.At = last
				l.Report.Misplaced++
			}
			last = a.At
			if err := visit(a); err != nil {
				return err
			}
			h.rest = h.rest[1:]
		}
		if len(h.rest) == 0 && !h.fill(ctx) {
			heads = slices.Delete(heads, first, first+1)
			continue
		}
		h.at = max(h.rest[0].At, last)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	var faults []error
	for _, f := range l.files {
		faults = append(faults, f.err)
		r, of := &l.Report, &f.report
		r.Files, r.Examples = append(r.Files, of.Files...), append(r.Examples, of.Examples...)
		r.Lines, r.Broken, r.Late = r.Lines+of.Lines, r.Broken+of.Broken, r.Late+of.Late
	}
	return errors.Join(faults...)
}

// earliest returns the file with the earliest arrival, and until when it is the first.
func earliest(heads []head) (first int, until int64) {
	until = math.MaxInt64
	for i := range heads {
		if heads[i].at < heads[first].at {
			first = i
		}
	}
	for i := range heads {
		switch {
		case i < first:
			until = min(until, heads[i].at-1) // which is the first of the same instant
		case i > first:
			until = min(until, heads[i].at)
		}
	}
	return first, until
}

// fill gets the next block of a file. ok is false if there is none.
func (h *head) fill(ctx context.Context) (ok bool) {
	if h.block != nil {
		select {
		case h.free <- h.block[:0]:
		default:
		}
	}
	select {
	case h.block, ok = <-h.out:
	case <-ctx.Done():
	}
	h.rest = h.block
	return ok
}
