// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package finding says in words what an operator may want to look at in a rule's
// counts. Its thresholds are in docs/operating.md.
package finding

import (
	"fmt"
	"strings"
	"time"
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

	Since           time.Time // of those below: about the last hour
	Allowed, Denied uint64    // requests
	Seen            int64     // keys
	DeniedKeys      int64
	// TopDenials is how many denials each key had at least, most first.
	TopDenials []uint64
	// Candidate is the one that would have let pass the most of what was denied, and
	// Rescued how much.
	Candidate string
	Rescued   uint64
	Unstated  uint64 // responses that lacked the header field of their cost

	DaySince              time.Time // of those below: about the last day
	DayAllowed, DayDenied uint64
	DaySeen               int64
	Peak                  float64 // the greatest share of a limit that a key has used
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
	case f.Unstated >= unstated && float64(f.Unstated) >= unstatedShare*float64(f.Allowed):
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
		min(f.Unstated, f.Allowed), f.Allowed, f.ago(f.Since))
}

// top returns how many denials the first n keys had.
func (f *Figures) top(n int) (sum uint64) {
	for _, d := range f.TopDenials[:min(n, len(f.TopDenials))] {
		sum += d
	}
	return sum
}

// oneClient returns how many keys make most denials, 0 if they are not few.
func (f *Figures) oneClient() int {
	if f.Denied < oneDenials || float64(f.Denied) < deniedOfAll*float64(f.Allowed+f.Denied) {
		return 0
	}
	for n := 1; n <= fewKeys; n++ {
		if float64(f.top(n)) >= mostDenials*float64(f.Denied) && float64(n) <= fewOfSeen*float64(f.Seen) {
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
		who, min(f.top(n), f.Denied), f.Denied, f.Seen, f.ago(f.Since), percent(f.Denied, f.Allowed+f.Denied))
}

// tooTight reports whether many keys are denied, each a little, or a candidate would
// do without most denials of many keys.
func (f *Figures) tooTight() bool {
	if f.Denied < tightDenials || f.DeniedKeys < tightKeys || float64(f.top(fewKeys)) > topOfTight*float64(f.Denied) {
		return false
	}
	many := float64(f.DeniedKeys) >= tightShare*float64(f.Seen) && f.Denied <= f.Allowed
	return many || float64(f.Rescued) >= rescuedShare*float64(f.Denied)
}

func (f *Figures) tooTightText() string {
	var b strings.Builder
	fmt.Fprintf(&b, "is it too tight? about %d of %d keys were denied in the last %s, %.1f times each: %s of all requests",
		f.DeniedKeys, f.Seen, f.ago(f.Since), float64(f.Denied)/float64(max(f.DeniedKeys, 1)), percent(f.Denied, f.Allowed+f.Denied))
	if f.Rescued > 0 {
		fmt.Fprintf(&b, "; the candidate %q would have let %d of %d denied requests pass", f.Candidate, f.Rescued, f.Denied)
	}
	return b.String()
}

// neverReached reports whether no key came near its limit for long.
func (f *Figures) neverReached() bool {
	return f.DayDenied == 0 && f.DaySeen > 0 && f.DayAllowed >= neverRequests && f.Peak < neverPeak && f.Now.Sub(f.DaySince) >= neverAfter
}

func (f *Figures) neverReachedText() string {
	return fmt.Sprintf("never reached: of %d requests in the last %s none left a key with less than %.0f %% of its limit",
		f.DayAllowed, f.ago(f.DaySince), 100*(1-f.Peak))
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
