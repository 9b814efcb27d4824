// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httpclient

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
)

func TestStatement(t *testing.T) {
	all, noX, onlyX := TransportOptions{}, TransportOptions{IgnoreXRateLimit: true}, TransportOptions{IgnoreRateLimit: true}
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name   string
		ignore TransportOptions
		status int
		lines  []string
		want   string // cached, wait, then "name/pk r t q w" of each item
	}{
		{"two limits", all, 200, []string{`RateLimit-Policy: "a";q=10;w=1, "b";q=100;w=60`, `RateLimit: "b";r=7;t=30`}, `false 0s [a/ false 0 0s 10 1s] [b/ true 7 30s 100 1m0s]`},
		{"two lines", all, 200, []string{`RateLimit: "a";r=1;t=1`, `RateLimit: "b";r=2;t=2`}, `false 0s [a/ true 1 1s 0 0s] [b/ true 2 2s 0 0s]`},
		{"token as name", all, 200, []string{`RateLimit: a;r=1;t=1`}, `false 0s [a/ true 1 1s 0 0s]`},
		{"partitions", all, 200, []string{`RateLimit: "a";r=1;t=1;pk=:QQ==:, "a";r=2;t=1;pk=:Qg==:`}, `false 0s [a/A true 1 1s 0 0s] [a/B true 2 1s 0 0s]`},
		{"window for t", all, 200, []string{`RateLimit-Policy: "a";q=10;w=5`, `RateLimit: "a";r=1`}, `false 0s [a/ true 1 0s 10 5s]`},
		{"a burst of bytes", all, 200, []string{`RateLimit-Policy: "a";q=10;w=5;qu="content-bytes";sluice-burst=1`, `RateLimit: "b";r=0;t=9`}, `false 0s [a/ false 0 0s 0 0s] [b/ true 0 9s 0 0s]`},
		{"bytes are not requests", all, 200, []string{`RateLimit-Policy: "a";q=10;w=5;qu="content-bytes"`, `RateLimit: "a";r=0;t=9`}, `false 0s [a/ false 0 0s 0 0s]`},
		{"unknown parameters", all, 200, []string{`RateLimit: "a";r=1;t=1;acme-x="y";z;n=1.5;d=@12;u=%"f%c3%bc"`}, `false 0s [a/ true 1 1s 0 0s]`},
		{"without r", all, 200, []string{`RateLimit: "a";t=1`}, `false 0s`},
		{"r is no integer", all, 200, []string{`RateLimit: "a";r=1.5;t=1`}, `false 0s`},
		{"negative r", all, 200, []string{`RateLimit: "a";r=-1;t=1`}, `false 0s`},
		{"one fault voids all", all, 200, []string{`RateLimit: "a";r=1;t=1, (b)`}, `false 0s`},
		{"draft 07", all, 200, []string{"RateLimit-Policy: 10;w=60", "RateLimit: limit=10, remaining=5, reset=7"}, `false 0s [ratelimit/ true 5 7s 0 0s]`},
		{"draft 07, in another order", all, 200, []string{"RateLimit: reset=7,remaining=5"}, `false 0s [ratelimit/ true 5 7s 0 0s]`},
		{"draft 07, half of it", all, 200, []string{"RateLimit: limit=10, remaining=5"}, `false 0s`},
		{"draft 06", all, 200, []string{"RateLimit-Policy: 10;w=60", "RateLimit-Limit: 10", "RateLimit-Remaining: 5", "RateLimit-Reset: 7"}, `false 0s [ratelimit/ true 5 7s 0 0s]`},
		{"draft 03", all, 200, []string{"RateLimit-Limit: 10, 10;w=60", "Ratelimit-Remaining: 5", "Ratelimit-Reset: 7"}, `false 0s [ratelimit/ true 5 7s 0 0s]`},
		{"draft 03, denied", all, 429, []string{"RateLimit-Remaining: 0", "RateLimit-Reset: 7"}, `false 7s [ratelimit/ true 0 7s 0 0s]`},
		{"the most exact of several", all, 200, []string{`RateLimit: "a";r=1;t=2`, "RateLimit-Remaining: 3", "RateLimit-Reset: 4", "X-RateLimit-Remaining: 5", "X-RateLimit-Reset: 6"}, `false 0s [a/ true 1 2s 0 0s]`},
		{"the more exact of two", all, 200, []string{"RateLimit-Remaining: 3", "RateLimit-Reset: 4", "X-RateLimit-Remaining: 5", "X-RateLimit-Reset: 6"}, `false 0s [ratelimit/ true 3 4s 0 0s]`},
		{"a policy, and what is left elsewhere", all, 200, []string{`RateLimit-Policy: "a";q=10;w=60`, "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 60"}, `false 0s [a/ false 0 0s 10 1m0s] [ratelimit/ true 0 1m0s 0 0s]`},
		{"a policy, and what is left of draft 06", all, 429, []string{`RateLimit-Policy: "a";q=10;w=60`, "RateLimit-Remaining: 0", "RateLimit-Reset: 6", "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 60"}, `false 6s [a/ false 0 0s 10 1m0s] [ratelimit/ true 0 6s 0 0s]`},
		{"a policy of bytes, and what is left of them", all, 200, []string{`RateLimit-Policy: "a";q=10;w=60;qu="content-bytes"`, "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 60"}, `false 0s [a/ false 0 0s 0 0s]`},
		{"a limit without a time, and X-RateLimit", all, 200, []string{`RateLimit: "a";r=0`, "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 60"}, `false 0s [a/ false 0 0s 0 0s] [ratelimit/ true 0 1m0s 0 0s]`},
		{"a long name", all, 200, []string{`RateLimit: "` + strings.Repeat("a", 513) + `";r=1;t=1, "b";r=1;t=1`}, `false 0s [b/ true 1 1s 0 0s]`},
		{"too many", all, 200, []string{"RateLimit: " + strings.Repeat(`"a";r=1;t=1, `, 16) + `"b";r=1;t=1`}, `false 0s`},
		{"too long", all, 200, []string{`RateLimit: "` + strings.Repeat("a", 8<<10) + `";r=1;t=1`}, `false 0s`},
		{"endless t", all, 200, []string{`RateLimit: "a";r=1;t=999999999999999`}, `false 0s [a/ true 1 8784h0m0s 0 0s]`},
		{"from a cache", all, 200, []string{"Age: 1", "Retry-After: 9", `RateLimit: "a";r=1;t=1`}, `true 0s`},
		{"from a cache, denied", all, 429, []string{"Age: 1", "Retry-After: 9", `RateLimit: "a";r=1;t=1`}, `false 8s`},
		{"from a cache, unavailable", all, 503, []string{"Age: 2", "Retry-After: Fri, 01 May 2026 12:00:05 GMT", "Date: Fri, 01 May 2026 11:59:58 GMT"}, `false 5s`},
		{"from a cache, a failure", all, 404, []string{"Age: 2", "Retry-After: 9", "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 9"}, `true 0s`},
		{"from a cache, too old", all, 429, []string{"Age: 100", "Retry-After: 9"}, `false 0s`},
		{"from a cache, with nothing left", all, 429, []string{"Age: 1", `RateLimit: "a";r=0;t=9`}, `false 0s`},
		{"several, the longest", all, 429, []string{"Retry-After: 1", "Retry-After: 60", "Retry-After: 2"}, `false 1m0s`},
		{"several, of both forms", all, 429, []string{"Retry-After: Fri, 01 May 2026 12:00:05 GMT", "Retry-After: 2", "Retry-After: x"}, `false 5s`},
		{"age 0 is fresh", all, 429, []string{"Age: 0", "Retry-After: 9"}, `false 9s`},
		{"success asks for no retry", all, 201, []string{"Retry-After: 9"}, `false 0s`},
		{"Retry-After wins", all, 429, []string{"Retry-After: 3", `RateLimit: "a";r=0;t=9`}, `false 3s [a/ true 0 9s 0 0s]`},
		{"endless", all, 429, []string{"Retry-After: " + strings.Repeat("9", 400)}, `false 8784h0m0s`},
		{"a date", all, 429, []string{"Retry-After: Fri, 01 May 2026 12:00:05 GMT"}, `false 5s`},
		{"a date gone by", all, 429, []string{"Retry-After: Fri, 01 May 2026 11:00:00 GMT"}, `false 0s`},
		{"by the server's clock", all, 429, []string{"Date: Fri, 01 May 2026 11:59:58 GMT", "Retry-After: Fri, 01 May 2026 12:00:05 GMT"}, `false 7s`},
		{"decimals", all, 429, []string{"Retry-After: 2.0"}, `false 2s`},
		{"less than a second", all, 429, []string{"Retry-After: 0.9"}, `false 900ms`},
		{"of a failure", all, 403, []string{"Retry-After: 60"}, `false 1m0s`},
		{"of a redirect", all, 302, []string{"Retry-After: 3"}, `false 3s`},
		{"neither form", all, 429, []string{"Retry-After: 2.0.1"}, `false 0s`},
		{"signed", all, 429, []string{"Retry-After: +2"}, `false 0s`},
		{"in an exponent", all, 429, []string{"Retry-After: 1e9"}, `false 0s`},
		{"not asked for", noX, 200, []string{"X-RateLimit-Remaining: 3", "X-RateLimit-Reset: 7"}, `false 0s`},
		{"nor this", onlyX, 200, []string{`RateLimit: "a";r=1;t=2`, "RateLimit-Remaining: 3", "RateLimit-Reset: 7"}, `false 0s`},
		{"from now", all, 200, []string{"X-Ratelimit-Remaining: 3", "X-Ratelimit-Reset: 7"}, `false 0s [ratelimit/ true 3 7s 0 0s]`},
		{"decimals, as Reddit sends", all, 200, []string{"X-Ratelimit-Remaining: 99.0", "X-Ratelimit-Reset: 7"}, `false 0s [ratelimit/ true 99 7s 0 0s]`},
		{"since 1970", all, 200, []string{"X-RateLimit-Remaining: 3", fmt.Sprint("X-RateLimit-Reset: ", now.Unix()+7)}, `false 0s [ratelimit/ true 3 7s 0 0s]`},
		{"since 1970, by the server's clock", all, 200, []string{"Date: Fri, 01 May 2026 11:59:58 GMT", "X-RateLimit-Remaining: 3", fmt.Sprint("X-RateLimit-Reset: ", now.Unix()+7)}, `false 0s [ratelimit/ true 3 9s 0 0s]`},
		{"decimals since 1970, as Discord sends", all, 200, []string{"X-RateLimit-Remaining: 3", fmt.Sprintf("X-RateLimit-Reset: %d.500", now.Unix()+7)}, `false 0s [ratelimit/ true 3 7.5s 0 0s]`},
		{"milliseconds since 1970", all, 200, []string{"X-RateLimit-Remaining: 3", fmt.Sprint("X-RateLimit-Reset: ", now.UnixMilli()+7500)}, `false 0s [ratelimit/ true 3 7.5s 0 0s]`},
		{"gone by", all, 200, []string{"X-RateLimit-Remaining: 0", fmt.Sprint("X-RateLimit-Reset: ", now.Unix()-7)}, `false 0s`},
		{"GitHub, without Retry-After", all, 403, []string{"X-RateLimit-Remaining: 0", fmt.Sprint("X-RateLimit-Reset: ", now.Unix()+7)}, `false 0s [ratelimit/ true 0 7s 0 0s]`},
		{"twice", onlyX, 200, []string{"X-RateLimit-Remaining: 3", "X-RateLimit-Remaining: 4", "X-RateLimit-Reset: 7"}, `false 0s`},
		{"only Retry-After", TransportOptions{IgnoreRateLimit: true, IgnoreXRateLimit: true}, 429, []string{"Retry-After: 2", `RateLimit: "a";r=0;t=9`, "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 9"}, `false 2s`},
	} {
		t.Run(c.name, func(t *testing.T) {
			rt, err := NewTransport(c.ignore)
			if err != nil {
				t.Fatal(err)
			}
			h := http.Header{}
			for _, l := range c.lines {
				name, value, _ := strings.Cut(l, ": ")
				h[name] = append(h[name], value)
			}
			s := rt.statement(&http.Response{StatusCode: c.status, Header: h}, now)
			got := fmt.Sprint(s.Cached, " ", s.Wait)
			for _, it := range s.Items {
				got += fmt.Sprintf(" [%s/%s %v %d %v %d %v]", it.Name, it.Partition, it.Stated, it.Left, it.Span, it.Quota, it.Window)
			}
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// FuzzStatement: no field states a wait above the bound, or more than a few limits.
func FuzzStatement(f *testing.F) {
	f.Add("9", "Fri, 01 May 2026 11:59:58 GMT", `"a";q=10;w=1`, `"a";r=1;t=1`, "3", "7")
	f.Add("Fri, 01 May 2026 12:00:05 GMT", "", `"a";q=0;w=0`, `"a";r=0;t=999999999999999`, "-1", "99999999999999999999")
	f.Add("99999999999999999999", "x", `"a";q=999999999999999;w=999999999999999`, `"b";r=999999999999999;t=1`, "9223372036854775807", "9223372036854775807")
	f.Add("0.9", "Mon, 01 Jan 0001 00:00:00 GMT", "10;w=60", "limit=10, remaining=0, reset=1790000000", "0.5", "1790000000.5")
	f.Add("1e9", "", "", "remaining=NaN, reset=-1", "Infinity", "1790000000000")
	var all []*Transport
	for _, o := range []TransportOptions{{IgnoreXRateLimit: true}, {IgnoreRateLimit: true}, {}} {
		rt, err := NewTransport(o)
		if err != nil {
			f.Fatal(err)
		}
		all = append(all, rt)
	}
	f.Fuzz(func(t *testing.T, retry, date, policy, limit, left, reset string) {
		now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
		h := http.Header{
			"Retry-After": {retry}, "Date": {date}, "Ratelimit-Policy": {policy}, "Ratelimit": {limit},
			"Ratelimit-Remaining": {left}, "Ratelimit-Reset": {reset},
			"X-Ratelimit-Remaining": {left}, "X-Ratelimit-Reset": {reset},
		}
		for _, rt := range all {
			for _, status := range []int{200, 302, 403, 429} {
				s := rt.statement(&http.Response{StatusCode: status, Header: h}, now)
				if s.Wait < 0 || s.Wait > sluice.MaxWindow || status == 200 && s.Wait > 0 {
					t.Fatalf("%d waits for %v", status, s.Wait)
				}
				if len(s.Items) > 33 {
					t.Fatalf("%d limits are read", len(s.Items))
				}
				for _, it := range s.Items {
					if it.Left < 0 || it.Span < 0 || it.Span > sluice.MaxWindow {
						t.Fatalf("got %+v", it)
					}
				}
			}
		}
	})
}
