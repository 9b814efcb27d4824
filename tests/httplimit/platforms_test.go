// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit_test

import (
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/internal/vector"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/profile"
)

// TestPlatforms plays the vectors of platforms that answer HTTP, for units and for requests in
// flight, on a manual clock.
func TestPlatforms(t *testing.T) {
	played := 0
	for _, p := range profile.All() {
		for _, v := range vector.Of(p.Name) {
			if p.Status == 0 || slices.ContainsFunc(v.Steps, func(s vector.Step) bool { return s.Actual != 0 }) {
				continue // what is settled is tested with the gateway
			}
			played++
			t.Run(p.Name+"/"+v.Name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { playPlatform(t, p, v) }) // some hold requests back
			})
		}
	}
	if played < 15 {
		t.Errorf("%d vectors were played", played)
	}
}

func playPlatform(t *testing.T, p profile.Profile, v vector.Vector) {
	t.Helper()
	rule := "like: " + p.Name
	switch {
	case v.InFlight > 0:
		rule += fmt.Sprintf(", in_flight: %d", v.InFlight)
	case fmt.Sprint(v.Limits) != fmt.Sprint(p.Limits):
		texts := make([]string, len(v.Limits))
		for i, l := range v.Limits {
			texts[i] = strconv.Quote(l.String())
		}
		rule = fmt.Sprintf("limits: [%s], status: %d", strings.Join(texts, ", "), p.Status)
	}
	clock := testkit.ClockAt(vector.Start)
	mw := newMiddleware(t, httplimit.Options{
		Store: newStore(clock), Now: clock.Now, Fields: httplimit.XRateLimit,
		Policy: rules(t, "  - {name: a, cost: {request_header: X-Cost, most: 1000000}, "+rule+"}"),
	})
	var running []*httplimit.Request
	defer func() {
		for _, q := range running {
			q.Settle(policy.Response{Status: http.StatusOK})
		}
	}()
	for i, step := range v.Steps {
		if step.Op == sluice.OpPeek {
			continue
		}
		for range step.Ends {
			running[0].Settle(policy.Response{Status: http.StatusOK})
			running = running[1:]
		}
		var allowed int64
		var rec *httptest.ResponseRecorder
		said := func(name string) string { // GitHub's are in lower case
			for key, values := range rec.Header() {
				if strings.EqualFold(key, name) {
					return values[0]
				}
			}
			return ""
		}
		for n := range max(step.Times, 1) {
			clock.Set(vector.Start.Add(step.At + time.Duration(n)*step.Every))
			q := mw.Decide(request(t, "/", "X-Cost: "+strconv.FormatInt(step.Cost, 10)))
			rec = httptest.NewRecorder()
			switch {
			case !q.Allowed():
				if q.Refuse(rec); rec.Code != p.Status {
					t.Fatalf("step %d: got %d %s", i+1, rec.Code, rec.Body)
				}
			case v.InFlight > 0:
				allowed, running = allowed+1, append(running, q)
			default:
				allowed++
				q.SetFields(rec.Header())
				q.Settle(policy.Response{Status: http.StatusOK})
			}
		}
		if v.InFlight > 0 {
			if reason := said("Stripe-Rate-Limited-Reason"); allowed != step.Allowed || p.Name == "stripe" && allowed == 0 && reason != "global-concurrency" {
				t.Errorf("step %d, %v: %d pass, the reason is %q", i+1, step, allowed, reason)
			}
			continue
		}
		remaining, retry := strconv.FormatInt(step.Remaining, 10), ""
		if step.RetryAfter > 0 && !step.TooLarge {
			retry = strconv.FormatInt(int64(math.Ceil(step.RetryAfter.Seconds())), 10)
		}
		after := strings.TrimSuffix(said("Retry-After"), ".0") // as Shopify has it
		if allowed != step.Allowed || said("X-RateLimit-Remaining") != remaining || after != retry {
			t.Errorf("step %d, %v: %d pass, %s left, retry after %q", i+1, step, allowed, said("X-RateLimit-Remaining"), after)
		}
	}
}
