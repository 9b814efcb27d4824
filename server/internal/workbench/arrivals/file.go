// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package arrivals

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// blockArrivals is about how many arrivals are passed on at once.
const blockArrivals = 2048

// file parses one file and puts its arrivals in order, in a goroutine of its own.
type file struct {
	index   int
	name    string
	lines   *lines
	options Options
	parser  parser
	line    int64 // of the last one

	block  string // the first, and why there is no second
	ended  error
	begins int64       // the earliest time in the first block
	held   [][]Arrival // in order; later lines may belong before some of them
	count  int         // of held
	before int64       // time of the last line
	out    chan []Arrival
	free   chan []Arrival // memory to be used again

	// The rest is complete once out is closed.
	report   Report
	examples [2]int // shown of the broken and the late
	usable   int64
	err      error
}

// detect detects the format by the first lines.
func (f *file) detect() error {
	block, err := f.lines.next()
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, errLong) {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	var sample []string
	for line := range strings.SplitSeq(block, "\n") {
		if line = strings.TrimSuffix(line, "\r"); line != "" && len(sample) < 100 {
			sample = append(sample, line)
		}
	}
	if len(sample) == 0 && err == nil || errors.Is(err, io.EOF) {
		return fmt.Errorf("%s has no line", f.name)
	}
	format, p, derr := detect(sample, f.options)
	if derr != nil {
		return fmt.Errorf("%s: %w", f.name, derr)
	}
	f.parser = p
	if t, ok := p.(*table); ok && !t.zeek {
		format = t.describe(format)
	}
	if j, ok := p.(*jsonLines); ok {
		format += ", time in " + j.time
	}
	if f.lines.compression != "" {
		format += ", " + f.lines.compression
	}
	f.report.Files = []FileReport{{Name: f.name, Format: format}}
	f.out, f.free = make(chan []Arrival, 2), make(chan []Arrival, 6)
	f.block, f.ended, f.begins = block, err, math.MaxInt64
	for _, line := range sample {
		var a Arrival
		if ok, err := p.parse(line, &a); ok && err == nil {
			f.begins = min(f.begins, a.At)
		}
	}
	return nil
}

// run parses the file to its end, which closes out.
func (f *file) run(ctx context.Context) {
	defer close(f.out)
	defer f.lines.close()
	block, err := f.block, f.ended
	for f.block = ""; !errors.Is(err, io.EOF); block, err = f.lines.next() {
		switch {
		case errors.Is(err, errLong):
			f.line++
			f.broken("", err)
			continue
		case err != nil: // such as a compressed file that is cut
			f.line++
			f.broken("", fmt.Errorf("the file ends early: %w", err))
		}
		if !f.put(ctx, f.parse(block)) {
			f.err = ctx.Err()
			return
		}
	}
	for len(f.held) > 0 && f.emit(ctx) {
	}
	f.report.Lines, f.report.Files[0].Lines = f.line, f.line
	if f.usable == 0 {
		f.err = fmt.Errorf("%s: none of %d lines can be used as %s: %s; name the format with --format, one of %s",
			f.name, f.line, f.report.Files[0].Format, f.problem(), strings.Join(Formats, ", "))
	}
}

// problem is that of the first broken line.
func (f *file) problem() string {
	for _, e := range f.report.Examples {
		return e.Place + ": " + e.Problem
	}
	return "they are no requests"
}

// parse returns the arrivals of a block of lines.
func (f *file) parse(block string) []Arrival {
	var all []Arrival
	select {
	case all = <-f.free:
	default:
		all = make([]Arrival, 0, blockArrivals)
	}
	for block != "" {
		line, rest, _ := strings.Cut(block, "\n")
		block = rest
		f.line++
		if line = strings.TrimSuffix(line, "\r"); line == "" {
			continue
		}
		all = append(all, Arrival{Line: f.line, File: f.index, Read: -1})
		a := &all[len(all)-1]
		ok, err := f.parser.parse(line, a)
		if err != nil {
			f.broken(line, err)
		}
		if !ok || err != nil {
			all = all[:len(all)-1]
			continue
		}
		f.usable++
		if a.At < f.before {
			f.late(a)
		}
		f.before = a.At
	}
	return all
}

// broken counts a line that is no request.
func (f *file) broken(line string, err error) {
	f.report.Broken++
	f.example(0, f.line, err.Error(), shorten(line))
}

// late counts a line that is out of order.
func (f *file) late(a *Arrival) {
	f.report.Late++
	f.example(1, a.Line, fmt.Sprintf("%.6g s before the line before it", float64(f.before-a.At)/1e6), "")
}

func (f *file) example(kind int, line int64, problem, text string) {
	if f.examples[kind]++; f.examples[kind] <= mostExamples {
		f.report.Examples = append(f.report.Examples, Example{fmt.Sprintf("%s:%d", f.name, line), problem, text})
	}
}

// mostHeld is how many arrivals of a file wait for earlier ones among later lines.
const mostHeld = 1 << 15

// put adds arrivals to those that are held, in their places, and emits the oldest if there are
// too many. It reports whether ctx goes on.
func (f *file) put(ctx context.Context, next []Arrival) bool {
	if len(next) == 0 {
		return true
	}
	if byTime := func(a, b Arrival) int { return cmp.Compare(a.At, b.At) }; !slices.IsSortedFunc(next, byTime) {
		slices.SortStableFunc(next, byTime)
	}
	f.count += len(next)
	n := len(f.held)
	for n > 0 && f.held[n-1][len(f.held[n-1])-1].At > next[0].At {
		n--
	}
	if n == len(f.held) {
		f.held = append(f.held, next)
	} else {
		all := merge(slices.Concat(f.held[n:]...), next)
		f.held = slices.AppendSeq(f.held[:n], slices.Chunk(all, blockArrivals))
	}
	for f.count-len(f.held[0]) >= mostHeld {
		if !f.emit(ctx) {
			return false
		}
	}
	return true
}

// merge merges two lists in order; of one instant those of a come first.
func merge(a, b []Arrival) []Arrival {
	all := make([]Arrival, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		from := &a
		if b[0].At < a[0].At {
			from = &b
		}
		all = append(all, (*from)[0])
		*from = (*from)[1:]
	}
	return append(append(all, a...), b...)
}

// emit passes on the oldest block that is held.
func (f *file) emit(ctx context.Context) bool {
	oldest := f.held[0]
	f.held = f.held[1:]
	f.count -= len(oldest)
	select {
	case f.out <- oldest:
		return true
	case <-ctx.Done():
		return false
	}
}
