// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package rls_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	commonpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typepb "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/policy/evaluate"
	"github.com/sluicegate/sluice/server/internal/front"
)

// own are limits that the service does not have, beside some that it has.
const own = `
domain: d
descriptors:
  - {key: log, rate_limit: {limits: 3/90s sliding-log, name: l}}
  - {key: two, rate_limit: {limits: [2/s fixed-window, 3/day fixed-window calendar UTC]}}
  - {key: bucket, rate_limit: {limits: 60/min burst 2}}
  - {key: ms, rate_limit: {limits: 5/250ms}}
  - {key: shadow, shadow_mode: true, rate_limit: {limits: 1/h}}
  - {key: quota, quota_mode: true, rate_limit: {limits: 1/h}}
  - {key: hour, rate_limit: {unit: hour, requests_per_unit: 3}}
  - {key: day, rate_limit: {unit: day, requests_per_unit: 10}}
  - {key: zero, rate_limit: {unit: second, requests_per_unit: 0}}
  - key: user
    descriptors:
      - {key: owner, rate_limit: {slots: 2, ttl: 60s, name: s}}
      - {key: job, descriptors: [{key: owner, shadow_mode: true, rate_limit: {slots: 1, ttl: 60s}}]}
`

// withOwn makes a listener read own.
func withOwn(t *testing.T, together bool) func(*config.Listener) {
	return func(l *config.Listener) {
		l.RLS.Together = together
		if err := os.WriteFile(l.RLS.Files[0], []byte(own), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// counted makes a request of descriptors such as 2*a=1,b=2, whose number of hits may be negative.
func counted(t *testing.T, descriptors ...string) *pb.RateLimitRequest {
	t.Helper()
	texts := make([]string, len(descriptors))
	hits := make([]int64, len(descriptors))
	for i, text := range descriptors {
		number, rest, found := strings.Cut(text, "*")
		if hits[i] = 1; !found {
			rest = number
		} else if _, err := fmt.Sscan(number, &hits[i]); err != nil {
			t.Fatal(err)
		}
		texts[i] = rest
	}
	q := request(texts...)
	for i, of := range q.GetDescriptors() {
		of.HitsAddend, of.IsNegativeHits = wrapperspb.UInt64(uint64(max(hits[i], -hits[i]))), hits[i] < 0
	}
	return q
}

// ask asks, and returns the codes and what is left: "OK over:2 ok:3".
func (b *bed) ask(descriptors ...string) string {
	b.t.Helper()
	r, err := b.ShouldRateLimit(b.t.Context(), counted(b.t, descriptors...))
	if err != nil {
		return status.Convert(err).Message()
	}
	text := "OK"
	if r.GetOverallCode() == pb.RateLimitResponse_OVER_LIMIT {
		text = "OVER"
	}
	for _, s := range r.GetStatuses() {
		code := "ok"
		if s.GetCode() == pb.RateLimitResponse_OVER_LIMIT {
			code = "over"
		}
		text += fmt.Sprintf(" %s:%d", code, s.GetLimitRemaining())
	}
	return text
}

// step is a request and the answer.
type step struct {
	after       int64 // seconds since the step before
	descriptors string
	want        string
}

func (b *bed) steps(steps []step) {
	b.t.Helper()
	for i, s := range steps {
		b.now.Add(s.after)
		if got := b.ask(strings.Fields(s.descriptors)...); got != s.want {
			b.t.Errorf("step %d, %s: %q, want %q", i+1, s.descriptors, got, s.want)
		}
	}
}

// TestLimits: limits of any window and algorithm are taken from, so that denied hits do not count.
func TestLimits(t *testing.T) {
	t.Parallel()
	b := start(t, withOwn(t, false))
	b.steps([]step{
		{0, "log=a", "OK ok:2"},
		{50, "2*log=a", "OK ok:0"},
		{0, "log=a", "OVER over:0"},
		{0, "0*log=a", "OK ok:0"},
		{40, "2*log=a", "OVER over:1"}, // the first has left the window, and those denied have not counted
		{0, "log=a", "OK ok:0"},
		{0, "-1*log=a", "OK ok:1"},
		{0, "-9*log=a", "OK ok:3"},
		{0, "2*log=a", "OK ok:1"},
		{0, "2*two=a", "OK ok:0"},
		{1, "2*two=a", "OVER over:1"}, // of the day's 3
		{0, "two=a", "OK ok:0"},
		{1, "two=a", "OVER over:0"},
		{0, "shadow=a", "OK ok:0"},
		{0, "shadow=a", "OK ok:0"},
		{0, "quota=a hour=a", "OK ok:0 ok:2"},
		{0, "quota=a hour=a quota=b", "OK over:0 ok:1 ok:0"},
		{0, "quota=a", "OVER over:0"},
	})
	b.want(request("log=b"), `{"overallCode": "OK", "statuses": [{"code": "OK", "limitRemaining": 2, "durationUntilReset": "90s",
		"currentLimit": {"name": "l", "requestsPerUnit": 3, "unit": "SECOND", "unitMultiplier": 90}}]}`)
	b.want(counted(b.t, "4*log=c"), `{"overallCode": "OVER_LIMIT", "statuses": [{"code": "OVER_LIMIT", "limitRemaining": 3, "durationUntilReset": "0s",
		"currentLimit": {"name": "l", "requestsPerUnit": 3, "unit": "SECOND", "unitMultiplier": 90}}]}`)
	minute := `"currentLimit": {"requestsPerUnit": 60, "unit": "MINUTE"}`
	b.want(counted(b.t, "2*bucket=a"), `{"overallCode": "OK", "statuses": [{"code": "OK", "durationUntilReset": "2s", `+minute+`}]}`)
	b.want(counted(b.t, "bucket=a"), `{"overallCode": "OVER_LIMIT", "statuses": [{"code": "OVER_LIMIT", "durationUntilReset": "1s", `+minute+`}]}`)
	b.want(request("ms=a"), `{"overallCode": "OK", "statuses": [{"code": "OK", "limitRemaining": 4, "durationUntilReset": "1s", "currentLimit": {"requestsPerUnit": 5}}]}`)
	b.now.Store(1_000_000) // 1970-01-12 13:46:40
	b.want(counted(b.t, "2*two=b"), `{"overallCode": "OK", "statuses": [{"code": "OK", "durationUntilReset": "1s", "currentLimit": {"requestsPerUnit": 2, "unit": "SECOND"}}]}`)
	b.now.Add(1)
	b.want(counted(b.t, "2*two=b"), `{"overallCode": "OVER_LIMIT", "statuses": [{"code": "OVER_LIMIT", "limitRemaining": 1, "durationUntilReset": "36799s", "currentLimit": {"requestsPerUnit": 3, "unit": "DAY"}}]}`)
	before := b.store.calls.Load()
	b.ask("log=x", "hour=x", "2*two=x", "day=x", "-1*log=y")
	if n := b.store.calls.Load() - before; n != 1 {
		t.Errorf("%d calls of the store", n)
	}
}

// TestTogether: the hits of all descriptors are taken, or none.
func TestTogether(t *testing.T) {
	t.Parallel()
	b := start(t, withOwn(t, true))
	before := b.store.calls.Load()
	b.steps([]step{
		{0, "hour=a day=a log=a", "OK ok:2 ok:9 ok:2"},
		{0, "2*hour=a 9*day=a", "OK ok:0 ok:0"},
		{0, "hour=a day=b log=a", "OVER over:0 ok:10 ok:2"}, // the others are not counted
		{0, "0*hour=a day=b log=a", "OK ok:0 ok:9 ok:1"},    // 0 hits fit
		{0, "-1*hour=a 11*day=b", "OVER ok:1 over:9"},       // hits come back by themselves
		{0, "2*hour=a", "OVER over:1"},
		{0, "hour=a", "OK ok:0"},
		{0, "0*hour=a 0*day=b", "OK ok:0 ok:9"},
		{0, "2*day=b hour=b 7*day=b", "OK ok:0 ok:2 ok:0"}, // one key, twice
		{0, "2*hour=c 2*hour=c", "OVER over:3 over:3"},
		{0, "zero=a hour=c", "OVER over:0 ok:3"},
		{0, "0*zero=a hour=c", "OK ok:0 ok:2"},
		{0, "shadow=a hour=c", "OK ok:0 ok:1"},
		{0, "shadow=a hour=c", "OK ok:0 ok:0"},
		{0, "shadow=a hour=c", "OVER ok:0 over:0"},
		{0, "quota=a hour=d", "OK ok:0 ok:2"},
		{0, "quota=a quota=b hour=d", "OK over:0 ok:0 ok:1"},
		{0, "3*two=a hour=d", "OVER over:2 ok:1"},
		{1, "2*two=a hour=d", "OK ok:0 ok:0"},
		{3200, "hour=d day=c", "OK ok:2 ok:9"}, // the windows are those of the clock
	})
	if n := b.store.calls.Load() - before; n != 20 {
		t.Errorf("%d calls of the store for 20 requests", n)
	}
	b.now.Store(1_000_000)
	b.want(request("hour=e"), `{"overallCode": "OK", "statuses": [{"code": "OK", "limitRemaining": 2, "durationUntilReset": "800s", "currentLimit": {"requestsPerUnit": 3, "unit": "HOUR"}}]}`)
	var many []string
	for i := range 17 {
		many = append(many, fmt.Sprint("day=many", i))
	}
	if got := b.ask(many...); got != "descriptor 17: all descriptors are charged or none, and at most 16 can be; send fewer" {
		t.Error(got)
	}
	if got := b.ask(append(many[:16], "3*day=many0", "-1*hour=e")...); got != "OK ok:6"+strings.Repeat(" ok:9", 15)+" ok:6 ok:3" {
		t.Error(got)
	}
	q := request("hour=f", "hour=f")
	for i, perUnit := range []uint32{5, 6} {
		q.Descriptors[i].Limit = &commonpb.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: perUnit, Unit: typepb.RateLimitUnit_DAY}
	}
	if _, err := b.ShouldRateLimit(t.Context(), q); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "descriptor 2: an earlier one with the same entries brings another limit") {
		t.Error(err)
	}
	q.Descriptors[1].Limit.RequestsPerUnit = 5
	if r, err := b.ShouldRateLimit(t.Context(), q); err != nil || r.GetStatuses()[0].GetLimitRemaining() != 3 {
		t.Errorf("%v, %v", r, err)
	}
}

// TestTogetherEqualsModel compares random requests with counts in maps.
func TestTogetherEqualsModel(t *testing.T) {
	t.Parallel()
	b := start(t, withOwn(t, true))
	limits, windows := map[string]int64{"hour": 3, "day": 10, "zero": 0}, map[string]int64{"hour": 3600, "day": 86400, "zero": 1}
	counts := make(map[string]int64) // by the window and the descriptor
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	denied := 0
	for i := range 5000 {
		b.now.Add(r.Int64N(400))
		in := func(descriptor string) string {
			key, _, _ := strings.Cut(descriptor, "=")
			return fmt.Sprint(b.now.Load()/windows[key], descriptor)
		}
		var texts, names []string
		sums := make(map[string]int64)
		for range 1 + r.IntN(4) {
			name := []string{"hour", "hour", "day", "day", "day", "zero"}[r.IntN(6)] + "=" + string(rune('a'+r.IntN(2)))
			hits := r.Int64N(4)
			texts, names = append(texts, fmt.Sprint(hits, "*", name)), append(names, name)
			sums[name] += hits
		}
		over, fits := make(map[string]bool), true
		for name, sum := range sums {
			key, _, _ := strings.Cut(name, "=")
			over[name] = counts[in(name)]+sum > limits[key]
			fits = fits && !over[name]
		}
		want := "OK"
		if !fits {
			want = "OVER"
			denied++
		}
		for name, sum := range sums {
			if fits {
				counts[in(name)] += sum
			}
		}
		for _, name := range names {
			key, _, _ := strings.Cut(name, "=")
			code := "ok"
			if over[name] {
				code = "over"
			}
			want += fmt.Sprintf(" %s:%d", code, limits[key]-counts[in(name)])
		}
		if got := b.ask(texts...); got != want {
			t.Fatalf("seed %d, request %d, %v: %s, want %s", seed, i, texts, got, want)
		}
	}
	if denied < 500 || denied > 4500 {
		t.Errorf("%d of 5000 requests are denied", denied)
	}
}

// TestSlots: owners hold slots until they release them, or until the TTL has passed.
func TestSlots(t *testing.T) {
	t.Parallel()
	for _, together := range []bool{false, true} {
		t.Run(fmt.Sprint("together ", together), func(t *testing.T) {
			t.Parallel()
			b := start(t, withOwn(t, together))
			b.steps([]step{
				{0, "user=a,owner=1", "OK ok:1"},
				{10, "user=a,owner=2", "OK ok:0"},
				{0, "user=a,owner=3", "OVER over:0"},
				{0, "user=b,owner=3", "OK ok:1"},
				{0, "0*user=a,owner=3", "OVER over:0"},
				{0, "0*user=a,owner=2", "OK ok:0"},
				{0, "user=a,owner=2", "OK ok:0"}, // again: it is renewed
				{0, "-1*user=a,owner=3", "OK ok:0"},
				{0, "-1*user=a,owner=2", "OK ok:1"},
				{0, "-1*user=a,owner=2", "OK ok:1"}, // of which it has none
				{0, "user=a,owner=3", "OK ok:0"},
				{50, "user=a,owner=4", "OK ok:0"}, // 1 has crashed
				{9, "user=a,owner=5", "OVER over:0"},
				{1, "2*user=a,owner=5", "OVER over:1"},
				{50, "2*user=a,owner=5", "OK ok:0"},
				{0, "0*user=a,owner=", "OVER over:0"},
				{0, "3*user=a,owner=6", "OVER over:0"},
				{0, "user=c,job=j,owner=1", "OK ok:0"},
				{0, "user=c,job=j,owner=2", "OK ok:0"}, // shadow mode
				{0, "user=a,owner=", "descriptor 1: the value of its entry owner is empty; send an id that no other request has"},
			})
			b.now.Store(1_000_000)
			b.want(request("user=d,owner=1"), `{"overallCode": "OK", "statuses": [{"code": "OK", "limitRemaining": 1, "durationUntilReset": "0s", "currentLimit": {"name": "s", "requestsPerUnit": 2}}]}`)
			b.want(counted(t, "2*user=d,owner=2"), `{"overallCode": "OVER_LIMIT", "statuses": [{"code": "OVER_LIMIT", "limitRemaining": 1, "durationUntilReset": "60s", "currentLimit": {"name": "s", "requestsPerUnit": 2}}]}`)
			for i := range 10_000 {
				if _, err := b.front.(pb.RateLimitServiceServer).ShouldRateLimit(t.Context(), request(fmt.Sprint("user=e,owner=", i))); err != nil {
					t.Fatal(err)
				}
			}
			if got := b.ask("-1*user=e,owner=0", "-1*user=e,owner=1"); got != "OK ok:1 ok:2" {
				t.Errorf("after 10,000 owners: %s", got)
			}
			failed := errors.New("no store")
			b.store.err.Store(&failed)
			if _, err := b.ShouldRateLimit(t.Context(), request("user=a,owner=1")); status.Code(err) != codes.Unavailable {
				t.Error(err)
			}
		})
	}
}

// TestSlotBesideHits: a request that is denied acquires no slot, and with together a slot that is
// denied costs no hits.
func TestSlotBesideHits(t *testing.T) {
	t.Parallel()
	b := start(t, withOwn(t, false))
	b.steps([]step{
		{0, "3*hour=a user=a,owner=1", "OK ok:0 ok:1"},
		{0, "user=a,owner=2 hour=a", "OVER ok:1 over:0"},
		{0, "user=a,owner=3", "OK ok:0"},
		{0, "user=a,owner=2 hour=b", "OVER over:0 ok:2"}, // each by itself: the hit counts
	})
	b = start(t, withOwn(t, true))
	b.steps([]step{
		{0, "3*hour=a user=a,owner=1", "OK ok:0 ok:1"},
		{0, "user=a,owner=2 hour=a", "OVER ok:1 over:0"},
		{0, "user=a,owner=3 hour=b", "OK ok:0 ok:2"},
		{0, "user=a,owner=2 hour=b log=b", "OVER over:0 ok:2 ok:3"},
		{0, "user=a,owner=2 user=b,owner=2", "descriptor 2: a request acquires one slot at most, as all or none is acquired and charged; send one owner"},
		{0, "-1*user=a,owner=1 user=b,owner=2 0*user=b,owner=3", "OK ok:1 ok:1 ok:1"},
	})
}

// TestSlotsOfDeniedRequest: a request that is denied keeps no slot that it has acquired, but those
// that its owner held before.
func TestSlotsOfDeniedRequest(t *testing.T) {
	t.Parallel()
	b := start(t, withOwn(t, false))
	b.steps([]step{
		{0, "2*user=full,owner=0", "OK ok:0"},
		{0, "user=a,owner=1 user=b,owner=1 user=full,owner=1", "OVER ok:2 ok:2 over:0"},
		{0, "0*user=a,owner=2 0*user=b,owner=2", "OK ok:2 ok:2"},
		{0, "user=a,owner=1", "OK ok:1"},
		{0, "user=a,owner=1 user=b,owner=1 user=full,owner=1", "OVER ok:1 ok:2 over:0"},
		{0, "0*user=a,owner=2 0*user=b,owner=2", "OK ok:1 ok:2"},
		{0, "user=a,owner=1 user=b,owner=1", "OK ok:1 ok:1"},
	})
	b = startRules(t, withOwn(t, true))
	b.steps([]step{
		{0, "own=bob day=a user=a,owner=1", "OK ok:0 ok:9 ok:1"},
		{0, "own=bob day=a user=b,owner=1", "OVER over:0 ok:8 ok:2"}, // the rule denies
		{0, "own=bob day=a user=a,owner=1", "OVER over:0 ok:7 ok:1"},
		{0, "0*user=a,owner=2 0*user=b,owner=2", "OK ok:1 ok:2"},
	})
}

// recorded returns the records.
func (b *bed) recorded() []front.Record {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.records)
}

// TestOwnRecords: a record names the limit that binds, and that of slots, and the hits that were
// taken.
func TestOwnRecords(t *testing.T) {
	t.Parallel()
	b := start(t, withOwn(t, false))
	for range 3 {
		b.ask("2*two=a")
	}
	for i := range 3 {
		b.ask(fmt.Sprint("user=a,owner=", i))
	}
	together := start(t, withOwn(t, true))
	for _, hits := range []string{"2*hour=a", "3*hour=a"} {
		together.ask(hits, "day=a", "-1*day=b")
	}
	var spent []int64
	for _, r := range together.recorded() {
		if r.Ended {
			spent = append(spent, r.Event.Decision.Spent)
		}
	}
	if want := []int64{2, 1, 0, 0, 0, 0}; !slices.Equal(spent, want) {
		t.Errorf("spent %v, want %v", spent, want)
	}
	records := b.recorded()
	if len(records) != 12 {
		t.Fatalf("%d records", len(records))
	}
	if e := records[2].Event; e.Verdict != evaluate.Denied || e.Limit.Name != "d.two.fixed-window.day.utc" || e.Decision.RetryAfter != 36800*time.Second {
		t.Errorf("%+v", e)
	}
	e := records[10].Event
	if e.Verdict != evaluate.Denied || e.Limit != nil || e.Violated[0] != "d.user.owner" || e.Charge.Key != "d|user=a" || e.Decision.RetryAfter != time.Minute {
		t.Errorf("%+v", e)
	}
}
