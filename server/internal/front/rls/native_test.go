// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package rls_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	commonpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/policy/evaluate"
)

// rules are native rules for the domain d.
const rules = `
  - {name: user, match: {host: d, descriptor: {user: "*"}}, by: descriptor.user, limits: 3/min fixed-window}
  - {name: api, match: {descriptor: {path: /api/*}}, by: descriptor.path, limits: 10/s burst 20}
  - {name: odd, match: {descriptor: {odd: "*"}}, limits: 2/15min fixed-window}
  - {name: part, match: {descriptor: {part: "*"}}, limits: 2/500ms fixed-window}
  - {name: two, match: {descriptor: {two: "*"}}, by: descriptor.two, limits: [2/hour fixed-window, 5/day fixed-window]}
  - {name: shadow, match: {descriptor: {shadow: "*"}}, limits: 1/hour, mode: shadow}
  - {name: soft, match: {descriptor: {soft: "*"}}, limits: soft 1/hour fixed-window grace 1/day fixed-window}
  - {name: plan, match: {descriptor: {user: "*", plan: "*"}}, by: descriptor.user, limits: 1/hour fixed-window, tiers: {by: descriptor.plan, limits: {pro: 2/hour fixed-window, vip: none}}}
  - {name: own, match: {descriptor: {own: "*"}}, by: descriptor.own, limits: 1/hour fixed-window, overrides: [{key: ada, limits: 3/hour fixed-window, reason: r, author: a}]}
  - {name: five, match: {descriptor: {five: "*"}}, cost: 5, limits: 10/hour fixed-window}
  - {name: behind, match: {descriptor: {behind: "*"}}, limits: 10/hour fixed-window count-denied}
  - {name: closed, match: {descriptor: {closed: "*"}}, failure: closed, limits: 1/hour}
  - {name: hour, match: {host: d, descriptor: {hour: "*"}}, by: descriptor.hour, limits: 2/day fixed-window}
  - {name: once, by: descriptor.generic, missing: skip, limits: 9/hour}
  - {name: cased, match: {host: Shop_EU-x, descriptor: {cased: "*"}}, limits: 1/hour}
`

// startRules serves rules beside the limits.
func startRules(t *testing.T, change func(*config.Listener)) *bed {
	t.Helper()
	c, err := config.Parse("f", []byte("listen: {address: 127.0.0.1:1, serve: rls}\nrules:\n"+rules))
	if err != nil {
		t.Fatal(err)
	}
	return startBy(t, c.PolicyOf(&c.Listen[0]), change)
}

// negative returns a request that gives the hits of its first descriptor back.
func negative(q *pb.RateLimitRequest) *pb.RateLimitRequest {
	q.Descriptors[0].IsNegativeHits = true
	return q
}

// codes asks, and returns the codes of the answer.
func (b *bed) codes(q *pb.RateLimitRequest) string {
	b.t.Helper()
	r, err := b.ShouldRateLimit(b.t.Context(), q)
	if err != nil {
		b.t.Fatal(err)
	}
	text := r.GetOverallCode().String()
	for _, s := range r.GetStatuses() {
		text += " " + s.GetCode().String()
	}
	return text
}

// TestRules: rules decide each descriptor that has their entries.
func TestRules(t *testing.T) {
	t.Parallel()
	b := startRules(t, func(l *config.Listener) { l.RLS.Files = nil })
	minute := `"currentLimit": {"name": "user", "unit": "MINUTE", "requestsPerUnit": 3}, "durationUntilReset": "20s"}]}`
	for left := 2; left >= 0; left-- {
		b.want(request("user=ada"), fmt.Sprintf(`{"overallCode": "OK", "statuses": [{"code": "OK", "limitRemaining": %d, `, left)+minute)
	}
	b.want(request("user=ada"), `{"overallCode": "OVER_LIMIT", "statuses": [{"code": "OVER_LIMIT", `+minute)
	b.want(request("user=bob"), `{"overallCode": "OK", "statuses": [{"code": "OK", "limitRemaining": 2, `+minute)
	large := request("user=bob")
	large.HitsAddend = 9 // which would never fit
	b.want(large, `{"overallCode": "OVER_LIMIT", "statuses": [{"code": "OVER_LIMIT", `+minute)
	b.want(request("path=/api/a"), `{"overallCode": "OK", "statuses": [{"code": "OK", "limitRemaining": 19, "currentLimit": {"name": "api", "unit": "SECOND", "requestsPerUnit": 10}, "durationUntilReset": "1s"}]}`)
	b.want(request("path=/b"), `{"overallCode": "OK", "statuses": [{"code": "OK"}]}`)
	b.want(request("odd=a"), `{"overallCode": "OK", "statuses": [{"code": "OK", "limitRemaining": 1, "currentLimit": {"name": "odd", "unit": "MINUTE", "unitMultiplier": 15, "requestsPerUnit": 2}, "durationUntilReset": "800s"}]}`)
	b.want(request("part=a"), `{"overallCode": "OK", "statuses": [{"code": "OK", "limitRemaining": 1, "currentLimit": {"name": "part: 2/500ms fixed-window", "requestsPerUnit": 2}, "durationUntilReset": "1s"}]}`)
	for _, step := range []struct{ descriptors, want string }{
		{"user=bob user=eve,plan=free path=/b", "OK OK OK OK"}, // plan is another rule, and path /b none
		{"user=eve,plan=free user=eve", "OVER_LIMIT OVER_LIMIT OK"},
		{"plan=pro,user=max", "OK OK"}, // in any order
		{"user=max,plan=pro", "OK OK"},
		{"user=max,plan=pro", "OVER_LIMIT OVER_LIMIT"},
		{"user=max,plan=vip", "OK OK"},
		{"user=max,user=eve", "OK OK"}, // two of one key
		{"shadow=a shadow=a", "OK OK OK"},
		{"soft=a", "OK OK"},
		{"soft=a", "OK OK"},
		{"soft=a", "OVER_LIMIT OVER_LIMIT"},
		{"two=a two=a two=a", "OVER_LIMIT OK OK OVER_LIMIT"},
		{"own=ada own=ada own=ada own=ada own=bob own=bob", "OVER_LIMIT OK OK OK OVER_LIMIT OK OVER_LIMIT"},
		{"five=a five=a five=a", "OVER_LIMIT OK OK OVER_LIMIT"},
	} {
		if got := b.codes(request(strings.Fields(step.descriptors)...)); got != step.want {
			t.Errorf("%s: %s, want %s", step.descriptors, got, step.want)
		}
	}
	for domain, want := range map[string]string{"Shop_EU-x": "OVER_LIMIT OK OVER_LIMIT", "shop_eu/y": "OK OK OK"} {
		q := request("cased=a", "cased=a")
		if q.Domain = domain; b.codes(q) != want {
			t.Error(domain)
		}
	}
	q := request("cased=a") // its slash and its case do not count
	if q.Domain = "SHOP_eu/x"; b.codes(q) != "OVER_LIMIT OVER_LIMIT" {
		t.Error("a slash is no hyphen")
	}
	q = request("user=ada")
	if q.Domain = "e"; b.codes(q) != "OK OK" {
		t.Error("a rule applies to another domain")
	}
	for _, refused := range []string{"generic=a,generic=b", "generic=" + strings.Repeat("a", 9000)} {
		// An error would let the client pass, also of the other descriptors.
		if got := b.codes(request("own=eve", refused)); got != "OVER_LIMIT OK OVER_LIMIT" {
			t.Errorf("%.20s: %s", refused, got)
		}
		b.codes(negative(request("own=eve")))
	}
}

// TestRuleHits: the hits of a descriptor are its cost, 0 asks, and negative hits come back.
func TestRuleHits(t *testing.T) {
	t.Parallel()
	b := startRules(t, func(l *config.Listener) { l.RLS.Files = nil })
	for i, step := range []struct {
		descriptor string
		hits       uint64
		negative   bool
		left       uint32
		over       bool
	}{
		{"user=a", 0, false, 3, false},
		{"user=a", 2, false, 1, false},
		{"user=a", 2, false, 0, true},
		{"user=a", 0, false, 1, false}, // what was denied does not count
		{"user=a", 1, false, 0, false},
		{"user=a", 0, false, 0, true}, // nothing is left
		{"user=a", 1, true, 1, false},
		{"user=a", 9, true, 3, false}, // never below 0
		{"user=a", 4, false, 0, true}, // which would never fit
		{"user=a", 0, true, 3, false},
		{"two=a", 2, false, 0, false},
		{"two=a", 1, true, 1, false}, // of the limit that binds
		{"five=a", 2, false, 8, false},
		{"behind=a", 8, false, 2, false},
		{"behind=a", 9, false, 0, true}, // which fill the window
		{"behind=a", 0, false, 0, true},
		{"shadow=a", 1, true, 0, false},
		{"none=a", 1, true, 0, false},
	} {
		q := request(step.descriptor)
		q.HitsAddend, q.Descriptors[0].HitsAddend, q.Descriptors[0].IsNegativeHits = 7, wrapperspb.UInt64(step.hits), step.negative
		got, err := b.ShouldRateLimit(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if over := got.GetOverallCode() == pb.RateLimitResponse_OVER_LIMIT; over != step.over || got.GetStatuses()[0].GetLimitRemaining() != step.left {
			t.Errorf("step %d: %v, want %+v", i+1, got, step)
		}
	}
}

// TestRulesAndFiles: a descriptor that a limit of the files and a rule decide is denied if one
// denies it.
func TestRulesAndFiles(t *testing.T) {
	t.Parallel()
	b := startRules(t, func(l *config.Listener) {
		l.RLS.Headers, l.RLS.LimitHeader, l.RLS.RemainingHeader, l.RLS.ResetHeader = true, "L", "R", "T"
	})
	day := `"currentLimit": {"name": "hour", "unit": "DAY", "requestsPerUnit": 2}, "durationUntilReset": "36800s"}], "responseHeadersToAdd": [{"key": "L", "value": "2"}, {"key": "R", "value": "%d"}, {"key": "T", "value": "36800"}]}`
	for _, left := range []int{1, 0} {
		b.want(request("hour=a"), fmt.Sprintf(`{"overallCode": "OK", "statuses": [{"code": "OK", "limitRemaining": %d, `+day, left, left))
	}
	b.want(request("hour=a"), fmt.Sprintf(`{"overallCode": "OVER_LIMIT", "statuses": [{"code": "OVER_LIMIT", `+day, 0)) // and the third of the files
	for range 3 {
		b.codes(request("hour=a"))
	}
	b.now.Add(36800)
	for range 2 { // the rule is new, and so is the hour of the files
		if got := b.codes(request("hour=a")); got != "OK OK" {
			t.Error(got)
		}
	}
	q := request("hour=b")
	q.HitsAddend = 4
	if got := b.codes(q); got != "OVER_LIMIT OVER_LIMIT" { // of both
		t.Error(got)
	}
	if got := b.codes(request("hour=b", "user=x", "zero=a")); got != "OVER_LIMIT OVER_LIMIT OK OVER_LIMIT" { // of the files, which count what they deny
		t.Error(got)
	}
}

// TestRulesModes: what holds for all limits holds for rules.
func TestRulesModes(t *testing.T) {
	t.Parallel()
	shadow := startRules(t, func(l *config.Listener) { l.RLS.Files, l.RLS.Shadow = nil, true })
	if got := shadow.codes(request("odd=a", "odd=a", "odd=a")); got != "OK OK OK OVER_LIMIT" {
		t.Error(got)
	}
	quota := startRules(t, func(l *config.Listener) { l.RLS.Files, l.RLS.Quota = nil, true })
	for _, step := range []struct{ descriptors, want string }{
		{"odd=a odd=a odd=a user=a", "OK OK OK OVER_LIMIT OK"},
		{"odd=a", "OVER_LIMIT OVER_LIMIT"},
	} {
		if got := quota.codes(request(strings.Fields(step.descriptors)...)); got != step.want {
			t.Errorf("%s: %s", step.descriptors, got)
		}
	}
}

// TestRulesStoreFails: the failure policy of a rule decides, and hits that come back are never
// denied.
func TestRulesStoreFails(t *testing.T) {
	t.Parallel()
	b := startRules(t, nil)
	failed := errors.New("no store")
	b.store.err.Store(&failed)
	for descriptor, want := range map[string]string{"user=a": "OK OK", "closed=a": "OVER_LIMIT OVER_LIMIT"} {
		if got := b.codes(request(descriptor)); got != want {
			t.Errorf("%s: %s", descriptor, got)
		}
		q := request(descriptor)
		if q.Descriptors[0].IsNegativeHits = true; b.codes(q) != "OK OK" {
			t.Errorf("%s: hits that come back are denied", descriptor)
		}
	}
	if _, err := b.ShouldRateLimit(t.Context(), request("user=a", "hour=a")); status.Code(err) != codes.Unavailable {
		t.Error(err)
	}
	b.store.err.Store(nil)
	b.store.away.Store(true)
	b.want(request("path=/api/a"), `{"overallCode": "OK", "statuses": [{"code": "OK"}]}`) // no units are left that nobody has counted
}

// TestRuleRecords: each descriptor that a rule decides is recorded twice, unless it only asks
// or gives hits back.
func TestRuleRecords(t *testing.T) {
	t.Parallel()
	b := startRules(t, nil)
	q := request("user=a|b", "closed=x", "two=a", "five=a")
	q.Descriptors[2].HitsAddend = wrapperspb.UInt64(0)
	q.Descriptors[3].IsNegativeHits = true
	q.Descriptors[1].HitsAddend = wrapperspb.UInt64(2)
	if _, err := b.ShouldRateLimit(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.records) != 4 {
		t.Fatalf("%d records", len(b.records))
	}
	for i, r := range b.records {
		wantKey, wantTarget, wantVerdict, wantRule := "a|b", "d|user=a%7Cb", evaluate.Allowed, "user"
		if i >= 2 {
			wantKey, wantTarget, wantVerdict, wantRule = "", "d|closed=x", evaluate.Denied, "closed"
		}
		if r.Event.Charge.Key != wantKey || r.Target != wantTarget || r.Event.Verdict != wantVerdict || r.Event.Rule.Name != wantRule || r.Ended != (i%2 == 1) || r.Front != "rls" || r.Host != "d" {
			t.Errorf("%d: %+v", i, r)
		}
	}
}

// TestEmptyDescriptor: a descriptor without entries is decided by no rule.
func TestEmptyDescriptor(t *testing.T) {
	t.Parallel()
	b := startRules(t, nil)
	q := &pb.RateLimitRequest{Domain: "d", Descriptors: []*commonpb.RateLimitDescriptor{{}}}
	if got := b.codes(q); got != "OK OK" {
		t.Error(got)
	}
}

// TestRulesAndSlots: a request that a rule denies acquires no slot.
func TestRulesAndSlots(t *testing.T) {
	t.Parallel()
	b := startRules(t, withOwn(t, false))
	for _, step := range []struct{ descriptors, want string }{
		{"closed=a user=u,owner=1", "OK OK OK"},
		{"closed=a user=u,owner=2", "OVER_LIMIT OVER_LIMIT OK"},
		{"user=u,owner=3", "OK OK"},
		{"user=u,owner=4", "OVER_LIMIT OVER_LIMIT"}, // 1 and 3 have the two
	} {
		if got := b.codes(request(strings.Fields(step.descriptors)...)); got != step.want {
			t.Errorf("%s: %s, want %s", step.descriptors, got, step.want)
		}
	}
}
