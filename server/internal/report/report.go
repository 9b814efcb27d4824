// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package report defines the reports that the nodes of a shared store write for each other
// about the requests that each has answered, and their sum. It does not trust the reports
// of other nodes: they may be of a later version, or by a stranger.
package report

import (
	"slices"
	"time"

	"github.com/sluicegate/sluice/server/internal/history"
	"github.com/sluicegate/sluice/server/internal/outcome"
	"github.com/sluicegate/sluice/server/internal/sketch"
)

// version is the version of the written form. A node skips other versions, and says so.
// New fields do not need a new version. The meaning of a field never changes.
const version = 1

// Node is the line that a node always writes. It names no key.
type Node struct {
	V       int    `json:"v"`
	ID      string `json:"id"`   // random, drawn at the start
	Name    string `json:"name"` // for people: the host
	Version string `json:"version"`
	Listen  string `json:"listen,omitempty"` // the first address for clients
	// Upstream is the server that gets the requests. Named are names of rules, at most
	// [MostNamed]: the nodes that have a rule share its budgets.
	Upstream string   `json:"upstream,omitempty"`
	Named    []string `json:"named,omitempty"`
	Config   string   `json:"config"` // version of the configuration's file
	Rules    string   `json:"rules"`  // hash of the rules, whatever their text
	// Failed reports that the present file is not active. StoreUp reports that decisions go
	// to the store.
	Failed  bool  `json:"failed,omitempty"`
	StoreUp bool  `json:"store_up"`
	Started int64 `json:"started"` // milliseconds since 1970, by its own clock
	Clock   int64 `json:"clock"`   // the same clock at the time of writing
	// Total is the outcomes of all requests since Started.
	Total history.Counts `json:"total"`
}

// Label returns the node's name and address for people. Several nodes may run on one host.
func (n *Node) Label() string {
	if n.Listen == "" {
		return n.Name
	}
	return n.Name + " (" + n.Listen + ")"
}

// Uptime returns the time from the node's start until it wrote this.
func (n *Node) Uptime() time.Duration {
	return time.Duration(max(n.Clock-n.Started, 0)) * time.Millisecond
}

// Shares returns the name of a rule of both nodes, among the [MostNamed] that each names.
func (n *Node) Shares(other *Node) (rule string, ok bool) {
	i := slices.IndexFunc(n.Named, func(rule string) bool { return slices.Contains(other.Named, rule) })
	if i < 0 {
		return "", false
	}
	return n.Named[i], true
}

// Apart reports whether the nodes have no rule in common, as far as that is known: a node
// with many rules does not name all of them.
func (n *Node) Apart(other *Node) bool {
	_, shares := n.Shares(other)
	return !shares && len(n.Named) < MostNamed && len(other.Named) < MostNamed
}

// Report is the report that a node writes while a caller watches.
type Report struct {
	V  int    `json:"v"`
	ID string `json:"id"` // of the node
	// Hashed names the secret with which keys were hashed.
	Hashed string          `json:"hashed,omitempty"`
	Total  history.Counts  `json:"total"`
	Recent *history.Series `json:"recent,omitempty"`
	Day    *history.Series `json:"day,omitempty"`
	// Rules are the rules that have counted requests. More is the number of these that are
	// left out.
	Rules []Rule `json:"rules,omitempty"`
	More  int    `json:"more,omitempty"`
}

// Rule is the outcomes of requests under a rule.
type Rule struct {
	Name       string                    `json:"n"`
	Shadow     bool                      `json:"s,omitempty"`
	Counts     outcome.Counts            `json:"c,omitzero"` // since the start
	Recent     history.Counts            `json:"r,omitzero"` // in the last 10 minutes
	Candidates []outcome.CandidateReport `json:"k,omitempty"`
	Unstated   uint64                    `json:"u,omitempty"` // recent responses that lacked the header field of their cost
	Detail     *Detail                   `json:"d,omitempty"` // of a rule that is watched in detail
}

// Detail holds the parts of a rule's report that take room.
type Detail struct {
	Recent *history.Series  `json:"recent,omitempty"`
	Day    *history.Series  `json:"day,omitempty"`
	Hour   *sketch.Sum      `json:"hour,omitempty"`
	Days   *sketch.Sum      `json:"days,omitempty"`
	Top    []outcome.Denied `json:"top,omitempty"`
}

// Seen is the line and the report that were last read of a node.
type Seen struct {
	Node
	Last time.Time // when the node wrote its line, by the store's clock
	// Report is nil if there is none, or if it cannot be used. Fault says why it cannot.
	Report *Report
	At     time.Time // when the node wrote the Report, by the store's clock
	Fault  error
}

// Fleet is the result of the last read of all other nodes.
type Fleet struct {
	Nodes []Seen
	Now   time.Time     // time of the read by the store's clock; zero before the first
	Ago   time.Duration // time since the read
	// Unread is the number of nodes whose line cannot be read: it has another version, or
	// is not valid.
	Unread int
	// Live is the number of nodes that share the store by their heartbeats.
	Live int64
	Err  error // why the store does not answer now, nil if it does
}

// Silent is the time without a write after which a node counts as gone.
const Silent = 15 * time.Second

// Silent reports whether a node had written nothing for more than [Silent] when it was read.
// A node that wrote in the future has written nothing since the store's clock stepped back.
func (f *Fleet) Silent(n *Seen) bool { return f.Now.Sub(n.Last).Abs() > Silent }
