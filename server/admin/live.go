// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/sluicegate/sluice/server/history"
)

const (
	mostTop      = 5                // keys of each level in an overview
	mostLive     = 64               // pages that are open at once
	tickEvery    = time.Second      // of the history
	liveEvery    = 2                // ticks between two events
	liveAnyway   = 10 * time.Second // after which one comes though nothing has changed
	eventCounts  = "event: counts\ndata: "
	eventNothing = ": nothing has changed\n\n"
)

// Live is the document of an event of GET /v1/live: what has changed since the
// one before. There is no key in it. Counts are since the start, so that one that
// was missed matters little.
type Live struct {
	Time  time.Time                 `json:"time"`
	Total history.Counts            `json:"total"`
	Rules map[string]history.Counts `json:"rules,omitempty"` // that have counted something
	State
}

// State is what can change from one event to the next.
type State struct {
	InFlight int64  `json:"in_flight"`
	Delayed  int    `json:"delayed"` // requests that wait now
	StoreUp  bool   `json:"store_up"`
	Version  string `json:"version"` // of the configuration's file
	Current  bool   `json:"current"` // the file as it is now is active
}

var errUnreadable = errors.New("this is for callers on this machine, or with the token: send Authorization: Bearer TOKEN")

// readable reports whether a caller may see what has no key in clear, and answers
// it if not: who is on this machine, or has the token.
func (a *API) readable(w http.ResponseWriter, r *http.Request) bool {
	if a.authorised(r) || local(r) {
		return true
	}
	w.Header().Set("WWW-Authenticate", "Bearer")
	fail(w, http.StatusUnauthorized, errUnreadable)
	return false
}

// overview answers GET /v1/overview, and with ?rule=NAME that rule in full and no
// other.
func (a *API) overview(w http.ResponseWriter, r *http.Request) {
	if !a.readable(w, r) {
		return
	}
	rule := r.URL.Query().Get("rule")
	o := Overview{
		Time: a.o.Now().UTC(), Hidden: !a.authorised(r), Rules: []RuleOverview{},
		Requests:  Requests{Total: a.o.Tally.Total()},
		Overrides: len(a.o.Overrides.All(a.o.Now())),
	}
	if a.o.System != nil {
		o.System = a.o.System()
	}
	if recent, day, ok := a.o.Tally.Past(""); ok {
		o.Requests.Recent, o.Requests.Day = &recent, &day
	}
	p, reports := a.o.Policy(), a.reports()
	top := make(map[string][]TopLevel)
	for _, level := range a.topOf(rule, mostTop, o.Hidden) {
		top[level.Rule] = append(top[level.Rule], level)
	}
	for i := range p.Len() {
		of := p.Rule(i)
		if rule != "" && rule != of.Name {
			continue
		}
		ro := RuleOverview{RuleStatus: ruleStatus(of, reports[of.Name]), Failure: of.Failure.String(), Top: top[of.Name]}
		if recent, day, ok := a.o.Tally.Past(of.Name); ok {
			ro.Recent = &recent
			if rule != "" {
				ro.Day = &day
			}
		}
		o.Rules = append(o.Rules, ro)
	}
	if rule != "" && len(o.Rules) == 0 {
		fail(w, http.StatusNotFound, errors.New("there is no rule of that name; see /v1/overview for those that are"))
		return
	}
	answer(w, http.StatusOK, o)
}

// live answers GET /v1/live.
func (a *API) live(w http.ResponseWriter, r *http.Request) {
	if !a.readable(w, r) {
		return
	}
	if err := a.feed.Serve(w, r); err != nil {
		w.Header().Set("Retry-After", "10")
		fail(w, http.StatusServiceUnavailable, err)
	}
}

// Restart ends what pages have open of /v1/live, so that they read anew what is
// active: to be called after a change of the configuration.
func (a *API) Restart() { a.feed.Restart() }

// Run keeps the history of requests, and tells the pages that are open what has
// changed, until ctx ends. Without it there is neither.
func (a *API) Run(ctx context.Context) {
	defer a.feed.Close()
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	var l lately
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			a.o.Tally.Tick(now)
			if n%liveEvery == 0 && a.feed.Readers() > 0 {
				a.tell(now, &l)
			}
		}
	}
}

// lately is what pages were told last.
type lately struct {
	at    time.Time
	total history.Counts
	rules map[string]history.Counts
	state State
}

// tell sends what has changed.
func (a *API) tell(now time.Time, l *lately) {
	event := Live{Time: now.UTC(), Total: a.o.Tally.Total(), Rules: make(map[string]history.Counts)}
	if a.o.State != nil {
		event.State = a.o.State()
	}
	rules := a.o.Tally.Totals()
	for name, n := range rules {
		if n != l.rules[name] {
			event.Rules[name] = n
		}
	}
	same := len(event.Rules) == 0 && event.Total == l.total && event.State == l.state
	if same && now.Sub(l.at) < liveAnyway {
		return
	}
	*l = lately{now, event.Total, rules, event.State}
	if same {
		a.feed.Send([]byte(eventNothing))
		return
	}
	doc, err := json.Marshal(event)
	if err != nil {
		return // of numbers and names: it cannot be
	}
	a.feed.Send(append(append([]byte(eventCounts), doc...), "\n\n"...))
}
