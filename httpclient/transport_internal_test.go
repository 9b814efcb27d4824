// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httpclient

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/sluicegate/sluice"
)

func TestStatement(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name   string
		fields Fields
		status int
		lines  []string
		want   string // cached, wait, then "name/pk r t q w" of each item
	}{
		{"two limits", 0, 200, []string{`RateLimit-Policy: "a";q=10;w=1, "b";q=100;w=60`, `RateLimit: "b";r=7;t=30`}, `false 0s [a/ false 0 0s 10 1s] [b/ true 7 30s 100 1m0s]`},
		{"two lines", 0, 200, []string{`RateLimit: "a";r=1;t=1`, `RateLimit: "b";r=2;t=2`}, `false 0s [a/ true 1 1s 0 0s] [b/ true 2 2s 0 0s]`},
		{"token as name", 0, 200, []string{`RateLimit: a;r=1;t=1`}, `false 0s [a/ true 1 1s 0 0s]`},
		{"partitions", 0, 200, []string{`RateLimit: "a";r=1;t=1;pk=:QQ==:, "a";r=2;t=1;pk=:Qg==:`}, `false 0s [a/A true 1 1s 0 0s] [a/B true 2 1s 0 0s]`},
		{"window for t", 0, 200, []string{`RateLimit-Policy: "a";q=10;w=5`, `RateLimit: "a";r=1`}, `false 0s [a/ true 1 0s 10 5s]`},
		{"a burst of bytes", 0, 200, []string{`RateLimit-Policy: "a";q=10;w=5;qu="content-bytes";sluice-burst=1`, `RateLimit: "b";r=0;t=9`}, `false 0s [a/ false 0 0s 0 0s] [b/ true 0 9s 0 0s]`},
		{"bytes are not requests", 0, 200, []string{`RateLimit-Policy: "a";q=10;w=5;qu="content-bytes"`, `RateLimit: "a";r=0;t=9`}, `false 0s [a/ false 0 0s 0 0s]`},
		{"unknown parameters", 0, 200, []string{`RateLimit: "a";r=1;t=1;acme-x="y";z;n=1.5;d=@12;u=%"f%c3%bc"`}, `false 0s [a/ true 1 1s 0 0s]`},
		{"without r", 0, 200, []string{`RateLimit: "a";t=1`}, `false 0s`},
		{"r is no integer", 0, 200, []string{`RateLimit: "a";r=1.5;t=1`}, `false 0s`},
		{"negative r", 0, 200, []string{`RateLimit: "a";r=-1;t=1`}, `false 0s`},
		{"one fault voids all", 0, 200, []string{`RateLimit: "a";r=1;t=1, (b)`}, `false 0s`},
		{"draft 07", 0, 200, []string{`RateLimit: limit=10, remaining=5, reset=5`}, `false 0s`},
		{"a long name", 0, 200, []string{`RateLimit: "` + strings.Repeat("a", maxNameBytes+1) + `";r=1;t=1, "b";r=1;t=1`}, `false 0s [b/ true 1 1s 0 0s]`},
		{"too many", 0, 200, []string{"RateLimit: " + strings.Repeat(`"a";r=1;t=1, `, maxItems) + `"b";r=1;t=1`}, `false 0s`},
		{"too long", 0, 200, []string{`RateLimit: "` + strings.Repeat("a", maxFieldBytes) + `";r=1;t=1`}, `false 0s`},
		{"endless t", 0, 200, []string{`RateLimit: "a";r=1;t=999999999999999`}, `false 0s [a/ true 1 8784h0m0s 0 0s]`},
		{"from a cache", 0, 429, []string{"Age: 1", "Retry-After: 9", `RateLimit: "a";r=1;t=1`}, `true 0s`},
		{"age 0 is fresh", 0, 429, []string{"Age: 0", "Retry-After: 9"}, `false 9s`},
		{"success is not told to retry", 0, 201, []string{"Retry-After: 9"}, `false 0s`},
		{"Retry-After wins", 0, 429, []string{"Retry-After: 3", `RateLimit: "a";r=0;t=9`}, `false 3s [a/ true 0 9s 0 0s]`},
		{"endless", 0, 429, []string{"Retry-After: " + strings.Repeat("9", 400)}, `false 8784h0m0s`},
		{"a date", 0, 429, []string{"Retry-After: Fri, 01 May 2026 12:00:05 GMT"}, `false 5s`},
		{"a date gone by", 0, 429, []string{"Retry-After: Fri, 01 May 2026 11:00:00 GMT"}, `false 0s`},
		{"by the server's clock", 0, 429, []string{"Date: Fri, 01 May 2026 11:59:58 GMT", "Retry-After: Fri, 01 May 2026 12:00:05 GMT"}, `false 7s`},
		{"neither form", 0, 429, []string{"Retry-After: 2.0"}, `false 0s`},
		{"signed", 0, 429, []string{"Retry-After: +2"}, `false 0s`},
		{"not asked for", 0, 200, []string{"X-RateLimit-Remaining: 3", "X-RateLimit-Reset: 7"}, `false 0s`},
		{"from now", XRateLimit, 200, []string{"X-Ratelimit-Remaining: 3", "X-Ratelimit-Reset: 7"}, `false 0s [x-ratelimit/ true 3 7s 0 0s]`},
		{"since 1970", XRateLimitEpoch, 200, []string{"X-RateLimit-Remaining: 3", fmt.Sprint("X-RateLimit-Reset: ", now.Unix()+7)}, `false 0s [x-ratelimit/ true 3 7s 0 0s]`},
		{"twice", XRateLimit, 200, []string{"X-RateLimit-Remaining: 3", "X-RateLimit-Remaining: 4", "X-RateLimit-Reset: 7"}, `false 0s`},
		{"only Retry-After", NoFields, 429, []string{"Retry-After: 2", `RateLimit: "a";r=0;t=9`}, `false 2s`},
	} {
		t.Run(c.name, func(t *testing.T) {
			rt, err := NewTransport(TransportOptions{Fields: c.fields})
			if err != nil {
				t.Fatal(err)
			}
			h := http.Header{}
			for _, l := range c.lines {
				name, value, _ := strings.Cut(l, ": ")
				h[name] = append(h[name], value)
			}
			s := rt.statement(&http.Response{StatusCode: c.status, Header: h}, now)
			got := fmt.Sprint(s.cached, " ", s.wait)
			for _, it := range s.items {
				got += fmt.Sprintf(" [%s/%s %v %d %v %d %v]", it.name, it.partition, it.stated, it.left, it.span, it.quota, it.window)
			}
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestBudgetsAreBounded: the one not used for longest goes.
func TestBudgetsAreBounded(t *testing.T) {
	s := newBudgets(2, time.Minute)
	a, b := s.of("a", "h"), s.of("b", "h")
	if s.of("a", "h") != a {
		t.Error("a was not kept")
	}
	s.of("c", "h")
	if s.of("a", "h") != a || len(s.byKey) != 2 || s.used.Len() != 2 {
		t.Errorf("a was forgotten, or %d are kept; want a and c", len(s.byKey))
	}
	if s.of("b", "h") == b {
		t.Error("b was kept; want the one forgotten that was not used for longest")
	}
}

// upstream answers requests by a function.
type upstream func(*http.Request) http.Header

func (u upstream) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: u(r), Body: http.NoBody, Request: r}, nil
}

// TestMemoryIsBounded: whatever hosts and limits there are, and however their
// names change, no more is remembered than was said.
func TestMemoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 2)) // repeatable
		rt, err := NewTransport(TransportOptions{MaxBudgets: 8, Base: upstream(func(*http.Request) http.Header {
			var limits, policies []string
			for range r.IntN(12) {
				name := strings.Repeat("n", r.IntN(2*maxNameBytes)) + strconv.Itoa(r.IntN(1000))
				limits = append(limits, fmt.Sprintf(`"%s";r=%d;t=1`, name, 1000+r.IntN(1000)))
				policies = append(policies, fmt.Sprintf("%s;q=1000;w=1;pk=:QQ==:", name))
			}
			return http.Header{"Ratelimit": limits, "Ratelimit-Policy": policies}
		})})
		if err != nil {
			t.Fatal(err)
		}
		most := 0
		for i := range 2000 {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("http://h%d.test/", i%100/(1+i%7)), nil)
			if err != nil {
				t.Fatal(err)
			}
			res, err := rt.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			if err := res.Body.Close(); err != nil {
				t.Fatal(err)
			}
			if n := len(rt.budgets.byKey); n > 8 || rt.budgets.used.Len() != n {
				t.Fatalf("%d budgets of %d are remembered; want at most 8", rt.budgets.used.Len(), n)
			}
			for _, e := range rt.budgets.byKey {
				b := e.Value.(*budget) // nothing else is put in
				most = max(most, len(b.paces))
				if len(b.paces) > maxItems || cap(b.paces) > 4*maxItems {
					t.Fatalf("%d limits in room for %d are remembered; want at most %d", len(b.paces), cap(b.paces), maxItems)
				}
				for _, p := range b.paces {
					if len(p.name)+len(p.partition) > maxNameBytes || len(p.returns) > mostReturns {
						t.Fatalf("a name of %d bytes and %d instants are remembered", len(p.name), len(p.returns))
					}
				}
			}
		}
		if most < maxItems {
			t.Errorf("%d limits at most were remembered; want the bound tried", most)
		}
	})
}

// TestSpread: paces are in whole microseconds, and n of them are never less than
// the span.
func TestSpread(t *testing.T) {
	for _, c := range []struct {
		span time.Duration
		n    int64
		want time.Duration
	}{
		{time.Second, 10, 100 * time.Millisecond},
		{time.Second, 3, 333334 * time.Microsecond},
		{time.Minute, 65537, 916 * time.Microsecond},
		{time.Second, 1 << 62, time.Microsecond},
		{sluice.MaxWindow, 1<<63 - 1, time.Microsecond},
		{time.Second, 0, 0},
		{time.Second, -1, 0},
		{0, 5, 0},
	} {
		if got := spread(c.span, c.n); got != c.want {
			t.Errorf("%v of %d: got %v, want %v", c.span, c.n, got, c.want)
		}
	}
}

// TestFull: what a bucket's burst says of when it is full is more exact than t,
// unless the server says something else.
func TestFull(t *testing.T) {
	for _, c := range []struct {
		name               string
		burst, left, quota int64
		window, span, want time.Duration
	}{
		{"one of one", 1, 0, 10, time.Second, time.Second, 100 * time.Millisecond},
		{"two of three", 3, 1, 10, time.Second, time.Second, 200 * time.Millisecond},
		{"no unit lost", 3, 3, 10, time.Second, time.Second, time.Second},
		{"more than there can be", 3, 9, 10, time.Second, time.Second, time.Second},
		{"seconds", 25, 0, 10, time.Second, 3 * time.Second, 2500 * time.Millisecond},
		{"the server says longer", 25, 0, 10, time.Second, 4 * time.Second, 4 * time.Second},
		{"the server says less", 25, 0, 10, time.Second, time.Second, time.Second},
		{"no burst", 0, 0, 10, time.Second, time.Second, time.Second},
		{"no window", 1, 0, 0, 0, time.Second, time.Second},
		{"huge", 1 << 62, 0, 1, sluice.MaxWindow, time.Second, time.Second},
	} {
		p := pace{burst: c.burst, quota: c.quota, window: c.window}
		if got := p.full(c.span, c.left); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

// TestLateAnswers: what a late answer says can only tighten.
func TestLateAnswers(t *testing.T) {
	now := time.Unix(1000, 0)
	b := newBudget("k", "h", time.Minute)
	b.spend(now)
	b.spend(now)
	say := func(left int64) statement {
		return statement{at: now, items: []item{{identity: identity{name: "a"}, stated: true, left: left, span: time.Second}}}
	}
	b.answered(2, say(3))
	if got := b.paces[0].left; got != 2 {
		t.Errorf("left is %d; want 2 of 3, as one request is in flight", got)
	}
	b.answered(1, say(9))
	if got := b.paces[0].left; got != 2 {
		t.Errorf("left is %d after a late answer; want 2", got)
	}
	if b.inFlight != 0 {
		t.Errorf("%d in flight; want 0", b.inFlight)
	}
}

// TestHoldOfAnswersInFlight: of answers to requests sent before the first denial
// was known, none makes the wait shorter; one to a later request does.
func TestHoldOfAnswersInFlight(t *testing.T) {
	now := time.Unix(1000, 0)
	b := newBudget("k", "h", time.Minute)
	for range 4 {
		b.spend(now)
	}
	for i, c := range []struct {
		s    statement
		want time.Duration // of the wait, from now
	}{
		{statement{denied: true, wait: 30 * time.Second}, 30 * time.Second},
		{statement{denied: true, wait: 10 * time.Second}, 30 * time.Second},
		{statement{}, 30 * time.Second},
		{statement{denied: true, wait: 40 * time.Second}, 40 * time.Second},
		{statement{denied: true, wait: 20 * time.Second}, 20 * time.Second},
		{statement{denied: true}, 20 * time.Second},
		{statement{}, 0},
	} {
		if i >= 4 {
			b.spend(now)
		}
		c.s.at = now
		b.answered(uint64(i+1), c.s)
		if got := max(b.hold.Sub(now), 0); got != c.want {
			t.Errorf("after answer %d: held back for %v; want %v", i+1, got, c.want)
		}
	}
}

// TestReturnsAreBounded: units come back late rather than early, and all do.
func TestReturnsAreBounded(t *testing.T) {
	const n = 10 * mostReturns
	start := time.Unix(1000, 0)
	var r returns
	for i := range n {
		r.add(start.Add(time.Duration((i*7)%n) * time.Second)) // in no order
		if len(r) > mostReturns {
			t.Fatalf("%d instants are remembered; want at most %d", len(r), mostReturns)
		}
	}
	var back int64
	for i := range int64(n) {
		if back += r.take(start.Add(time.Duration(i) * time.Second)); back > i+1 {
			t.Fatalf("after %d s %d units are back; want at most %d", i, back, i+1)
		}
	}
	if back != n {
		t.Errorf("%d units came back; want %d", back, n)
	}
}

// FuzzList: whatever is read is what another reader of RFC 9651 reads.
func FuzzList(f *testing.F) {
	for _, seed := range []string{
		``, `"a";r=1;t=2`, `"a";r=1, "b";r=2`, `a;q=1;w=60;pk=:QQ:`, `"a\"\\";x=?1;y=-1.5;z`, `"a";d=@12;u=%"f%c3%bc"`,
		`"a",`, `("a" "b")`, `"a";r=1000000000000000`, `"a"; r=1`, "\"a\"\t,\t\"b\"", `*x;*y=*z`, `"a";pk=:Q===:`, `"a";r=-`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parseList([]string{text})
		if err != nil {
			return
		}
		if len(got) > maxItems {
			t.Fatalf("%d members", len(got))
		}
		if len(got) == 0 {
			return
		}
		want, err := httpsfv.UnmarshalList([]string{text})
		if err != nil && strings.Contains(err.Error(), "base64") {
			return // it insists on padding, which RFC 9651 says a reader should not
		}
		if err != nil {
			t.Fatalf("%q was read, but: %v", text, err)
		}
		if len(got) != len(want) {
			t.Fatalf("%q: got %d members; want %d", text, len(got), len(want))
		}
		for i, m := range got {
			w, ok := want[i].(httpsfv.Item)
			if !ok {
				t.Fatalf("%q: member %d is no item", text, i)
			}
			if name := fmt.Sprint(w.Value); name != m.name {
				t.Errorf("%q: got the name %q; want %q", text, m.name, name)
			}
			if len(m.params) != len(w.Params.Names()) {
				t.Errorf("%q: got %d parameters; want %v", text, len(m.params), w.Params.Names())
			}
			for _, p := range m.params {
				v, ok := w.Params.Get(p.key)
				if !ok {
					t.Errorf("%q: parameter %q is not there", text, p.key)
				}
				if n, isInt := v.(int64); isInt != (p.kind == 'i') || n != p.num {
					t.Errorf("%q: got %s=%d; want %v", text, p.key, p.num, v)
				}
			}
		}
	})
}

// FuzzStatement: no field makes a client wait for longer than is believed, or
// remember more than a few limits.
func FuzzStatement(f *testing.F) {
	f.Add("9", "Fri, 01 May 2026 11:59:58 GMT", `"a";q=10;w=1`, `"a";r=1;t=1`, "3", "7")
	f.Add("Fri, 01 May 2026 12:00:05 GMT", "", `"a";q=0;w=0`, `"a";r=0;t=999999999999999`, "-1", "99999999999999999999")
	f.Add("99999999999999999999", "x", `"a";q=999999999999999;w=999999999999999`, `"b";r=999999999999999;t=1`, "9223372036854775807", "9223372036854775807")
	rt, err := NewTransport(TransportOptions{Fields: Draft11 | XRateLimit})
	if err != nil {
		f.Fatal(err)
	}
	epoch, err := NewTransport(TransportOptions{Fields: Draft11 | XRateLimitEpoch})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, retry, date, policy, limit, left, reset string) {
		now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
		h := http.Header{
			"Retry-After": {retry}, "Date": {date}, "Ratelimit-Policy": {policy}, "Ratelimit": {limit},
			"X-Ratelimit-Remaining": {left}, "X-Ratelimit-Reset": {reset},
		}
		for _, rt := range []*Transport{rt, epoch} {
			const maxHold = time.Minute
			b := newBudget("k", "h", maxHold)
			for _, status := range []int{200, 429, 200} {
				b.spend(now)
				s := rt.statement(&http.Response{StatusCode: status, Header: h}, now)
				b.answered(b.sent, s)
				if len(b.paces) > 2*maxItems+1 {
					t.Fatalf("%d limits are remembered", len(b.paces))
				}
				at, known := b.next(now)
				if !known {
					t.Fatal("waits for an answer, but none is due")
				}
				if at.Sub(now) > maxHold {
					t.Fatalf("waits for %v", at.Sub(now))
				}
				for _, p := range b.paces {
					if p.left < 0 || p.every < 0 || p.span < 0 || len(p.returns) > mostReturns {
						t.Fatalf("got %+v", p)
					}
				}
			}
		}
	})
}
