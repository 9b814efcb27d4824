// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit_test

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/profile"
)

var update = flag.Bool("update", false, "rewrite the expected answers")

// wireCase is rules and requests, one on a line: METHOD PATH, then fields separated by |. A
// line that begins with + is a time that passes before.
type wireCase struct {
	name, rules string
	options     httplimit.Options
	next        http.HandlerFunc
	ask         []string
}

// three are an allowed request and, under a limit of 1, two denied ones.
var three = []string{"GET /", "GET /", "+7s HEAD /"}

func wireCases(t *testing.T) []wireCase {
	t.Helper()
	down := testkit.Failing(errDown)
	all := []wireCase{
		{name: "bucket", rules: "- {name: a, by: ip, limits: 10/min burst 2}", ask: []string{"GET /", "GET /", "GET /", "+1500ms GET /"}},
		{name: "fixed", rules: "- {name: a, by: ip, limits: 1/h fixed-window}", ask: three},
		{name: "calendar", rules: "- {name: a, by: ip, limits: 1/month fixed-window calendar UTC}", ask: three},
		{name: "log", rules: "- {name: a, by: ip, limits: 1/min sliding-log}", ask: three},
		{name: "counter", rules: "- {name: a, by: ip, limits: 1/min sliding-counter}", ask: three},
		{name: "bytes", rules: "- {name: a, by: ip, cost: request-bytes, limits: 100B/min}", ask: []string{"POST / | Content-Length: 30", "POST / | Content-Length: 90", "POST / | Content-Length: 900"}},
		{name: "too large", rules: "- {name: a, by: ip, cost: {request_header: X-Cost, most: 1000}, limits: 10/min}", ask: []string{"GET / | X-Cost: 11", "GET / | X-Cost: 3"}},
		{name: "two limits", rules: "- {name: a, by: ip, limits: [2/min, 1/s]}", ask: []string{"GET /", "GET /", "+2s GET /", "+2s GET /"}},
		{name: "two rules", rules: "- {name: a, by: ip, limits: 1/min}\n- {name: b, limits: 3/h, status: 503}", ask: []string{"GET /", "GET /", "+2m GET /", "+2m GET /", "+2m GET /"}},
		{name: "levels", rules: "- {name: a, levels: [{name: org, by: header.X-Org, limits: 2/min}, {name: user, by: [header.X-Org, ip], limits: 1/min}]}", ask: []string{"GET / | X-Org: x", "GET / | X-Org: x", "GET /"}},
		{name: "block", rules: "- {name: a, by: ip, limits: 1/min, block: 1h after 2 denials/h}", ask: []string{"GET /", "GET /", "GET /", "GET /"}},
		{name: "soft", rules: "- {name: a, by: ip, limits: {soft: 1/min, grace: 2/h}}", ask: []string{"GET /", "GET /", "GET /", "GET /"}},
		{name: "shadow", rules: "- {name: a, by: ip, mode: shadow, limits: 1/min}", ask: []string{"GET /", "GET /"}},
		{name: "tiers", rules: "- {name: a, by: ip, limits: 1/min, tiers: {by: header.X-Plan, limits: {free: 2/min, vip: none}}}", ask: []string{"GET / | X-Plan: vip", "GET / | X-Plan: free", "GET /", "GET /"}},
		{name: "queue", rules: "- {name: a, by: ip, limits: 1/s leaky-bucket, max_wait: 1s}", ask: []string{"GET /", "GET /"}},
		{name: "status", rules: "- {name: a, by: ip, limits: 1/min, status: 403}", ask: three},
		{name: "missing", rules: "- {name: a, by: header.X-User, missing: refuse, limits: 1/min}", ask: []string{"GET /", "GET / | X-User: x", "GET / | X-User: x"}},
		{name: "in flight", rules: "- {name: a, by: ip, in_flight: 1}", ask: []string{"GET /nested"}},
		{name: "in flight and units", rules: "- {name: a, by: ip, in_flight: 2, limits: 2/min}", ask: []string{"GET /nested", "GET /"}},
		{name: "counts responses", rules: "- {name: a, by: ip, limits: 1/min, when: {response: 404}}", ask: []string{"GET /missing", "GET /"}},
		{name: "long name", rules: "- {name: " + strings.Repeat("a-long-name.", 5) + ", by: ip, limits: [1/min, 1000000000/h, 100000000000/day]}", ask: three},
		{name: "none", rules: "- {name: a, match: {path: /x}, by: ip, limits: 1/min}", ask: three[:1]},
		{name: "not let in", rules: "- {name: a, by: ip, limits: 1/min}", options: httplimit.Options{Deny: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}, ask: three[:1]},
		{name: "two targets", rules: "- {name: a, by: ip, limits: 1/min}", ask: []string{"GET x:y"}},
		{name: "token", rules: "- {name: a, by: claim.sub, limits: 1/min}", options: httplimit.Options{TokenRequired: true}, ask: three[:1]},
		{name: "fails open", rules: "- {name: a, by: ip, limits: 1/min}", options: httplimit.Options{Store: down}, ask: three[:1]},
		{name: "fails closed", rules: "- {name: a, by: ip, limits: 1/min, failure: closed}", options: httplimit.Options{Store: down}, ask: three[:1]},
		{name: "answer", rules: `- {name: a, by: ip, limits: [1/min, "day: 2/day"], answer: {status: 503, content_type: text/plain, body: "{detail}, {rule} {name} {limit} {used} {reset_date} {status}", fields: {X-Left: "{remaining}", ratelimit: "{day.remaining}", Retry-after: "{retry_after}.0"}, denied: {X-Retry: "{retry_after_ms}"}, limits: {day: {body: "tomorrow"}}}}`, ask: []string{"GET /", "GET /", "+1m GET /", "+1m GET /"}},
		{name: "answer, in flight", rules: `- {name: a, by: ip, in_flight: 1, answer: {content_type: application/json, body: '{"a": "{detail}"}', fields: {X-Left: "{remaining}"}}}`, ask: []string{"GET /nested"}},
		{name: "own answer", rules: "- {name: a, by: ip, limits: 1/min}", ask: three, options: httplimit.Options{Refuse: func(w http.ResponseWriter, _ *http.Request, e httplimit.Event) {
			w.Header().Add("Retry-After", "later")
			http.Error(w, strings.Join(e.Violated, " "), e.Status)
		}}},
		{name: "the handler's fields", rules: "- {name: a, by: ip, limits: 5/min}", ask: three[:2], next: func(w http.ResponseWriter, _ *http.Request) {
			for _, name := range []string{"RateLimit", "Ratelimit-Policy", "X-Ratelimit-Limit", "X-RateLimit-Reset", "Retry-After"} {
				w.Header()[name] = append(w.Header()[name], "its own")
			}
			w.WriteHeader(http.StatusAccepted)
		}},
	}
	inner := newMiddleware(t, httplimit.Options{
		Store: memstore.New(memstore.Options{}), Policy: rules(t, "  - {name: inner, by: ip, limits: 2/min}"), Fields: httplimit.Draft11 | httplimit.XRateLimitEpoch,
	})
	all = append(all, wireCase{name: "around another", rules: "- {name: outer, by: ip, limits: 3/min}", next: inner.Wrap(ok).ServeHTTP, ask: []string{"GET /", "GET /", "GET /", "GET /"}})
	for i := range all {
		if all[i].options.Fields == 0 {
			all[i].options.Fields = httplimit.Draft11 | httplimit.XRateLimit
		}
	}
	for _, fields := range []httplimit.Fields{httplimit.Draft11, httplimit.XRateLimit, httplimit.XRateLimitEpoch, httplimit.Draft11 | httplimit.XRateLimitEpoch, httplimit.NoFields} {
		all = append(all, wireCase{name: fmt.Sprintf("fields %b", fields), rules: "- {name: a, by: ip, limits: [1/min, 5/h]}", options: httplimit.Options{Fields: fields}, ask: three})
	}
	for _, p := range profile.All() {
		full := int64(1 << 40)
		for i := range p.Limits {
			full = min(full, max(p.Limits[i].Filled().Quota, p.Limits[i].Filled().Burst))
		}
		ask := []string{"GET /", fmt.Sprintf("GET / | X-Cost: %d", full-1), fmt.Sprintf("GET / | X-Cost: %d", max(full/2, 1))}
		all = append(all, wireCase{name: "like " + p.Name, rules: "- {name: a, by: ip, cost: {request_header: X-Cost, most: 1000000}, like: " + p.Name + "}", options: httplimit.Options{Fields: httplimit.XRateLimit}, ask: ask})
	}
	return all
}

// TestAnswersOnTheWire: the bytes that clients read are those in testdata, for every kind of
// rule, family of fields, verdict and platform. The bubble's clock begins with the year 2000.
func TestAnswersOnTheWire(t *testing.T) {
	const golden = "../../httplimit/testdata/answers.txt"
	var got bytes.Buffer
	for _, c := range wireCases(t) {
		synctest.Test(t, func(t *testing.T) {
			fmt.Fprintf(&got, "=== %s\n", c.name)
			c.play(t, &got)
		})
	}
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	gots, wants := strings.Split(got.String(), "=== "), strings.Split(string(want), "=== ")
	for i := range gots {
		if i >= len(wants) || gots[i] != wants[i] {
			t.Errorf("got %s\nwant %s", gots[i], wants[min(i, len(wants)-1)])
		}
	}
	if len(gots) != len(wants) {
		t.Errorf("%d cases, want %d; write them with -update", len(gots), len(wants))
	}
}

// play writes the answers to the requests of a case, without the date.
func (c *wireCase) play(t *testing.T, to io.Writer) {
	t.Helper()
	o := c.options
	o.Policy = rules(t, c.rules)
	if o.Store == nil {
		o.Store = memstore.New(memstore.Options{})
	}
	o.OnError = func(*http.Request, error) {} // clients do not see it
	l := testkit.NewPipes()
	mux := http.NewServeMux()
	mux.Handle("/", ok)
	mux.HandleFunc("/missing", http.NotFound)
	mux.HandleFunc("/nested", func(w http.ResponseWriter, _ *http.Request) {
		write(t, w, "inside:\n"+askOver(t, l, "GET /"))
	})
	next := http.Handler(mux)
	if c.next != nil {
		next = c.next
	}
	srv := &http.Server{Handler: newMiddleware(t, o).Wrap(next)}
	served := make(chan error)
	go func() { served <- srv.Serve(l) }()
	for _, line := range c.ask {
		if rest, waits := strings.CutPrefix(line, "+"); waits {
			wait, request, _ := strings.Cut(rest, " ")
			d, err := time.ParseDuration(wait)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(d)
			line = request
		}
		write(t, to, "--- "+line+"\n"+askOver(t, l, line))
	}
	if err := srv.Close(); err != nil {
		t.Error(err)
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
	synctest.Wait()
}

// askOver returns the answer to a request, whose lines end with \n.
func askOver(t *testing.T, l *testkit.Pipes, line string) string {
	t.Helper()
	client := l.Connect("192.0.2.1")
	defer func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}()
	parts := strings.Split(line, " | ")
	text := parts[0] + " HTTP/1.1\r\nHost: h\r\n"
	length := 0
	for _, field := range parts[1:] {
		text += field + "\r\n"
		if n, ok := strings.CutPrefix(field, "Content-Length: "); ok {
			length, _ = strconv.Atoi(n)
		}
	}
	written := make(chan struct{})
	go func() {
		defer close(written)
		write(t, client, text+"\r\n"+strings.Repeat("x", length))
	}()
	var raw bytes.Buffer
	method, _, _ := strings.Cut(line, " ")
	resp, err := http.ReadResponse(bufio.NewReader(io.TeeReader(client, &raw)), &http.Request{Method: method})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Error(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Error(err)
	}
	<-written
	var kept []string
	for l := range strings.SplitSeq(strings.ReplaceAll(raw.String(), "\r\n", "\n"), "\n") {
		if !strings.HasPrefix(l, "Date: ") {
			kept = append(kept, l)
		}
	}
	return strings.TrimRight(strings.Join(kept, "\n"), "\n") + "\n"
}
