// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package arrivals reads requests from logs, in the order of time. [Open] detects the format
// and the compression of each file, and [Log.All] merges the files.
//
// The files, in the order in which to read them:
//
//   - arrivals.go: Arrival, Options, Report
//   - log.go: Open, All: several files merged
//   - file.go: one file: its lines parsed and put in order
//   - lines.go: blocks of lines, decompressed
//   - format.go: the format of a file
//   - table.go: columns between separators, such as CSV; combined, Envoy, ALB
//   - jsonlines.go: JSON lines, Caddy, the decision log
//   - layout.go: columns by their names
//   - instant.go: times
package arrivals

import (
	"net/netip"
	"time"
)

// Arrival is a request as its line has it. Its texts may be kept.
type Arrival struct {
	At   int64 // µs since 1970 at which the request came
	Line int64 // from 1, of File
	File int   // index in [Report.Files]
	Has  Parts // the parts that the line has

	Method, Host, Agent, Referer string

	Target  string // path and query
	Client  netip.Addr
	Name    string              // the client as it is logged: its address without a port, or a name
	Headers map[string][]string // other fields of the header, by canonical name
	Status  int
	Read    int64 // bytes of the request's body; -1: not known
	Written int64 // bytes of the response's body
	Took    time.Duration
	Key     string // of the column that Options.Key names
	Cost    int64  // of the column that Options.Cost names
	// Record is the recorded decision if the log is sluice's decision log, nil otherwise.
	Record *Record
}

// Parts are parts of a request, a bit for each.
type Parts uint16

// The parts that a line may have.
const (
	Method Parts = 1 << iota
	Host
	Path
	Query
	Client
	Agent
	Referer
	Headers // all fields of the header
	Status
	Read
	Written
	Took
)

// Record is the decision that a line of the decision log records.
type Record struct {
	Verdict string         `json:"verdict"`
	Rules   []RecordedRule `json:"rules"`
}

// RecordedRule is the entry of a limit in a [Record].
type RecordedRule struct {
	Rule    string `json:"rule"`
	Level   string `json:"level"`
	Mode    string `json:"mode"`
	Verdict string `json:"verdict"`
	Key     string `json:"key"`
	Hash    string `json:"key_hash"`
	Tier    string `json:"tier"`
	Cost    int64  `json:"cost"`
}

// Options say how to read logs. The zero Options detect everything.
type Options struct {
	Format string // one of [Formats]; empty: detected
	// Time, Key and Cost name columns of a table, by name or number from 1, or fields of
	// JSON, whose parts are joined by dots. Only Time is detected.
	Time, Key, Cost string
}

// Report describes what was read. It is complete once [Log.All] has ended.
type Report struct {
	Files  []FileReport `json:"files"`
	Lines  int64        `json:"lines"`
	Broken int64        `json:"broken_lines"`
	// Keyless is how many of the broken lines have no value in the column that Options.Key names.
	Keyless int64 `json:"lines_without_key"`
	// Late is the number of lines with a time before that of the line before them. All lines
	// are put in order, except Misplaced ones, which are more than about 32,000 lines behind
	// their place: they take the time of the line before which they come.
	Late      int64 `json:"late_lines"`
	Misplaced int64 `json:"misplaced_lines"`
	// Examples are the first lines of each file that are broken or late.
	Examples []Example `json:"examples,omitempty"`
}

// FileReport describes one file.
type FileReport struct {
	Name   string `json:"name"`
	Format string `json:"format"` // with the column of the time and the compression
	Lines  int64  `json:"lines"`
}

// Example is a line that is broken or late.
type Example struct {
	Place   string `json:"place"` // file:line
	Problem string `json:"problem"`
	Text    string `json:"text,omitempty"` // the beginning of a broken line
}
