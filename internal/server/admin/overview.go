// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"time"

	"github.com/sluicegate/sluice/internal/server/finding"
	"github.com/sluicegate/sluice/internal/server/history"
	"github.com/sluicegate/sluice/internal/server/sketch"
	"github.com/sluicegate/sluice/internal/server/tally"
)

// Overview is the answer of GET /v1/overview: the state of the program now and of
// late. Times are UTC.
type Overview struct {
	Time   time.Time `json:"time"`
	Hidden bool      `json:"hidden,omitempty"` // keys are hashes: the caller has no token
	System
	Requests Requests       `json:"requests"`
	Rules    []RuleOverview `json:"rules"` // in the order of the policy
	// Overrides is how many there are beside those of the file.
	Overrides int `json:"overrides"`
}

// Requests is the outcomes of all requests.
type Requests struct {
	Total  history.Counts  `json:"total"`            // since the start
	Recent *history.Series `json:"recent,omitempty"` // the last 10 minutes by seconds
	Day    *history.Series `json:"day,omitempty"`    // the last 24 hours by minutes
	// Refusals are why requests were refused at this node, the most frequent of late first.
	Refusals []tally.Cause `json:"refusals,omitempty"`
	// Problems are causes by which requests fare otherwise than the limits say, in the last 10
	// minutes, the largest first.
	Problems []Problem `json:"problems,omitempty"`
}

// RuleOverview is the outcomes of requests under a rule. Evaluated and WouldDeny include
// those of its candidates, as in the series and in the events of [Live].
type RuleOverview struct {
	RuleStatus
	By      string `json:"by,omitempty"` // what its keys are made of
	Failure string `json:"failure"`      // how requests are answered in an outage of the store
	// Recent are the last 10 minutes by 5 s; nil where nothing was counted. Day are
	// the last 24 hours by 10 minutes, if the rule is asked for by name.
	Recent   *history.Series `json:"recent,omitempty"`
	Day      *history.Series `json:"day,omitempty"`
	KeysHour *sketch.Count   `json:"keys_hour,omitempty"`
	KeysDay  *sketch.Count   `json:"keys_day,omitempty"`
	Top      []TopLevel      `json:"top,omitempty"` // denied most, since the start
	// Findings are what an operator may want to look at, in words.
	Findings []finding.Finding `json:"findings,omitempty"`
}

// System is the state of the program apart from its rules.
type System struct {
	Started      time.Time             `json:"started"`
	Build        BuildOverview         `json:"build"`
	Config       ConfigOverview        `json:"config"`
	InFlight     int64                 `json:"in_flight"`
	Queue        QueueOverview         `json:"queue"`
	Store        StoreOverview         `json:"store"`
	Upstreams    UpstreamsOverview     `json:"upstreams"`
	Certificates []CertificateOverview `json:"certificates,omitempty"`
	Memory       MemoryOverview        `json:"memory"`
}

// BuildOverview is what the program was built from.
type BuildOverview struct {
	Version  string `json:"version"`
	Revision string `json:"revision"`
	Go       string `json:"go"`
}

// ConfigOverview is the active configuration: what is listed here and nothing
// else of it, so that no secret can be.
type ConfigOverview struct {
	File    string    `json:"file"`
	Version string    `json:"version"` // changes with the file's bytes
	Loaded  time.Time `json:"loaded"`
	// Failure is why the file as it is now is not active, empty if it is.
	Failure   string   `json:"failure,omitempty"`
	Listeners []string `json:"listeners"`
	Admin     string   `json:"admin,omitempty"`
	Trusted   []string `json:"trusted_proxies,omitempty"`
	Tokens    bool     `json:"tokens"` // are verified
	Rules     int      `json:"rules"`
}

// QueueOverview is what is delayed.
type QueueOverview struct {
	Delayed   int   `json:"delayed"`    // requests that wait now
	Full      int64 `json:"full"`       // that found no place
	ShareFull int64 `json:"share_full"` // whose key had none left
	ReadAhead int64 `json:"read_ahead"` // bytes of their bodies
}

// StoreOverview is the state of the store.
type StoreOverview struct {
	Kind   string `json:"kind"`             // memory or redis
	Target string `json:"target,omitempty"` // without user and password
	Up     bool   `json:"up"`
	Text   string `json:"text"` // in words, as /readyz has it
	// LatencySince is since when P50 and P99 are: a minute or less. They are the upper ends
	// of the steps in which they lie; 0 where nothing was asked since.
	LatencySince time.Time `json:"latency_since"`
	P50          float64   `json:"p50_ms"`
	P99          float64   `json:"p99_ms"`
	Asked        uint64    `json:"asked"`  // calls since the start, as what follows
	Failed       uint64    `json:"failed"` // of these
	// Of a store in this process.
	Keys    int    `json:"keys,omitempty"`
	Bytes   int64  `json:"bytes,omitempty"`
	Evicted uint64 `json:"evicted,omitempty"`
	// Of a shared one.
	Nodes    int64  `json:"nodes,omitempty"` // that share it, as last known
	Outages  uint64 `json:"outages,omitempty"`
	Degraded uint64 `json:"degraded,omitempty"` // requests decided in its place
	InFlight int    `json:"calls_in_flight,omitempty"`
	// NotApplied is what does not apply to requests that pass while it is unavailable, and since
	// when: limits, or shared limits where each node decides with its share.
	NotApplied      string    `json:"not_applied,omitempty"`
	NotAppliedSince time.Time `json:"not_applied_since,omitzero"`
}

// UpstreamsOverview is how connections to upstreams fare.
type UpstreamsOverview struct {
	URLs    []string `json:"urls"` // without user and password
	Open    int64    `json:"open"`
	Refused int64    `json:"refused"` // that could not be opened for want of something here
}

// CertificateOverview is the certificate of a listener.
type CertificateOverview struct {
	Listener string    `json:"listener"`
	Names    []string  `json:"names,omitempty"`
	NotAfter time.Time `json:"not_after"`
	// Failure is why what its files hold now does not serve, empty if it does.
	Failure string `json:"failure,omitempty"`
}

// MemoryOverview is what the process takes.
type MemoryOverview struct {
	Total   int64 `json:"total"` // bytes from the system that are not given back
	Limit   int64 `json:"limit,omitempty"`
	Clients int64 `json:"clients,omitempty"` // counted for connections and requests, under a limit
	History int64 `json:"history"`           // of what is shown here, about
}
