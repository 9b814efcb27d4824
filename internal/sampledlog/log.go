// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package sampledlog logs what fails under attack or in an outage, which then
// fails for as many requests as come.
package sampledlog

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"
)

const (
	// every is how often a problem is reported.
	every = time.Second
	// maxProblems bounds the memory of a Log: problems beyond it are sampled as
	// if they were one.
	maxProblems = 64
	// longest is how much of an error is written, in bytes: clients may choose a
	// part of it.
	longest = 500
)

// Log lets one line a second of each problem through and says how many it has
// not written: with the next line or, if there is none within another second, by
// a line of its own. A problem is the message, a text of the program's and never of a
// client's: of more than 64 of them the others share a line. Logger and Part must be set
// before use. It is safe for concurrent use.
type Log struct {
	Logger *slog.Logger
	Part   string // which part of the program speaks

	mu       sync.Mutex
	problems map[string]*problem
	others   problem
}

// problem is what has been reported of one.
type problem struct {
	next    time.Time // not before this is it reported again
	skipped int
	last    line        // of those that were skipped
	timer   *time.Timer // reports them
}

// line is what is logged.
type line struct {
	level   slog.Level
	problem string
	err     error
}

// Warn logs err as the reason of problem, unless another was logged within the
// last second.
func (l *Log) Warn(ctx context.Context, problem string, err error) {
	l.log(ctx, line{slog.LevelWarn, problem, err})
}

// Error is Warn for what is a fault of the program.
func (l *Log) Error(ctx context.Context, problem string, err error) {
	l.log(ctx, line{slog.LevelError, problem, err})
}

func (l *Log) log(ctx context.Context, what line) {
	now := time.Now()
	l.mu.Lock()
	p := l.of(what.problem)
	if now.Before(p.next) {
		p.skip(l, what) //nolint:contextcheck // what was left out is reported when its request has ended
		l.mu.Unlock()
		return
	}
	skipped := p.reported(now)
	l.mu.Unlock()
	l.write(ctx, what, skipped)
}

func (l *Log) of(name string) *problem {
	if p := l.problems[name]; p != nil {
		return p
	}
	if len(l.problems) == maxProblems {
		return &l.others
	}
	if l.problems == nil {
		l.problems = make(map[string]*problem)
	}
	p := &problem{}
	l.problems[name] = p
	return p
}

// skip leaves a line out, to be reported later.
func (p *problem) skip(l *Log, what line) {
	p.skipped++
	p.last = what
	if p.skipped > 1 {
		return
	}
	const quiet = 2 * every // since the last line
	if p.timer == nil {
		p.timer = time.AfterFunc(quiet, func() { l.report(p) })
	} else {
		p.timer.Reset(quiet)
	}
}

// reported returns how many lines were left out before one that is written now.
func (p *problem) reported(now time.Time) (skipped int) {
	skipped = p.skipped
	p.skipped, p.last, p.next = 0, line{}, now.Add(every)
	if p.timer != nil {
		p.timer.Stop()
	}
	return skipped
}

// report writes the last line that was left out, after which none came.
func (l *Log) report(p *problem) {
	l.mu.Lock()
	if p.skipped == 0 { // it was reported when the timer had ended already
		l.mu.Unlock()
		return
	}
	what := p.last
	skipped := p.reported(time.Now())
	l.mu.Unlock()
	l.write(context.Background(), what, skipped-1)
}

func (l *Log) write(ctx context.Context, what line, skipped int) {
	l.Logger.LogAttrs(ctx, what.level, what.problem, //nolint:sloglint // it is a text of the program's
		slog.String("part", l.Part), slog.String("error", short(what.err)), slog.Int("unreported", skipped))
}

func short(err error) string {
	if err == nil {
		return ""
	}
	text := err.Error()
	if len(text) > longest {
		text = strings.ToValidUTF8(text[:longest], "") + "…"
	}
	return text
}
