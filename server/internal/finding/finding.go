// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package finding reports what is unusual in the counts of a rule, for operators. Its
// thresholds are in docs/operating.md.
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

// Finding is a remark about a rule, for operators.
type Finding struct {
	Kind string `json:"kind"` // one of the kinds
	Text string `json:"text"` // with its figures
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

// Thresholds of the findings.
const (
	fewKeys       = 3    // most keys to name in OneClient
	oneDenials    = 100  // least denials
	mostDenials   = 0.8  // least share of the denials that these keys make
	deniedOfAll   = 0.25 // least share of all requests that is denied
	fewOfSeen     = 0.2  // largest share of these keys in the keys seen
	tightKeys     = 10   // least number of denied keys
	tightDenials  = 20   // least denials
	tightShare    = 0.05 // least share of denied keys in the keys seen
	topOfTight    = 0.5  // largest share of the denials that the first fewKeys make
	rescuedShare  = 0.5  // least share of the denials that a candidate would have allowed
	unstatedShare = 0.1  // least share of such responses in the allowed requests
	unstated      = 20   // least number of such responses
	neverPeak     = 0.5  // bound of the largest used share of a limit
	neverRequests = 1000
	neverAfter    = time.Hour
)

// Of returns the findings for these figures, mostly none.
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

// top returns the number of denials of the first n keys.
func (f *Figures) top(n int) (sum uint64) {
	for _, d := range f.Keys[:min(n, len(f.Keys))] {
		sum += d
	}
	return sum
}

// oneClient returns the number of keys that make most denials, or 0 if they are not few.
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

// candidate returns the candidate that would have allowed most of the denied requests, and
// their number.
func (f *Figures) candidate() (name string, rescued uint64) {
	for c, n := range f.Rescued {
		if n > rescued || n == rescued && c < name {
			name, rescued = c, n
		}
	}
	return name, rescued
}

// tooTight reports whether many keys are denied a few times each, or a candidate would have
// allowed most denials of many keys.
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

// neverReached reports whether no key has come near its limit for a long time.
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
