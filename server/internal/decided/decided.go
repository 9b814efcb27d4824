// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package decided reads the last decisions about a key from the decision log.
package decided

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/sluicegate/sluice/internal/regular"
	"github.com/sluicegate/sluice/server/internal/logfile"
)

const (
	mostDecisions = 20
	mostBytes     = 4 << 20 // of the file's end
	version       = 1       // of lines
)

// Key is a key of a rule's level, as a request has it. An empty Key means one budget for all.
type Key struct{ Rule, Level, Key string }

// List holds decisions about keys.
type List struct {
	Decisions []Decision `json:"decisions,omitempty"` // newest first
	// More means that there are older lines, which were not read.
	More bool `json:"more,omitempty"`
	// Unreadable is the number of lines that could not be read.
	Unreadable int `json:"unreadable,omitempty"`
	// Note says why there are no decisions, or which are missing.
	Note string `json:"note,omitempty"`
}

// Decision is the outcome of a request, with one of its limits on the keys: the one that
// decided, or the first.
type Decision struct {
	Time    time.Time `json:"time"` // UTC
	Method  string    `json:"method"`
	Path    string    `json:"path"`
	Verdict string    `json:"verdict"` // of the request
	Status  int       `json:"status"`
	Rule    string    `json:"rule"`
	Level   string    `json:"level,omitempty"`
	// LimitVerdict is about Limit alone: another limit may have denied the request.
	LimitVerdict string `json:"limit_verdict"`
	Limit        string `json:"limit,omitempty"`
	Mode         string `json:"mode"`
	Candidate    string `json:"candidate,omitempty"`
	Remaining    *int64 `json:"remaining,omitempty"` // nil: unknown
}

// line holds the fields read of a log line.
type line struct {
	V       int               `json:"v"`
	Time    time.Time         `json:"time"`
	Method  string            `json:"method"`
	Path    string            `json:"path"`
	Verdict string            `json:"verdict"`
	Status  int               `json:"status"`
	Rules   []json.RawMessage `json:"rules"`
}

// entry holds the fields read of one limit of a line.
type entry struct {
	Rule      string  `json:"rule"`
	Level     string  `json:"level"`
	Limit     string  `json:"limit"`
	Mode      string  `json:"mode"`
	Candidate string  `json:"candidate"`
	Verdict   string  `json:"verdict"`
	Remaining *int64  `json:"remaining"`
	Binds     bool    `json:"binds"`
	Key       *string `json:"key"`
	KeyHash   *string `json:"key_hash"`
}

// names are the forms in which the log may write a key: JSON fields.
type names struct {
	Key
	fields [][]byte // empty for a key that the log leaves out
}

// Find reads the last decisions about any of the keys from the end of the log at path, which
// must be a regular file. fields returns the forms in which the log may write a key. It reads
// at most 4 MiB, and blocks only for the disk.
func Find(path string, keys []Key, fields func(key string) [][]byte) (l List, err error) {
	f, info, err := regular.Open(path)
	if err != nil {
		return l, fmt.Errorf("the decision log cannot be read back: %w", err)
	}
	defer f.Close() //nolint:errcheck // it was read only
	wanted := make([]names, len(keys))
	for i, k := range keys {
		if wanted[i].Key = k; k.Key != "" {
			wanted[i].fields = fields(k.Key)
		}
	}
	l.More, err = logfile.Backward(f, info.Size(), mostBytes, func(text []byte) bool {
		l.add(text, wanted)
		return len(l.Decisions) < mostDecisions
	})
	if err != nil {
		err = fmt.Errorf("the decision log cannot be read back: %w", err)
	}
	return l, err
}

// add adds the decision of a line, if it is about one of the keys.
func (l *List) add(text []byte, wanted []names) {
	if !bytes.HasPrefix(text, []byte(`{"v":`)) || text[len(text)-1] != '}' {
		l.Unreadable++
		return
	}
	if !mentioned(text, wanted) {
		return
	}
	var of line
	if err := json.Unmarshal(text, &of); err != nil || of.V != version {
		l.Unreadable++
		return
	}
	best, rank := Decision{}, 0
	for _, raw := range of.Rules {
		var e entry
		if err := json.Unmarshal(raw, &e); err != nil {
			l.Unreadable++
			return
		}
		if r := e.rank(); r > rank && e.about(raw, wanted) {
			rank = r
			best = Decision{
				Time: of.Time.UTC(), Method: of.Method, Path: of.Path, Verdict: of.Verdict, Status: of.Status,
				Rule: e.Rule, Level: e.Level, Limit: e.Limit, LimitVerdict: e.Verdict, Mode: e.Mode, Candidate: e.Candidate, Remaining: e.Remaining,
			}
		}
	}
	if rank > 0 {
		l.Decisions = append(l.Decisions, best)
	}
}

// mentioned reports whether a line may be about one of the keys.
func mentioned(text []byte, wanted []names) bool {
	var last string // rules with equal keys are adjacent
	for i := range wanted {
		if w := &wanted[i]; len(w.fields) == 0 || w.Key.Key != last && w.in(text) {
			return true
		}
		last = wanted[i].Key.Key
	}
	return false
}

// in reports whether a text has one of the fields. In JSON these bytes have no other meaning:
// a quote in a string is escaped.
func (n *names) in(text []byte) bool {
	for _, f := range n.fields {
		if bytes.Contains(text, f) {
			return true
		}
	}
	return false
}

// about reports whether an entry is about one of the keys.
func (e *entry) about(raw []byte, wanted []names) bool {
	for i := range wanted {
		w := &wanted[i]
		switch {
		case e.Rule != w.Rule || e.Level != w.Level:
		case len(w.fields) > 0:
			if w.in(raw) {
				return true
			}
		case e.Key == nil && e.KeyHash == nil && e.Limit != "": // entries without a limit never have a key
			return true
		}
	}
	return false
}

// rank is higher for an entry that explains more of the decision.
func (e *entry) rank() int {
	switch {
	case e.Binds:
		return 4
	case e.Mode == "candidate" || e.Mode == "shadow":
		return 1
	case e.Verdict != "allowed":
		return 3
	}
	return 2
}
