// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/serve"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// TestCostThatIsNotStated: responses without the header field of their cost are counted,
// logged once until the field returns, and shown as a finding.
func TestCostThatIsNotStated(t *testing.T) {
	t.Parallel()
	var field atomic.Value
	field.Store("")
	upstream := servetest.Backend(t, func(w http.ResponseWriter, _ *http.Request) {
		if text := field.Load().(string); text != "" {
			w.Header().Set("X-Cost", text)
		}
	})
	var ahead atomic.Int64
	s := servetest.Start(t, fmt.Sprintf(`
upstream: %q
rules:
  - {name: tokens, by: header.X-User, limits: 1000/h, cost: {response_header: X-Cost, most: 50, estimate: 2}}
  - {name: failures, limits: 1000/h, cost: {response_header: X-Cost, most: 50}, when: {response: 5xx}}
  - {name: plain, limits: 1000/h}
`, upstream), func(o *serve.Options) {
		o.Now = func() time.Time { return servetest.FixedClock().Add(time.Duration(ahead.Load())) }
	})
	get := func(n int, text string) {
		t.Helper()
		field.Store(text)
		for range n {
			s.Want(t, 200, "/", "X-User", "ada")
		}
	}
	const line = "a response has no usable header field of its cost: the estimate stays"
	logged := func(want int, counted float64) { // a request is counted after its answer
		t.Helper()
		testkit.Until(t, "the counts", func() bool { return s.Metrics(t)[`sluice_unstated_costs_total{rule="tokens"}`] == counted })
		testkit.Until(t, "the log", func() bool { return strings.Count(s.Logs.String(), line) >= want })
		if got := strings.Count(s.Logs.String(), line); got != want {
			t.Errorf("%d lines, want %d:\n%s", got, want, s.Logs.String())
		}
	}
	get(3, "5")
	if n, ok := s.Metrics(t)[`sluice_unstated_costs_total{rule="tokens"}`]; n != 0 || !ok {
		t.Errorf("counted %v, %v before any", n, ok)
	}
	get(18, "")
	logged(1, 18)
	get(1, "1")
	get(1, "many") // within the minute
	logged(1, 19)
	if o, _ := overviewOf(t, s, ""); len(o.Rules[0].Findings) > 0 {
		t.Errorf("19 are a finding: %+v", o.Rules[0].Findings)
	}
	get(1, "1")
	ahead.Store(int64(2 * time.Minute))
	get(1, "")
	logged(2, 20)
	m := s.Metrics(t)
	if n := m[`sluice_unstated_costs_total{rule="failures"}`]; n != 0 {
		t.Errorf("counted %v of responses that do not count", n)
	}
	if _, has := m[`sluice_unstated_costs_total{rule="plain"}`]; has {
		t.Error("a rule of another cost is counted")
	}
	o, _ := overviewOf(t, s, "")
	if f := o.Rules[0].Findings; len(f) != 1 || f[0].Kind != "unstated-cost" || !strings.HasPrefix(f[0].Text, "the cost of requests is not known: 20 of 25 responses in the last ") {
		t.Errorf("findings %+v", f)
	}
}
