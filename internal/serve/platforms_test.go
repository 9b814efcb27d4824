// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/internal/profile"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
)

// overHTTP are the profiles of platforms that answer HTTP.
func overHTTP() []profile.Profile {
	return slices.DeleteFunc(profile.All(), func(p profile.Profile) bool { return p.Status == 0 })
}

// TestPlatforms plays the vectors of platforms that answer HTTP through the
// gateway, by a clock that is set.
func TestPlatforms(t *testing.T) {
	played := make(map[string]bool)
	for _, p := range overHTTP() {
		for _, v := range p.Vectors {
			if v.InFlight > 0 || slices.ContainsFunc(v.Steps, func(s profile.Step) bool { return s.Actual != 0 }) {
				continue // TestPlatformsInFlight, TestPlatformsSettle
			}
			played[p.Name] = true
			t.Run(p.Name+"/"+v.Name, func(t *testing.T) {
				t.Parallel()
				playHTTP(t, p, v)
			})
		}
	}
	for _, p := range overHTTP() {
		if settled := p.Name == "shopify-graphql" || p.Name == "zuul-quota"; played[p.Name] == settled {
			t.Errorf("%s: played %v", p.Name, played[p.Name])
		}
	}
}

func playHTTP(t *testing.T, p profile.Profile, v profile.Vector) {
	t.Helper()
	var requests int64
	for _, step := range v.Steps {
		requests += step.Times
	}
	if requests > 1000 && testkit.Race() {
		t.Skip("thousands of requests one after the other show no race")
	}
	rule := "like: " + p.Name
	if fmt.Sprint(v.Limits) != fmt.Sprint(p.Limits) {
		texts := make([]string, len(v.Limits))
		for i, l := range v.Limits {
			texts[i] = strconv.Quote(l.String())
		}
		rule = fmt.Sprintf("limits: [%s], status: %d", strings.Join(texts, ", "), p.Status)
	}
	var now atomic.Int64
	now.Store(profile.Start.UnixMicro())
	s := start(t, fmt.Sprintf(`
upstream: %q
fields: x-ratelimit
rules: [{name: a, cost: {request_header: X-Cost, most: 1000000}, %s}]
`, named(t, "up"), rule), func(o *Options) { o.Now = func() time.Time { return time.UnixMicro(now.Load()) } })
	for i, step := range v.Steps {
		if step.Op == sluice.OpPeek {
			continue
		}
		var allowed int64
		var last answer
		for n := range max(step.Times, 1) {
			now.Store(profile.Start.Add(step.At + time.Duration(n)*step.Every).UnixMicro())
			last = s.get(t, "/", "X-Cost", strconv.FormatInt(step.Cost, 10))
			switch last.status {
			case http.StatusOK:
				allowed++
			case p.Status:
			default:
				t.Fatalf("step %d: got %d %s", i+1, last.status, last.body)
			}
		}
		remaining, retry := strconv.FormatInt(step.Remaining, 10), ""
		if step.RetryAfter > 0 && !step.TooLarge {
			retry = strconv.FormatInt(int64(math.Ceil(step.RetryAfter.Seconds())), 10)
		}
		h := last.header
		after := strings.TrimSuffix(h.Get("Retry-After"), ".0") // as Shopify has it
		if allowed != step.Allowed || h.Get("X-Ratelimit-Remaining") != remaining || after != retry {
			t.Errorf("step %d, %v: %d pass, %s left, retry after %q", i+1, step, allowed, h.Get("X-Ratelimit-Remaining"), h.Get("Retry-After"))
		}
	}
}

// TestPlatformsSettle: what Shopify's GraphQL asks for is charged, and settled to
// what its answer says.
func TestPlatformsSettle(t *testing.T) {
	up := backend(t, func(w http.ResponseWriter, r *http.Request) { w.Header().Set("X-Cost", r.Header.Get("X-Actual")) })
	s := start(t, fmt.Sprintf(`
upstream: %q
fields: x-ratelimit
rules: [{name: a, cost: {response_header: X-Cost, most: 1000, estimate: 500}, like: shopify-graphql}]
`, up), stopped)
	s.get(t, "/", "X-Actual", "100") // 900 are left
	if got := s.get(t, "/", "X-Actual", "500"); got.status != 200 || got.header.Get("X-Ratelimit-Remaining") != "400" {
		t.Errorf("got %d, %s left, want 400 of the 900 that the first did not use", got.status, got.header.Get("X-Ratelimit-Remaining"))
	}
	if got := s.get(t, "/"); got.status != 429 || got.header.Get("Retry-After") != "2" {
		t.Errorf("got %d, retry after %q, want 429 and 100 points at 50 a second", got.status, got.header.Get("Retry-After"))
	}
}

// TestPlatformsOnRedis: on a store that goes by its own clock, platforms let
// through at once what is theirs at once, no more than their bound, and deny as
// they do.
func TestPlatformsOnRedis(t *testing.T) {
	server := redistest.Start(t, redistest.Redis(t))
	for _, p := range overHTTP() {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			s := start(t, fmt.Sprintf(`
upstream: %q
store: {redis: {url: %q, prefix: %s}}
rules: [{name: a, by: ip, cost: {request_header: X-Cost, most: 1000000}, like: %s}]
`, named(t, "up"), server.URL(), p.Name, p.Name))
			full := p.Limits[0].Full()
			for _, l := range p.Limits {
				full = min(full, l.Full())
			}
			began, units := time.Now(), int64(0)
			for try := range 200 {
				got := s.get(t, "/", "X-Cost", strconv.FormatInt(full, 10))
				if got.status == p.Status && try > 0 {
					return
				}
				if got.status != http.StatusOK {
					t.Fatalf("request %d: got %d %s", try+1, got.status, got.body)
				}
				units += full
				for _, l := range p.Limits {
					if most := algo.Bound(l, time.Since(began)); units > most {
						t.Fatalf("%d units in %v, at most %d by %v", units, time.Since(began), most, l)
					}
				}
			}
			t.Errorf("%d units in %v and no denial", units, time.Since(began))
		})
	}
}

// TestPlatformsInFlight: of requests that run at once as many pass as a platform has,
// and another when one of them ends.
func TestPlatformsInFlight(t *testing.T) {
	for _, p := range overHTTP() {
		for _, v := range p.Vectors {
			if v.InFlight > 0 {
				t.Run(p.Name, func(t *testing.T) { playInFlight(t, p, v) })
			}
		}
	}
}

func playInFlight(t *testing.T, p profile.Profile, v profile.Vector) {
	t.Helper()
	arrived, ends := make(chan struct{}), make(chan struct{})
	up := backend(t, func(http.ResponseWriter, *http.Request) {
		arrived <- struct{}{}
		<-ends
	})
	s := start(t, fmt.Sprintf("upstream: %q\nrules: [{name: a, by: ip, like: %s, in_flight: %d}]\n", up, p.Name, v.InFlight))
	ended := make(chan answer)
	running := 0
	for i, step := range v.Steps {
		for range step.Ends {
			ends <- struct{}{}
			if got := <-ended; got.status != http.StatusOK {
				t.Errorf("before step %d one ends with %d", i+1, got.status)
			}
			running--
		}
		reported := make(chan answer, 1)
		go func() { reported <- s.get(t, "/") }()
		select {
		case <-arrived:
			running++
			go func() { ended <- <-reported }()
			if step.Allowed == 0 {
				t.Errorf("step %d passes, want it denied", i+1)
			}
		case got := <-reported:
			reason := got.header.Get("Stripe-Rate-Limited-Reason")
			if step.Allowed > 0 || got.status != p.Status || p.Name == "stripe" && reason != "global-concurrency" {
				t.Errorf("step %d: %d, %q", i+1, got.status, reason)
			}
		}
	}
	for range running {
		ends <- struct{}{}
		<-ended
	}
}

// said is what a response through the gateway must have, once requests before it
// have been answered.
type said struct {
	at     time.Duration
	before int
	status int
	body   string // a part of it
	fields string // "name: value" in lines; without a value: there is none
}

// TestPlatformsAnswer: what a platform's clients read is in its words, on requests
// that pass and on denials.
func TestPlatformsAnswer(t *testing.T) {
	for _, c := range []struct {
		like, more string
		say        []said
	}{
		{"shopify-rest", "", []said{
			{0, 0, 200, "", "X-Shopify-Shop-Api-Call-Limit: 1/40\nRetry-After:"},
			{0, 39, 429, `{"errors":"Exceeded 2 calls per second`, "X-Shopify-Shop-Api-Call-Limit: 40/40\nRetry-After: 1.0\nContent-Type: application/json"},
		}},
		{"shopify-graphql", "cost: 1000", []said{
			{0, 1, 429, `"currentlyAvailable":0,"restoreRate":50`, "Retry-After: 20\nContent-Type: application/json"},
		}},
		{"shopify-graphql", "cost: 600, answer: {status: 200}", []said{
			{0, 1, 200, `{"errors":[{"message":"Throttled","extensions":{"code":"THROTTLED"}}],"extensions":{"cost":{"actualQueryCost":null,"throttleStatus":{"maximumAvailable":1000,"currentlyAvailable":400,"restoreRate":50}}}}`, "Cache-Control: no-store\nContent-Type: application/json\nRetry-After: 4"},
		}},
		{"amazon-mws", "", []said{
			{0, 0, 200, "", "X-Mws-Quota-Max: 30.0\nX-Mws-Quota-Remaining: 29.0"},
			{0, 14, 503, "<Code>RequestThrottled</Code>", "X-Mws-Quota-Remaining: 15.0\nContent-Type: text/xml\nRetry-After: 120"},
			{30 * time.Minute, 15, 503, "<Code>QuotaExceeded</Code><Message>The quota is used up until 2", "X-Mws-Quota-Remaining: 0.0\nContent-Type: text/xml\nRetry-After: 1800"},
		}},
		{"api-gateway", "cost: 5000", []said{
			{0, 1, 429, `{"message":"Too Many Requests"}`, "X-Amzn-Errortype: TooManyRequestsException"},
		}},
		{"api-gateway-usage-plan", "cost: 10", []said{
			{0, 1, 429, `{"message":"Too Many Requests"}`, "X-Amzn-Errortype: TooManyRequestsException\nContent-Type: application/json\nRetry-After: 2"},
			{2 * time.Second, 1, 429, `{"message":"Too Many Requests"}`, "X-Amzn-Errortype: TooManyRequestsException"},
		}},
		{"api-gateway-usage-plan", "cost: {request_header: X-Cost, most: 10, estimate: 10}, answer: {denied: {X-Amzn-Requestid: none}}", []said{
			{0, 1, 429, `{"message":"Too Many Requests"}`, "X-Amzn-Requestid: none\nX-Amzn-Errortype:"},
		}},
		{"ec2-run-instances", "", []said{{0, 5, 503, "<Code>RequestLimitExceeded</Code>", "Content-Type: text/xml\nRetry-After: 1"}}},
		{"github", "", []said{
			{0, 0, 200, "", "X-Ratelimit-Limit: 60\nX-Ratelimit-Remaining: 59\nX-Ratelimit-Used: 1\nX-Ratelimit-Resource: core"},
			{0, 59, 403, `"message":"API rate limit exceeded"`, "X-Ratelimit-Remaining: 0\nX-Ratelimit-Used: 60\nContent-Type: application/json; charset=utf-8"},
		}},
		{"stripe", "cost: 100", []said{{0, 1, 429, `"code":"rate_limit"`, "Stripe-Rate-Limited-Reason: global-rate\nContent-Type: application/json"}}},
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
			s := start(t, fmt.Sprintf("upstream: %q\nrules: [{%s}]\n", named(t, "up"), rule), func(o *Options) {
				o.Now = func() time.Time { return time.UnixMicro(now.Load()) }
			})
			for i, want := range c.say {
				now.Store(profile.Start.Add(want.at).UnixMicro())
				for range want.before {
					if got := s.get(t, "/"); got.status != http.StatusOK {
						t.Fatalf("before response %d: got %d %s", i+1, got.status, got.body)
					}
				}
				got := s.get(t, "/")
				if got.status != want.status || !strings.Contains(got.body, want.body) {
					t.Errorf("response %d: got %d %s, want %d %s", i+1, got.status, got.body, want.status, want.body)
				}
				for line := range strings.Lines(want.fields) {
					name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
					if value := strings.TrimSpace(value); strings.Join(got.header[name], "|") != value {
						t.Errorf("response %d: %s: %q, want %q alone", i+1, name, got.header[name], value)
					}
				}
			}
		})
	}
}
