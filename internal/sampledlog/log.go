// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package sampledlog samples log lines about failures that an attack or an outage causes for
// every request.
package sampledlog

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"
)

const (
	// every is the least time between two lines about a problem.
	every = time.Second
	// maxProblems bounds the memory of a Log: problems beyond it are sampled as one.
	maxProblems = 64
	// longest bounds the text of an error in bytes: clients may choose a part of it.
	longest = 500
)

// Log writes one line a second of each problem, with the number of lines left out: in the next
// line or, if there is none within another second, in a line of its own. A problem is named by
// its message, a text of the program and never of a client: beyond 64 of them the others share
// a line. Logger and Part must be set before use. It is safe for concurrent use.
type Log struct {
	Logger *slog.Logger
	Part   string // the part of the program that logs

	mu       sync.Mutex
	problems map[string]*problem
	others   problem
}

// problem is the state of one problem.
type problem struct {
	next    time.Time // the earliest time of the next line
	skipped int
	last    line        // the last one left out
	timer   *time.Timer // writes last
}

// line is a line of the log.
type line struct {
	level   slog.Level
	problem string
	err     error
}

// Warn logs err as the reason of problem, unless one was logged within the last second.
func (l *Log) Warn(ctx context.Context, problem string, err error) {
	l.log(ctx, line{slog.LevelWarn, problem, err})
}

// Error is Warn for a fault of the program.
func (l *Log) Error(ctx context.Context, problem string, err error) {
	l.log(ctx, line{slog.LevelError, problem, err})
}

func (l *Log) log(ctx context.Context, what line) {
	now := time.Now()
	l.mu.Lock()
	p := l.of(what.problem)
	if now.Before(p.next) {
		p.skip(l, what) //nolint:contextcheck // a line left out is written after its request has ended
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

// skip leaves a line out, to be counted later.
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

// reported returns the number of lines left out before a line written now.
func (p *problem) reported(now time.Time) (skipped int) {
	skipped = p.skipped
	p.skipped, p.last, p.next = 0, line{}, now.Add(every)
	if p.timer != nil {
		p.timer.Stop()
	}
	return skipped
}

// report writes the last line left out if no other has followed.
func (l *Log) report(p *problem) {
	l.mu.Lock()
	if p.skipped == 0 { // another line was written when the timer had already fired
		l.mu.Unlock()
		return
	}
	what := p.last
	skipped := p.reported(time.Now())
	l.mu.Unlock()
	l.write(context.Background(), what, skipped-1)
}

func (l *Log) write(ctx context.Context, what line, skipped int) {
	l.Logger.LogAttrs(ctx, what.level, what.problem, //nolint:sloglint // a text of the program
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
