// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit

import (
	"iter"
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluicegate/sluice"
)

func plan(t testing.TB, limits ...string) *sluice.Plan {
	t.Helper()
	ls := make([]sluice.Limit, len(limits))
	for i, text := range limits {
		l, err := sluice.ParseLimit(text)
		if err != nil {
			t.Fatal(err)
		}
		ls[i] = l
	}
	p, err := sluice.Compile("test", ls...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// terms returns the limits of a plan.
func terms(p *sluice.Plan) iter.Seq[*sluice.Term] {
	return func(yield func(*sluice.Term) bool) {
		for i := range p.Len() {
			if !yield(p.Term(i)) {
				return
			}
		}
	}
}

func TestPolicyItems(t *testing.T) {
	for _, c := range []struct {
		name, limit, want string
	}{
		{"requests", "burst: 100/min", `"burst";q=100;w=60`},
		{"default name", "10/s", `"token-bucket.s";q=10;w=1`},
		{"bytes", "video: 100MB/min sliding-counter", `"video";q=100000000;qu="content-bytes";w=60`},
		{"window of many seconds", "a: 1/3s leaky-bucket", `"a";q=1;w=3`},
		{"burst", "a: 10/s burst 1", `"a";q=10;w=1;sluice-burst=1`},
		{"larger burst", "a: 10/s leaky-bucket burst 100", `"a";q=10;w=1;sluice-burst=100`},
		{"burst and debt", "a: 10/s burst 1 debt 5", `"a";q=10;w=1`},
		{"burst of an interval", "a: 10/s burst 1 interval-refill", `"a";q=10;w=1`},
		{"window below a second", "a: 10/100ms", `"a";q=10`},
		{"window not of whole seconds", "a: 10/1500ms", `"a";q=10`},
		{"calendar day", "daily: 1000/day calendar Asia/Seoul", `"daily";q=1000;w=86400`},
		{"calendar month", "monthly: 1000/month calendar UTC", `"monthly";q=1000`},
		{"quota beyond an Integer", "a: 9007199254740991/s", `"a";q=999999999999999;w=1`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := policiesOf(terms(plan(t, c.limit))); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
	got, want := policiesOf(terms(plan(t, "b: 10/s", "d: 1000/day"))), `"b";q=10;w=1, "d";q=1000;w=86400`
	if got != want {
		t.Errorf("two limits: got %s, want %s", got, want)
	}
}

func TestSetFields(t *testing.T) {
	const all = Draft11 | XRateLimit
	for _, c := range []struct {
		name   string
		fields Fields
		d      sluice.Decision
		want   map[string]string
	}{
		{
			"allowed", all,
			sluice.Decision{Allowed: true, Remaining: 99, ResetAfter: 600 * time.Millisecond},
			map[string]string{
				"RateLimit-Policy": `"a";q=100;w=60`, "RateLimit": `"a";r=99;t=1`,
				"X-RateLimit-Limit": "100", "X-RateLimit-Remaining": "99", "X-RateLimit-Reset": "1",
			},
		},
		{
			"denied: rounded up, and Retry-After is t", all,
			sluice.Decision{Remaining: 0, RetryAfter: 12*time.Second + time.Microsecond, ResetAfter: time.Minute},
			map[string]string{
				"RateLimit-Policy": `"a";q=100;w=60`, "RateLimit": `"a";r=0;t=13`, "Retry-After": "13",
				"X-RateLimit-Limit": "100", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "60", "X-Ratelimit-Retry-After": "13",
			},
		},
		{
			"denied, whole seconds", Draft11,
			sluice.Decision{Remaining: 3, RetryAfter: 12 * time.Second, ResetAfter: time.Minute},
			map[string]string{"RateLimit-Policy": `"a";q=100;w=60`, "RateLimit": `"a";r=3;t=12`, "Retry-After": "12"},
		},
		{
			"denied for a microsecond", NoFields,
			sluice.Decision{RetryAfter: time.Microsecond},
			map[string]string{"Retry-After": "1"},
		},
		{
			"never: no Retry-After", all,
			sluice.Decision{Remaining: 7, TooLarge: true, RetryAfter: sluice.MaxRetryAfter, ResetAfter: 1500 * time.Millisecond},
			map[string]string{
				"RateLimit-Policy": `"a";q=100;w=60`, "RateLimit": `"a";r=7;t=2`,
				"X-RateLimit-Limit": "100", "X-RateLimit-Remaining": "7", "X-RateLimit-Reset": "2",
			},
		},
		{
			"denied, without RateLimit", XRateLimit,
			sluice.Decision{Remaining: 3, RetryAfter: 12 * time.Second, ResetAfter: time.Minute},
			map[string]string{
				"Retry-After": "12", "X-RateLimit-Limit": "100", "X-RateLimit-Remaining": "3", "X-RateLimit-Reset": "60",
				"X-Ratelimit-Retry-After": "12",
			},
		},
		{
			"more than an Integer", all,
			sluice.Decision{Allowed: true, Remaining: maxInteger + 1},
			map[string]string{
				"RateLimit-Policy": `"a";q=100;w=60`, "RateLimit": `"a";r=999999999999999;t=0`,
				"X-RateLimit-Limit": "100", "X-RateLimit-Remaining": "1000000000000000", "X-RateLimit-Reset": "0",
			},
		},
		{
			"less than nothing", all,
			sluice.Decision{Allowed: true, Remaining: -1, ResetAfter: -1},
			map[string]string{
				"RateLimit-Policy": `"a";q=100;w=60`, "RateLimit": `"a";r=0;t=0`,
				"X-RateLimit-Limit": "100", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "0",
			},
		},
		{"none", NoFields, sluice.Decision{Allowed: true, Remaining: 1}, map[string]string{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := plan(t, "a: 100/min")
			h := http.Header{}
			c.fields.Set(h, terms(p), p.Term(0), c.d)
			for key, want := range c.want {
				if got := h[key]; len(got) != 1 || got[0] != want {
					t.Errorf("%s: got %q, want %q", key, got, want)
				}
			}
			if len(h) != len(c.want) {
				t.Errorf("got the fields %v, want %d", h, len(c.want))
			}
		})
	}
}

func TestEpochAfter(t *testing.T) {
	at := func(ns int64) time.Time { return time.Unix(1_700_000_000, ns) }
	for _, c := range []struct {
		now  time.Time
		d    time.Duration
		want int64
	}{
		{at(0), 0, 1_700_000_000},
		{at(1), 0, 1_700_000_001},
		{at(0), time.Minute, 1_700_000_060},
		{at(500_000_000), 500 * time.Millisecond, 1_700_000_001},
		{at(0), time.Nanosecond, 1_700_000_001},
		{at(0), -time.Second, 1_700_000_000},
	} {
		if got := epochAfter(c.now, c.d); got != c.want {
			t.Errorf("epochAfter(%v, %v) = %d, want %d", c.now, c.d, got, c.want)
		}
	}
}

// Values set by an outer limiter stay, and later values do not overwrite them.
func TestSetFieldsAddsToLists(t *testing.T) {
	p := plan(t, "a: 100/min")
	h := http.Header{}
	for range 2 {
		Draft11.Set(h, terms(p), p.Term(0), sluice.Decision{Allowed: true, Remaining: 5})
	}
	for _, key := range []string{fieldRateLimit, fieldPolicy} {
		if got := h[key]; len(got) != 2 || got[0] != got[1] {
			t.Errorf("%s: got %q, want two equal lines", key, got)
		}
		got := h[key]
		if got = append(got, "x"); len(got) != 3 || h[fieldPolicy][0] != policiesOf(terms(p)) {
			t.Errorf("appending to %s changed RateLimit-Policy to %q", key, h[fieldPolicy])
		}
	}
}

// A response has the fields of its own decision, whatever the last decision was.
func TestFieldsAfterOthers(t *testing.T) {
	p := plan(t, "a: 100/min", "b: 3/s burst 2")
	var of []*limitItem
	for i := range p.Len() {
		of = append(of, &limitItem{head: headOf(p.Term(i)), full: fullOf(p.Term(i))})
	}
	second := rapid.Custom(func(t *rapid.T) time.Duration {
		return time.Duration(rapid.Int64Range(-1, 4).Draw(t, "halves")) * time.Second / 2
	})
	rapid.Check(t, func(t *rapid.T) {
		var m memory
		for range 30 {
			f := rapid.SampledFrom([]Fields{Draft11, XRateLimit, Draft11 | XRateLimit, NoFields}).Draw(t, "fields")
			of := rapid.SampledFrom(of).Draw(t, "limit")
			d := sluice.Decision{
				Allowed: rapid.Bool().Draw(t, "allowed"), TooLarge: rapid.Bool().Draw(t, "too large"),
				Remaining:  rapid.SampledFrom([]int64{-1, 0, 1, maxInteger, maxInteger + 1}).Draw(t, "remaining"),
				RetryAfter: second.Draw(t, "retry after"), ResetAfter: second.Draw(t, "reset after"),
			}
			got, want := http.Header{}, http.Header{}
			f.set(got, &m, of, "p", &d)
			f.set(want, &memory{alone: true}, of, "p", &d)
			if !maps.EqualFunc(got, want, slices.Equal) {
				t.Fatalf("got %v, want %v", got, want)
			}
		}
	})
}
