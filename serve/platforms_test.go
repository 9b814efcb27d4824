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
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/storekit"
	"github.com/sluicegate/sluice/profile"
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
			if slices.ContainsFunc(v.Steps, func(s profile.Step) bool { return s.Actual != 0 }) {
				continue // TestPlatformsSettle
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
	if requests > 1000 && storekit.Race() {
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
		if step.RetryAfter > 0 && step.RetryAfter != sluice.Never {
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
store: {redis: {url: "redis://%s", prefix: %s}}
rules: [{name: a, by: ip, cost: {request_header: X-Cost, most: 1000000}, like: %s}]
`, named(t, "up"), server.Addr, p.Name, p.Name))
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

// TestPlatformsAnswer: what a platform's clients read is in its words, on requests
// that pass and on denials.
func TestPlatformsAnswer(t *testing.T) {
	for _, c := range []struct {
		like   string
		passes int // before a denial
		field  string
		values [2]string // of the first response, and of the denial
		body   string    // of the denial
	}{
		{"shopify-rest", 40, "X-Shopify-Shop-Api-Call-Limit", [2]string{"1/40", "40/40"}, `{"errors":"Exceeded 2 calls per second`},
		{"shopify-rest", 40, "Retry-After", [2]string{"", "1.0"}, `{"errors"`},
		{"amazon-mws", 15, "X-Mws-Quota-Remaining", [2]string{"29.0", "15.0"}, "<Code>RequestThrottled</Code>"},
		{"ec2-run-instances", 5, "Content-Type", [2]string{"", "text/xml"}, "<Code>RequestLimitExceeded</Code>"},
		{"github", 60, "X-Ratelimit-Used", [2]string{"1", "60"}, `"message":"API rate limit exceeded"`},
	} {
		t.Run(c.like+" "+c.field, func(t *testing.T) {
			t.Parallel()
			s := start(t, fmt.Sprintf("upstream: %q\nrules: [{name: a, like: %s}]\n", named(t, "up"), c.like), func(o *Options) {
				o.Now = func() time.Time { return profile.Start }
			})
			first := s.get(t, "/")
			if got := first.header.Get(c.field); first.status != http.StatusOK || c.values[0] != "" && got != c.values[0] {
				t.Errorf("the first response: %d %q, want 200 %q", first.status, got, c.values[0])
			}
			for range c.passes - 1 {
				s.get(t, "/")
			}
			p, _ := profile.Get(c.like)
			denied := s.get(t, "/")
			if got := denied.header.Get(c.field); denied.status != p.Status || got != c.values[1] || !strings.Contains(denied.body, c.body) {
				t.Errorf("the denial: %d %q %q, want %d %q %q", denied.status, got, denied.body, p.Status, c.values[1], c.body)
			}
		})
	}
}
