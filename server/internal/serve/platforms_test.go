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

	"github.com/sluicegate/sluice/internal/vector"
	"github.com/sluicegate/sluice/server/internal/serve"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// TestPlatformsSettle: the requested cost of Shopify's GraphQL is charged, and settled to the
// actual cost in the answer.
func TestPlatformsSettle(t *testing.T) {
	t.Parallel()
	up := servetest.Backend(t, func(w http.ResponseWriter, r *http.Request) { w.Header().Set("X-Cost", r.Header.Get("X-Actual")) })
	s := servetest.Start(t, fmt.Sprintf(`
upstream: %q
fields: x-ratelimit
rules: [{name: a, cost: {response_header: X-Cost, most: 1000, estimate: 500}, like: shopify-graphql}]
`, up), servetest.Stopped)
	s.Get(t, "/", "X-Actual", "100") // 900 are left
	if got := s.Get(t, "/", "X-Actual", "500"); got.Status != 200 || got.Header.Get("X-Ratelimit-Remaining") != "400" {
		t.Errorf("got %d, %s left, want 400 of the 900 that the first did not use", got.Status, got.Header.Get("X-Ratelimit-Remaining"))
	}
	if got := s.Get(t, "/"); got.Status != 429 || got.Header.Get("Retry-After") != "2" {
		t.Errorf("got %d, retry after %q, want 429 and 100 points at 50 a second", got.Status, got.Header.Get("Retry-After"))
	}
}

// said is the expected response through the gateway after earlier requests.
type said struct {
	at     time.Duration
	before int
	status int
	body   string // a part of it
	fields string // "name: value" in lines; without a value the field must be missing
}

// TestPlatformsAnswer: clients of a platform get its fields and bodies, on requests that pass
// and on denials.
func TestPlatformsAnswer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		like, more string
		say        []said
	}{
		{"shopify-rest", "", []said{
			{0, 0, 200, "", "X-Shopify-Shop-Api-Call-Limit: 1/40\nRetry-After:"},
			{0, 39, 429, `{"errors":"Exceeded 2 calls per second`, "X-Shopify-Shop-Api-Call-Limit: 40/40\nRetry-After: 1.0\nContent-Type: application/json"},
		}},
		{"shopify-graphql", "cost: 600, answer: {status: 200}", []said{
			{0, 1, 200, `{"errors":[{"message":"Throttled","extensions":{"code":"THROTTLED"}}],"extensions":{"cost":{"actualQueryCost":null,"throttleStatus":{"maximumAvailable":1000,"currentlyAvailable":400,"restoreRate":50}}}}`, "Cache-Control: no-store\nContent-Type: application/json\nRetry-After: 4"},
		}},
		{"api-gateway-usage-plan", "cost: 10", []said{
			{0, 1, 429, `{"message":"Too Many Requests"}`, "X-Amzn-Errortype: TooManyRequestsException\nContent-Type: application/json\nRetry-After: 2"},
			{2 * time.Second, 1, 429, `{"message":"Too Many Requests"}`, "X-Amzn-Errortype: TooManyRequestsException"},
		}},
		{"github", "", []said{
			{0, 0, 200, "", "X-Ratelimit-Limit: 60\nX-Ratelimit-Remaining: 59\nX-Ratelimit-Used: 1\nX-Ratelimit-Resource: core"},
			{0, 59, 403, `"message":"API rate limit exceeded"`, "X-Ratelimit-Remaining: 0\nX-Ratelimit-Used: 60\nContent-Type: application/json; charset=utf-8"},
		}},
		{"zuul", "", []said{
			{0, 0, 200, "", "X-Ratelimit-Limit: 10\nX-Ratelimit-Remaining: 9\nX-Ratelimit-Reset: 60000"},
			{time.Second, 9, 429, "", "X-Ratelimit-Remaining: 0\nX-Ratelimit-Reset: 59000\nRetry-After: 59"},
		}},
	} {
		t.Run(c.like+" "+c.more, func(t *testing.T) {
			t.Parallel()
			var now atomic.Int64
			rule := "name: a, like: " + c.like
			if c.more != "" {
				rule += ", " + c.more
			}
			s := servetest.Start(t, fmt.Sprintf("upstream: %q\nrules: [{%s}]\n", servetest.Named(t, "up"), rule), func(o *serve.Options) {
				o.Now = func() time.Time { return time.UnixMicro(now.Load()) }
			})
			for i, want := range c.say {
				now.Store(vector.Start.Add(want.at).UnixMicro())
				for range want.before {
					s.Want(t, http.StatusOK, "/")
				}
				got := s.Get(t, "/")
				if got.Status != want.status || !strings.Contains(got.Body, want.body) {
					t.Errorf("response %d: got %d %s, want %d %s", i+1, got.Status, got.Body, want.status, want.body)
				}
				for line := range strings.Lines(want.fields) {
					name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
					if value := strings.TrimSpace(value); strings.Join(got.Header[name], "|") != value {
						t.Errorf("response %d: %s: %q, want %q alone", i+1, name, got.Header[name], value)
					}
				}
			}
		})
	}
}
