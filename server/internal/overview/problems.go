// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/sluicegate/sluice/server/internal/history"
	"github.com/sluicegate/sluice/server/internal/outcome"
)

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
