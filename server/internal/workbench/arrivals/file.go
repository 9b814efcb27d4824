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
	"sync/atomic"
	"time"
)

const (
	blockArrivals = 2048    // are passed on at once, about
	mostHeld      = 1 << 15 // arrivals wait for earlier ones among later lines
	mostExamples  = 3       // of each kind
	sampled       = 100     // first lines show the format
	mostSample    = 8 << 20 // bytes of the blocks that are searched for these
)

// file parses one file and puts its arrivals in order, in a goroutine of its own.
type file struct {
	index  int
	name   string
	lines  *lines
	parser parser

	again  bool   // it can be read twice: it is a file and not a pipe
	block  string // the first, and the error that came with it
	fault  error
	held   [][]Arrival // in order; later lines may belong before some of them
	count  int         // of held
	line   int64       // number of the last line
	before int64       // its time
	out    chan []Arrival
	free   chan []Arrival // memory to be used again

	// The rest is complete once out is closed.
	report   Report
	examples [2]int // shown of the broken and the late
	usable   bool
	err      error
}

// detect detects the format by the first lines.
func (f *file) detect(o Options) (err error) {
	var sample, long []string
	for len(sample) < sampled && f.fault == nil && len(f.block) < mostSample {
		var block string
		block, f.fault = f.lines.next()
		for line := range strings.SplitSeq(block, "\n") {
			if line = strings.TrimSuffix(line, "\r"); len(line) >= mostLine {
				long = append(long, line) // it is cut
			} else if line != "" && len(sample) < sampled {
				sample = append(sample, line)
			}
		}
		f.block += block
	}
	if f.fault != nil && !errors.Is(f.fault, io.EOF) && f.block == "" {
		return fmt.Errorf("%s: %w", f.name, f.fault)
	}
	if len(sample) == 0 {
		sample = long
	}
	if len(sample) == 0 {
		return fmt.Errorf("%s has no lines", f.name)
	}
	var reads string
	if f.parser, reads, err = detect(sample, o); err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	f.report.Files = []FileReport{{Name: f.name, Format: reads + f.lines.compression}}
	f.out, f.free = make(chan []Arrival, 2), make(chan []Arrival, 6)
	return nil
}

// begins returns the time of the first arrival: the earliest among those that [file.put] holds
// before the first are passed on. It reads these lines in addition. Of a pipe it returns -1,
// which is before any time, so that the pipe is read at once.
func (f *file) begins() int64 {
	var uncounted atomic.Int64
	if !f.again {
		return -1
	}
	in, err := openLines(f.name, nil, &uncounted)
	if err != nil {
		return -1
	}
	earliest := int64(math.MaxInt64)
	for n := 0; n < mostHeld && err == nil; {
		var block string
		block, err = in.next()
		for line := range strings.SplitSeq(block, "\n") {
			var a Arrival
			if line = strings.TrimSuffix(line, "\r"); line == "" {
				continue
			}
			if ok, err := f.parser.parse(line, &a); ok && err == nil {
				earliest = min(earliest, a.At)
			}
			n++
		}
	}
	if err = in.file.Close(); err != nil || earliest == math.MaxInt64 {
		return -1
	}
	return earliest
}

// run parses the file to its end, which closes out.
func (f *file) run(ctx context.Context) {
	defer close(f.out)
	defer func() { f.err = errors.Join(f.err, f.lines.file.Close()) }()
	for f.put(ctx, f.parse(f.block)) && f.fault == nil {
		f.block, f.fault = f.lines.next()
	}
	for f.block = ""; len(f.held) > 0 && f.emit(ctx); {
	}
	if f.fault != nil && !errors.Is(f.fault, io.EOF) {
		f.broken("", fmt.Errorf("the file ends early: %w", f.fault)) // such as a compressed one that is cut
	}
	if f.report.Lines, f.report.Files[0].Lines = f.line, f.line; !f.usable && ctx.Err() == nil {
		problem := "they are not requests"
		if len(f.report.Examples) > 0 {
			problem = f.report.Examples[0].Problem
		}
		f.err = fmt.Errorf("%s: none of %d lines can be used as %s: %s; name the format with --format, one of %s",
			f.name, f.line, f.report.Files[0].Format, problem, strings.Join(Formats, ", "))
		if j, ok := f.parser.(*jsonLines); ok && j.late != nil {
			f.err = fmt.Errorf("%s: %w", f.name, j.late)
		}
	}
}

// parse returns the arrivals of a block of lines, in order.
func (f *file) parse(block string) (all []Arrival) {
	select {
	case all = <-f.free:
	default:
		all = make([]Arrival, 0, blockArrivals)
	}
	ordered := true
	for block != "" {
		line, rest, _ := strings.Cut(block, "\n")
		block = rest
		f.line++
		if line = strings.TrimSuffix(line, "\r"); line == "" {
			continue
		}
		all = append(all, Arrival{Line: f.line, File: f.index, Read: -1})
		a := &all[len(all)-1]
		if ok, err := f.parser.parse(line, a); !ok || err != nil {
			if all = all[:len(all)-1]; err != nil {
				f.broken(line, err)
			}
			continue
		}
		if f.usable = true; a.At < f.before {
			ordered = false
			f.report.Late++
			f.example(1, fmt.Sprintf("%v earlier than the line before", time.Duration(f.before-a.At)*time.Microsecond), "")
		}
		f.before = a.At
	}
	if !ordered {
		slices.SortStableFunc(all, func(a, b Arrival) int { return cmp.Compare(a.At, b.At) })
	}
	return all
}

// broken counts a line that is no request.
func (f *file) broken(line string, err error) {
	if f.report.Broken++; errors.Is(err, errKey) {
		f.report.Keyless++
	}
	f.example(0, err.Error(), shorten(line))
}

func (f *file) example(kind int, problem, text string) {
	if f.examples[kind]++; f.examples[kind] <= mostExamples {
		f.report.Examples = append(f.report.Examples, Example{fmt.Sprintf("%s:%d", f.name, f.line), problem, text})
	}
}

// put adds arrivals to those that are held, in their places, and emits the oldest if there are
// too many. It returns false once ctx has ended.
func (f *file) put(ctx context.Context, next []Arrival) bool {
	if len(next) == 0 {
		return ctx.Err() == nil
	}
	n := len(f.held)
	for n > 0 && f.held[n-1][len(f.held[n-1])-1].At > next[0].At {
		n--
	}
	f.count += len(next)
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
