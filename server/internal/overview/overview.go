// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluicegate/sluice/server/internal/finding"
	"github.com/sluicegate/sluice/server/internal/history"
	"github.com/sluicegate/sluice/server/internal/outcome"
	"github.com/sluicegate/sluice/server/internal/sketch"
)

// Overview is the answer of GET /v1/overview: the present and recent state of the program.
// Times are UTC.
type Overview struct {
	Time   time.Time `json:"time"`
	Hidden bool      `json:"hidden,omitempty"` // keys are hashes: the caller has no token
	System
	Requests Requests `json:"requests"`
	Rules    []Rule   `json:"rules"` // in the order of the policy
	// Overrides is the number of overrides beside those of the configuration.
	Overrides int `json:"overrides"`
}

// Requests is the outcomes of all requests.
type Requests struct {
	Total  history.Counts  `json:"total"`            // since the start
	Recent *history.Series `json:"recent,omitempty"` // the last 10 minutes by seconds
	Day    *history.Series `json:"day,omitempty"`    // the last 24 hours by minutes
	// Refusals are the causes of refused requests at this node, the most frequent recent one
	// first.
	Refusals []outcome.Cause `json:"refusals,omitempty"`
	// Problems are the causes, in the last 10 minutes, of outcomes that the limits do not
	// explain, the largest first.
	Problems []Problem `json:"problems,omitempty"`
}

// RuleStatus is the outcomes of requests under a rule.
type RuleStatus struct {
	Name   string   `json:"name"`
	Mode   string   `json:"mode"` // enforce or shadow
	Limits []string `json:"limits"`
	outcome.Counts
	Candidates []outcome.CandidateReport `json:"candidates,omitempty"`
}

// Rule is the outcomes of requests under a rule. Evaluated and WouldDeny include
// those of its candidates, as in the series and in the events of GET /v1/live.
type Rule struct {
	RuleStatus
	By      string `json:"by,omitempty"` // parts of its keys
	Failure string `json:"failure"`      // answer to requests in an outage of the store
	// Recent are the last 10 minutes in steps of 5 s; nil if nothing was counted. Day are
	// the last 24 hours in steps of 10 minutes, only if the query names the rule.
	Recent   *history.Series `json:"recent,omitempty"`
	Day      *history.Series `json:"day,omitempty"`
	KeysHour *sketch.Count   `json:"keys_hour,omitempty"`
	KeysDay  *sketch.Count   `json:"keys_day,omitempty"`
	Top      []TopLevel      `json:"top,omitempty"` // denied most, since the start
	// Findings are remarks for the operator.
	Findings []finding.Finding `json:"findings,omitempty"`
}

// System is the state of the program apart from its rules.
type System struct {
	Started      time.Time     `json:"started"`
	Build        Build         `json:"build"`
	Config       Config        `json:"config"`
	InFlight     int64         `json:"in_flight"`
	Queue        Queue         `json:"queue"`
	Store        Store         `json:"store"`
	Upstreams    Upstreams     `json:"upstreams"`
	Certificates []Certificate `json:"certificates,omitempty"`
	Memory       Memory        `json:"memory"`
}

// Build describes the build of the program.
type Build struct {
	Version  string `json:"version"`
	Revision string `json:"revision"`
	Go       string `json:"go"`
}

// Config is the part of the active configuration that is shown. It holds no
// secret.
type Config struct {
	File    string    `json:"file"`
	Version string    `json:"version"` // changes with the file's bytes
	Loaded  time.Time `json:"loaded"`
	// Failure is the reason why the present file is not active, empty if it is.
	Failure   string   `json:"failure,omitempty"`
	Listeners []string `json:"listeners"`
	Admin     string   `json:"admin,omitempty"`
	Trusted   []string `json:"trusted_proxies,omitempty"`
	Tokens    bool     `json:"tokens"` // tokens are verified
	Rules     int      `json:"rules"`
}

// Queue is the state of the queue of delayed requests.
type Queue struct {
	Delayed   int   `json:"delayed"`    // requests that wait now
	Full      int64 `json:"full"`       // requests that found no place
	ShareFull int64 `json:"share_full"` // requests of keys without a place left
	ReadAhead int64 `json:"read_ahead"` // bytes of the bodies of delayed requests
}

// Store is the state of the store.
type Store struct {
	Kind   string `json:"kind"`             // memory or redis
	Target string `json:"target,omitempty"` // without user and password
	Up     bool   `json:"up"`
	Text   string `json:"text"` // as in /readyz
	// LatencySince is the time since which P50 and P99 are measured: a minute or less. They
	// are upper ends of steps of a histogram; 0 without calls since.
	LatencySince time.Time `json:"latency_since"`
	P50          float64   `json:"p50_ms"`
	P99          float64   `json:"p99_ms"`
	Asked        uint64    `json:"asked"`  // calls since the start
	Failed       uint64    `json:"failed"` // failed calls since the start
	// Of a store in this process.
	Keys    int    `json:"keys,omitempty"`
	Bytes   int64  `json:"bytes,omitempty"`
	Evicted uint64 `json:"evicted,omitempty"`
	// Of a shared one.
	Nodes    int64  `json:"nodes,omitempty"` // nodes that share it, as last known
	Outages  uint64 `json:"outages,omitempty"`
	Degraded uint64 `json:"degraded,omitempty"` // requests decided without the store
	InFlight int    `json:"calls_in_flight,omitempty"`
	// NotApplied names the limits that do not apply while the store is unavailable, and since
	// when: all limits, or shared limits if each node decides with its share.
	NotApplied      string    `json:"not_applied,omitempty"`
	NotAppliedSince time.Time `json:"not_applied_since,omitzero"`
}

// Upstreams is the state of connections to upstreams.
type Upstreams struct {
	URLs    []string `json:"urls"` // without user and password
	Open    int64    `json:"open"`
	Refused int64    `json:"refused"` // connections not opened for want of resources of this machine
}

// Certificate is the certificate of a listener.
type Certificate struct {
	Listener string    `json:"listener"`
	Names    []string  `json:"names,omitempty"`
	NotAfter time.Time `json:"not_after"`
	// Failure is the reason why the present files cannot serve, empty if they can.
	Failure string `json:"failure,omitempty"`
}

// Memory is the memory of the process.
type Memory struct {
	Total   int64 `json:"total"` // bytes from the system, without returned ones
	Limit   int64 `json:"limit,omitempty"`
	Clients int64 `json:"clients,omitempty"` // bytes of connections and requests, if they have a limit
	History int64 `json:"history"`           // bytes of the history of requests, estimated
}

// State is the part of [System] that can change from one event to the next.
type State struct {
	InFlight int64  `json:"in_flight"`
	Delayed  int    `json:"delayed"` // requests that wait now
	StoreUp  bool   `json:"store_up"`
	Version  string `json:"version"` // of the configuration's file
	Current  bool   `json:"current"` // the present version of the file is active
}

// MostTop is the number of keys of each level in an overview.
const MostTop = 5

// Top is the answer of GET /v1/top.
type Top struct {
	Levels []TopLevel `json:"levels"`
	Hidden bool       `json:"hidden,omitempty"` // keys are hashes: the caller has no token
}

// TopLevel holds the keys of a rule's level that were denied most.
type TopLevel struct {
	Rule  string   `json:"rule"`
	Level string   `json:"level,omitempty"`
	Total uint64   `json:"total"` // denials
	Keys  []TopKey `json:"keys"`
}

// TopKey is a key that was denied at least Least and at most Most times.
type TopKey struct {
	Parts map[string]string `json:"parts,omitempty"`
	Hash  string            `json:"hash,omitempty"` // instead of the parts
	Least uint64            `json:"least"`
	Most  uint64            `json:"most"`
}

// A problem is reported from this share of requests, and this number or half of them.
const (
	leastShare    = 0.05
	leastRequests = 3
)

// Problem is a cause of outcomes of requests that the limits do not explain.
type Problem struct {
	Kind  string  `json:"kind"`  // refused, failed, failed-open, upstream or log
	Share float64 `json:"share"` // of requests; 1 for a log that cannot be written
	Text  string  `json:"text"`
}

// Log is a log that cannot be written, and why.
type Log struct {
	Name  string
	Fault error
}

// ProblemLines returns the lines of problems in /readyz.
func ProblemLines(all []Problem) string {
	var b strings.Builder
	for _, p := range all {
		fmt.Fprintf(&b, "%s: %s%s\n", p.Kind, p.Text, map[bool]string{false: ", in the last 10 minutes"}[p.Kind == "log"])
	}
	return b.String()
}

// Problems returns the problems of recent requests, the largest first. causes are the causes
// of refusals at this node.
func Problems(recent history.Counts, causes []outcome.Cause, logs []Log) []Problem {
	var all []Problem
	requests := recent.Requests()
	add := func(kind string, n uint64, text string) {
		if share := float64(n) / float64(max(requests, 1)); share >= leastShare && (n >= leastRequests || share >= 0.5) {
			all = append(all, Problem{kind, share, fmt.Sprintf("%d of %d requests %s", n, requests, text)})
		}
	}
	add("refused", recent.Refused, refusal(recent.Refused, causes))
	add("failed", recent.Failed, "got 503: their limits could not be checked, too many wait, or there is no memory for them")
	add("failed-open", recent.FailedOpen, "passed without a limit, as the store was unavailable")
	add("upstream", recent.UpstreamErrors, "got an error of the upstream: 5xx, no answer, or a timeout")
	for _, l := range logs {
		all = append(all, Problem{"log", 1, fmt.Sprintf("the %s cannot be written: %v", l.Name, l.Fault)})
	}
	slices.SortStableFunc(all, func(a, b Problem) int { return cmp.Compare(b.Share, a.Share) })
	return all
}

// refusal describes the most frequent cause of refusals.
func refusal(n uint64, causes []outcome.Cause) string {
	if len(causes) == 0 || causes[0].Recent < (n+1)/2 { // other nodes may have other causes
		return "were refused with 400, 401 or 403"
	}
	of := causes[0]
	if of.Recent >= n {
		return fmt.Sprintf("got %d: %s", cmp.Or(of.Status, 400), of.Text)
	}
	return fmt.Sprintf("were refused, most with %d: %s", cmp.Or(of.Status, 400), of.Text)
}
