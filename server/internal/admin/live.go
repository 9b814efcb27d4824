// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/sluicegate/sluice/server/internal/history"
	"github.com/sluicegate/sluice/server/internal/overview"
)

const (
	mostLive     = 64               // pages that are open at once
	tickEvery    = time.Second      // of the history
	liveEvery    = 2                // ticks between two events
	liveAnyway   = 10 * time.Second // after which an event is sent without a change
	eventCounts  = "event: counts\ndata: "
	eventNothing = ": nothing has changed\n\n"
)

// Live is the document of an event of GET /v1/live: the changes since the event
// before. It holds no key. Counts are totals since the start, so that a missed event
// matters little.
type Live struct {
	Time  time.Time                 `json:"time"`
	Total history.Counts            `json:"total"`
	Rules map[string]history.Counts `json:"rules,omitempty"` // rules that have counted requests
	overview.State
}

// live answers GET /v1/live.
func (a *API) live(w http.ResponseWriter, r *http.Request) (any, error) {
	if err := a.feed.Serve(w, r); err != nil {
		w.Header().Set("Retry-After", "10")
		return nil, failed(http.StatusServiceUnavailable, err)
	}
	return nil, nil //nolint:nilnil // it has answered
}

// Restart ends the open streams of /v1/live, so that pages load the active configuration
// again. Call it after a change of the configuration.
func (a *API) Restart() { a.feed.Restart() }

// Run keeps the history of requests, and sends changes to the open pages, until ctx
// ends. Without Run there is neither.
func (a *API) Run(ctx context.Context) {
	defer a.feed.Close()
	tick := time.NewTicker(cmp.Or(a.o.Every, tickEvery))
	defer tick.Stop()
	var l published
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			a.o.Tally.Tick(a.o.Now())
			if a.sessions.end(a.o.Now()) {
				a.feed.Restart() // ended sessions may have been reading
			}
			if n%liveEvery == 0 && a.feed.Readers() > 0 {
				a.publish(now, &l)
			}
		}
	}
}

// published is the state that was last sent to pages.
type published struct {
	at    time.Time
	total history.Counts
	rules map[string]history.Counts
	state overview.State
}

// publish sends the changes to the pages.
func (a *API) publish(now time.Time, l *published) {
	event := Live{Time: a.o.Now().UTC(), Total: a.o.Tally.Total(), Rules: make(map[string]history.Counts), State: a.o.State()}
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
	*l = published{now, event.Total, rules, event.State}
	if same {
		a.feed.Send([]byte(eventNothing))
		return
	}
	doc, err := json.Marshal(event)
	if err != nil {
		return // cannot be: it holds only numbers and names
	}
	a.feed.Send(append(append([]byte(eventCounts), doc...), "\n\n"...))
}
