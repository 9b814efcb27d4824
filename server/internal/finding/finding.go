// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package finding says in words what an operator may want to look at in a rule's
// counts. Its thresholds are in docs/operating.md.
package finding

import (
	"fmt"
	"strings"
	"time"

	"github.com/sluicegate/sluice/server/internal/history"
	"github.com/sluicegate/sluice/server/internal/sketch"
)

// Kinds of a [Finding].
const (
	TooTight     = "too-tight"
	OneClient    = "one-client"
	NeverReached = "never-reached"
	UnstatedCost = "unstated-cost"
)

// Finding is something about a rule that an operator may want to look at.
type Finding struct {
	Kind string `json:"kind"` // one of the kinds
	Text string `json:"text"` // with the figures it rests on
}

// Figures are the outcomes of requests under a rule. Numbers of keys are estimates.
type Figures struct {
	Now time.Time
	// Hour and Day are the keys of about the last hour and day, and Hourly and Daily the
	// requests since then.
	Hour, Day       sketch.Count
	Hourly, Daily   history.Counts
	history.Denials // of the last hour
}

// Thresholds.
const (
	fewKeys       = 3    // or fewer make most denials
	oneDenials    = 100  // at least
	mostDenials   = 0.8  // share of denials that they make at least
	deniedOfAll   = 0.25 // share of all requests that is denied, at least
	fewOfSeen     = 0.2  // share of the keys seen that they are, at most
	tightKeys     = 10   // keys are denied, at least
	tightDenials  = 20   // at least
	tightShare    = 0.05 // of the keys seen, at least
	topOfTight    = 0.5  // share of denials that the first fewKeys make, at most
	rescuedShare  = 0.5  // of denials that a candidate would have let pass, at least
	unstatedShare = 0.1  // of the requests allowed, at least
	unstated      = 20   // responses, at least
	neverPeak     = 0.5  // share of a limit that was used, less
	neverRequests = 1000
	neverAfter    = time.Hour
)

// Of returns what there is to be said, which mostly is nothing.
func Of(f *Figures) []Finding {
	switch {
	case f.Unstated >= unstated && float64(f.Unstated) >= unstatedShare*float64(f.Hourly.Passed()):
		return []Finding{{UnstatedCost, f.unstatedText()}}
	case f.oneClient() > 0:
		return []Finding{{OneClient, f.oneClientText()}}
	case f.tooTight():
		return []Finding{{TooTight, f.tooTightText()}}
	case f.neverReached():
		return []Finding{{NeverReached, f.neverReachedText()}}
	}
	return nil
}

func (f *Figures) unstatedText() string {
	return fmt.Sprintf("the cost of requests is not known: %d of %d responses in the last %s had no usable header field of the cost, so the estimate stays",
		min(f.Unstated, f.Hourly.Passed()), f.Hourly.Passed(), f.ago(f.Hour.Since))
}

// top returns how many denials the first n keys had.
func (f *Figures) top(n int) (sum uint64) {
	for _, d := range f.Keys[:min(n, len(f.Keys))] {
		sum += d
	}
	return sum
}

// oneClient returns how many keys make most denials, 0 if they are not few.
func (f *Figures) oneClient() int {
	if f.Hourly.Denied < oneDenials || float64(f.Hourly.Denied) < deniedOfAll*float64(f.Hourly.Passed()+f.Hourly.Denied) {
		return 0
	}
	for n := 1; n <= fewKeys; n++ {
		if float64(f.top(n)) >= mostDenials*float64(f.Hourly.Denied) && float64(n) <= fewOfSeen*float64(f.Hour.Seen) {
			return n
		}
	}
	return 0
}

func (f *Figures) oneClientText() string {
	n := f.oneClient()
	who := "one key makes"
	if n > 1 {
		who = fmt.Sprintf("%d keys make", n)
	}
	return fmt.Sprintf("%s most denials: %d or more of %d, of about %d keys, in the last %s; %s of all requests are denied",
		who, min(f.top(n), f.Hourly.Denied), f.Hourly.Denied, f.Hour.Seen, f.ago(f.Hour.Since), percent(f.Hourly.Denied, f.Hourly.Passed()+f.Hourly.Denied))
}

// candidate returns the one that would have let pass the most of what was denied, and how
// much.
func (f *Figures) candidate() (name string, rescued uint64) {
	for c, n := range f.Rescued {
		if n > rescued || n == rescued && c < name {
			name, rescued = c, n
		}
	}
	return name, rescued
}

// tooTight reports whether many keys are denied, each a little, or a candidate would
// do without most denials of many keys.
func (f *Figures) tooTight() bool {
	if f.Hourly.Denied < tightDenials || f.Hour.Denied < tightKeys || float64(f.top(fewKeys)) > topOfTight*float64(f.Hourly.Denied) {
		return false
	}
	many := float64(f.Hour.Denied) >= tightShare*float64(f.Hour.Seen) && f.Hourly.Denied <= f.Hourly.Passed()
	_, rescued := f.candidate()
	return many || float64(rescued) >= rescuedShare*float64(f.Hourly.Denied)
}

func (f *Figures) tooTightText() string {
	var b strings.Builder
	fmt.Fprintf(&b, "is it too tight? about %d of %d keys were denied in the last %s, %.1f times each: %s of all requests",
		f.Hour.Denied, f.Hour.Seen, f.ago(f.Hour.Since), float64(f.Hourly.Denied)/float64(max(f.Hour.Denied, 1)), percent(f.Hourly.Denied, f.Hourly.Passed()+f.Hourly.Denied))
	if name, rescued := f.candidate(); rescued > 0 {
		fmt.Fprintf(&b, "; the candidate %q would have let %d of %d denied requests pass", name, rescued, f.Hourly.Denied)
	}
	return b.String()
}

// neverReached reports whether no key came near its limit for long.
func (f *Figures) neverReached() bool {
	return f.Daily.Denied == 0 && f.Day.Seen > 0 && f.Daily.Passed() >= neverRequests && f.Day.Peak < neverPeak && f.Now.Sub(f.Day.Since) >= neverAfter
}

func (f *Figures) neverReachedText() string {
	return fmt.Sprintf("never reached: of %d requests in the last %s none left a key with less than %.0f %% of its limit",
		f.Daily.Passed(), f.ago(f.Day.Since), 100*(1-f.Day.Peak))
}

func (f *Figures) ago(since time.Time) string {
	switch d := f.Now.Sub(since); {
	case d < 2*time.Minute:
		return fmt.Sprintf("%d seconds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d minutes", int(d.Minutes()))
	default:
		return fmt.Sprintf("%.1f hours", d.Hours())
	}
}

func percent(n, of uint64) string { return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(max(of, 1))) }
