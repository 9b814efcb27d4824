// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package report is what the nodes of a shared store report to each other about the
// requests that each has answered, and the sum of it. What another node has written
// is read with suspicion: it may be of a later version, or by a stranger.
package report

import (
	"slices"
	"time"

	"github.com/sluicegate/sluice/internal/server/history"
	"github.com/sluicegate/sluice/internal/server/sketch"
	"github.com/sluicegate/sluice/internal/server/tally"
)

// version is that of what is written. One who reads another skips it, and says so: fields
// may come without a new version, and mean the same for ever.
const version = 1

// Node is what a node always reports. It names no key.
type Node struct {
	V       int    `json:"v"`
	ID      string `json:"id"`   // drawn at its start
	Name    string `json:"name"` // for people: its host
	Version string `json:"version"`
	Listen  string `json:"listen,omitempty"` // where clients come in, at first
	// Upstream is where requests go, and Named the names of rules, [MostNamed] at most:
	// under each the nodes that have it share budgets.
	Upstream string   `json:"upstream,omitempty"`
	Named    []string `json:"named,omitempty"`
	Config   string   `json:"config"` // version of the configuration's file
	Rules    string   `json:"rules"`  // the same for the same rules, however they are written
	// Failed is that the file as it is now is not active, and StoreUp that decisions go
	// to the store.
	Failed  bool  `json:"failed,omitempty"`
	StoreUp bool  `json:"store_up"`
	Started int64 `json:"started"` // milliseconds since 1970, by its own clock
	Clock   int64 `json:"clock"`   // as it wrote this
	// Total is the outcomes of all requests since Started.
	Total history.Counts `json:"total"`
}

// Label is what people call a node: its name, and where it listens, as several may run
// on one host.
func (n *Node) Label() string {
	if n.Listen == "" {
		return n.Name
	}
	return n.Name + " (" + n.Listen + ")"
}

// Uptime returns for how long the node had run as it wrote this.
func (n *Node) Uptime() time.Duration {
	return time.Duration(max(n.Clock-n.Started, 0)) * time.Millisecond
}

// Shares returns a rule that both nodes have by name, of the [MostNamed] that each names.
func (n *Node) Shares(other *Node) (rule string, ok bool) {
	i := slices.IndexFunc(n.Named, func(rule string) bool { return slices.Contains(other.Named, rule) })
	if i < 0 {
		return "", false
	}
	return n.Named[i], true
}

// Apart reports whether the nodes have no rule in common, as far as that is known: of a node
// with many rules not all are named.
func (n *Node) Apart(other *Node) bool {
	_, shares := n.Shares(other)
	return !shares && len(n.Named) < MostNamed && len(other.Named) < MostNamed
}

// Report is what a node reports while somebody looks.
type Report struct {
	V  int    `json:"v"`
	ID string `json:"id"` // of the node
	// Hashed names the secret under which keys were hashed.
	Hashed string          `json:"hashed,omitempty"`
	Total  history.Counts  `json:"total"`
	Recent *history.Series `json:"recent,omitempty"`
	Day    *history.Series `json:"day,omitempty"`
	// Rules are those that have counted something, and More is how many of these are left
	// out.
	Rules []Rule `json:"rules,omitempty"`
	More  int    `json:"more,omitempty"`
}

// Rule is the outcomes of requests under a rule.
type Rule struct {
	Name       string                  `json:"n"`
	Shadow     bool                    `json:"s,omitempty"`
	Counts     tally.Counts            `json:"c,omitzero"` // since the start
	Recent     history.Counts          `json:"r,omitzero"` // in the last 10 minutes
	Candidates []tally.CandidateReport `json:"k,omitempty"`
	Unstated   uint64                  `json:"u,omitempty"` // recent responses that lacked the header field of their cost
	Detail     *Detail                 `json:"d,omitempty"` // of a rule that is looked at
}

// Detail is what takes room.
type Detail struct {
	Recent *history.Series `json:"recent,omitempty"`
	Day    *history.Series `json:"day,omitempty"`
	Hour   *sketch.Sum     `json:"hour,omitempty"`
	Days   *sketch.Sum     `json:"days,omitempty"`
	Top    []tally.Denied  `json:"top,omitempty"`
}

// Seen is what was last read of a node.
type Seen struct {
	Node
	Last time.Time // by the store's clock: when it wrote this
	// Report is nil if there is none, or if it cannot be used: then Fault says why.
	Report *Report
	At     time.Time // by the store's clock: when it wrote the Report
	Fault  error
}

// Fleet is what was last read of all nodes but this one.
type Fleet struct {
	Nodes []Seen
	Now   time.Time     // by the store's clock, when they were read; zero: they never were
	Ago   time.Duration // since then
	// Unread is how many nodes have written what cannot be read, as it is of another
	// version, or is none.
	Unread int
	// Live is how many nodes share the store by their heartbeats.
	Live int64
	Err  error // why the store does not answer now
}

// Silent is how long a node may write nothing before it counts as gone.
const Silent = 15 * time.Second

// Silent reports whether a node had written nothing for long when it was read. One that wrote
// in the future has written nothing since the store's clock stepped back.
func (f *Fleet) Silent(n *Seen) bool { return f.Now.Sub(n.Last).Abs() > Silent }
