// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package decisionlog_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
	"github.com/sluicegate/sluice/server/internal/decisionlog"
	"github.com/sluicegate/sluice/server/internal/front"
	"github.com/sluicegate/sluice/server/internal/front/proxy"
)

// logged is a limited handler with a log.
type logged struct {
	handler http.Handler
	encoder *decisionlog.Encoder
	upstream
	lines [][]byte
}

// upstream describes a test's upstream.
type upstream = httplimit.Upstream

func rules(t testing.TB, yaml string) *policy.Policy {
	t.Helper()
	c, err := config.Parse("test.yaml", []byte("rules:\n"+yaml))
	if err != nil {
		t.Fatal(err)
	}
	return c.Policy
}

func newLogged(t testing.TB, yaml string, store sluice.Store, o decisionlog.Options) *logged {
	t.Helper()
	l := &logged{encoder: decisionlog.New(o)}
	mw, err := httplimit.New(httplimit.Options{
		Policy: rules(t, yaml), Store: store, OnError: func(*http.Request, error) {},
		OnEnd: func(r *http.Request, s *httplimit.Summary) {
			s.Upstream = &l.upstream
			var rec front.Record
			if proxy.FillEnded(&rec, r, s); l.encoder.Wants(&rec) {
				l.lines = append(l.lines, l.encoder.Append(nil, &rec))
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	l.handler = mw.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if _, err := io.WriteString(w, "hello"); err != nil {
			t.Error(err)
		}
	}))
	return l
}

func newStore() sluice.Store {
	return memstore.New(memstore.Options{Now: func() time.Time { return time.Unix(1_700_000_000, 0) }})
}

// ask sends a request and returns its line, decoded.
func (l *logged) ask(t testing.TB, r *http.Request) map[string]any {
	t.Helper()
	n := len(l.lines)
	l.handler.ServeHTTP(httptest.NewRecorder(), r)
	if len(l.lines) != n+1 {
		t.Fatalf("%d lines of a request", len(l.lines)-n)
	}
	return decode(t, l.lines[n])
}

func decode(t testing.TB, line []byte) map[string]any {
	t.Helper()
	if !bytes.HasSuffix(line, []byte("}\n")) || bytes.IndexFunc(line[:len(line)-1], func(c rune) bool { return c < ' ' || c >= 0x7f && c < 0xa0 }) >= 0 {
		t.Errorf("not a line: %q", line)
	}
	var v map[string]any
	if err := json.Unmarshal(line, &v); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	return v
}

func get(target string, header ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, target, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return r
}

// everyKind returns lines that together have every field.
func everyKind(t *testing.T) (lines []map[string]any) {
	t.Helper()
	const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	add := func(l *logged, times int, r func() *http.Request) {
		for range times {
			lines = append(lines, l.ask(t, r()))
		}
	}
	user := func() *http.Request { return get("/a?secret=x", "X-User", "ada", "Traceparent", trace) }
	l := newLogged(t, `
  - {name: soft, by: header.X-User, limits: {soft: 1/min sliding-log, grace: 1/min sliding-log}}
  - {name: trial, by: header.X-User, limits: 9/min sliding-log, candidates: {tight: 1/min sliding-log}, mode: enforce}
  - {name: dry, by: ip, mode: shadow, limits: 1/min sliding-log}
  - {name: tree, levels: [{name: all, limits: 100/min}, {name: user, by: header.X-User, limits: 50/min}]}
`, newStore(), decisionlog.Options{Node: "n1", Config: "c1"})
	l.upstream = upstream{URL: "http://127.0.0.1:1", Route: "/a", Status: 200, Err: errors.New("broke off"), Header: 1, Took: 2, Bytes: 3}
	add(l, 3, user)
	failing := testkit.Failing(errors.New("away"))
	add(newLogged(t, "  - {name: fails, by: ip, failure: closed, limits: 1/min}\n", failing, decisionlog.Options{Plain: true}), 1, user)
	add(newLogged(t, "  - {name: fails, by: ip, limits: 1/min}\n", degraded{newStore()}, decisionlog.Options{Requests: decisionlog.Sample, Every: 1, By: "fails"}), 1, user)
	add(newLogged(t, "  - {name: needs, by: query.u, missing: refuse, limits: 1/min}\n", newStore(), decisionlog.Options{}), 1, user)
	add(newLogged(t, "  - {name: slow, by: ip, max_wait: 1s, limits: 1000/s burst 1}\n", newStore(), decisionlog.Options{}), 3, user)
	add(newLogged(t, "  - {name: gold, by: ip, tiers: {by: header.X-User, limits: {ada: none}}, limits: 1/min}\n  - {name: pro, by: ip, tiers: {by: header.X-User, limits: {ada: 9/min}}, limits: 1/min}\n  - {name: shape, by: ip, shape: true, cost: response-bytes, limits: 1MB/s}\n", newStore(), decisionlog.Options{}), 1, user)
	busy := newLogged(t, "  - {name: busy, by: ip, in_flight: 1}\n", full{memstore.New(memstore.Options{})}, decisionlog.Options{Plain: true})
	add(busy, 1, user)
	many := "  - {name: r%02d, by: ip, mode: shadow, limits: 1/min}\n"
	var all strings.Builder
	for i := range 40 {
		fmt.Fprintf(&all, many, i)
	}
	add(newLogged(t, all.String(), newStore(), decisionlog.Options{}), 1, user)
	// A handler that panics.
	breaks := newLogged(t, "  - {name: a, limits: 9/min}\n", newStore(), decisionlog.Options{})
	mw, err := httplimit.New(httplimit.Options{Policy: rules(t, "  - {name: a, limits: 9/min}\n"), Store: newStore(), OnEnd: func(r *http.Request, s *httplimit.Summary) {
		var rec front.Record
		proxy.FillEnded(&rec, r, s)
		breaks.lines = append(breaks.lines, breaks.encoder.Append(nil, &rec))
	}})
	if err != nil {
		t.Fatal(err)
	}
	func() {
		defer func() { _ = recover() }()
		mw.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })).ServeHTTP(httptest.NewRecorder(), user())
	}()
	return append(lines, decode(t, breaks.lines[0]))
}

// degraded is a store that answers by a failure policy.
type degraded struct{ sluice.Store }

func (s degraded) Take(ctx context.Context, req sluice.Request) (sluice.Decision, error) {
	d, err := s.Store.Take(ctx, req)
	d.Degraded = true
	return d, err
}

// full is a store without free slots.
type full struct{ *memstore.Store }

func (full) Slot(context.Context, sluice.SlotRequest) (sluice.SlotDecision, error) {
	return sluice.SlotDecision{}, nil
}

// TestSchema: docs/decision-log.md lists exactly the existing fields, with their types.
func TestSchema(t *testing.T) {
	doc := testkit.ReadFile(t, "../../../docs/decision-log.md")
	listed := make(map[string]string)
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_.\\[\\]]+)` \\| (string|number|boolean|array) \\| (.*) \\|$").FindAllStringSubmatch(string(doc), -1) {
		listed[row[1]] = row[2]
	}
	types := func(v any) string {
		switch v.(type) {
		case string:
			return "string"
		case float64:
			return "number"
		case bool:
			return "boolean"
		case []any:
			return "array"
		}
		return "object"
	}
	seen := make(map[string]bool)
	var walk func(prefix string, of map[string]any)
	walk = func(prefix string, of map[string]any) {
		for name, v := range of {
			path := prefix + name
			if inner, ok := v.(map[string]any); ok {
				walk(path+".", inner)
				continue
			}
			if seen[path] = true; listed[path] != types(v) {
				t.Errorf("%s is a %s, and the document says %q", path, types(v), listed[path])
			}
			if list, ok := v.([]any); ok {
				for _, item := range list {
					walk(path+"[].", item.(map[string]any)) //nolint:forcetypeassert // the test fails otherwise
				}
			}
		}
	}
	lines := everyKind(t)
	for _, line := range lines {
		walk("", line)
	}
	for path := range listed {
		if !seen[path] {
			t.Errorf("no line has %s", path)
		}
	}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_.\\[\\]]+)` \\|.*; always \\|$").FindAllStringSubmatch(string(doc), -1) {
		for _, line := range lines {
			of := []any{line}
			name, inner := strings.CutPrefix(row[1], "rules[].")
			if inner {
				of, _ = line["rules"].([]any)
			}
			for _, v := range of {
				if _, ok := v.(map[string]any)[name]; !ok { //nolint:forcetypeassert // as above
					t.Errorf("%v lacks %s", v, row[1])
				}
			}
		}
	}
}

// TestLines: the lines have the decisions.
func TestLines(t *testing.T) {
	lines := everyKind(t)
	entry := func(line int, i int) map[string]any { return lines[line]["rules"].([]any)[i].(map[string]any) } //nolint:forcetypeassert // the test fails otherwise
	for _, c := range []struct {
		what      string
		got, want any
	}{
		{"version", lines[0]["v"], 1.0},
		{"path", lines[0]["path"], "/a"},
		{"trace", lines[0]["trace_id"], "4bf92f3577b34da6a3ce929d0e0e4736"},
		{"a soft limit", entry(0, 0)["mode"], "soft"},
		{"a second request", entry(1, 0)["mode"], "grace"},
		{"a second request", lines[1]["verdict"], "warned"},
		{"a third request", lines[2]["verdict"], "denied"},
		{"its status", lines[2]["status"], 429.0},
		{"what binds", entry(2, 0)["binds"], true},
		{"its verdict", entry(2, 0)["verdict"], "denied"},
		{"its retry", entry(2, 0)["retry_after_us"], 60e6},
		{"that of the request", lines[2]["retry_after_us"], 60e6},
		{"another", entry(2, 1)["verdict"], "allowed"},
		{"without a key", entry(2, 2)["key_hash"], nil},
		{"a failure", lines[3]["verdict"], "failed-closed"},
		{"a plain key", entry(3, 0)["key"], "192.0.2.1"},
		{"its verdict", entry(3, 0)["verdict"], "failed"},
		{"its policy", entry(3, 0)["failure"], "closed"},
		{"degraded", entry(4, 0)["mode"], "degraded"},
		{"which the store has not decided", lines[4]["decided_us"], nil},
		{"refused", lines[5]["verdict"], "refused"},
		{"refused", entry(5, 0)["verdict"], "refused"},
		{"entries", len(lines[len(lines)-2]["rules"].([]any)), 32}, //nolint:forcetypeassert // as above
		{"entries left out", lines[len(lines)-2]["rules_cut"], 8.0},
		{"broken", lines[len(lines)-1]["broken"], true},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %v, want %v", c.what, c.got, c.want)
		}
	}
}

// TestWithoutRule: a limit of no rule, such as one of a file, has an entry.
func TestWithoutRule(t *testing.T) {
	minute := sluice.Must(sluice.Compile("s", sluice.PerMinute(3).WithName("d.minute"))).Term(0)
	charge := sluice.Charge{Key: "d|minute=a", Cost: 2}
	denied := sluice.Decision{RetryAfter: time.Minute}
	for _, c := range []struct {
		what  string
		event evaluate.Event
		want  string
	}{
		{
			"allowed",
			evaluate.Event{Limit: minute, Charge: charge, Decision: sluice.Decision{Allowed: true, Remaining: 1}},
			`[{"rule":"","limit":"d.minute: 3/min burst 3","mode":"enforced","key":"d|minute=a","cost":2,"verdict":"allowed","remaining":1,"binds":true}]`,
		},
		{
			"denied",
			evaluate.Event{Verdict: evaluate.Denied, Limit: minute, Charge: charge, Decision: denied},
			`[{"rule":"","limit":"d.minute: 3/min burst 3","mode":"enforced","key":"d|minute=a","cost":2,"verdict":"denied","remaining":0,"retry_after_us":60000000,"binds":true}]`,
		},
		{
			"shadow",
			evaluate.Event{Limit: minute, Charge: charge, Violated: []string{"d.minute"}, Decision: sluice.Decision{Allowed: true, RetryAfter: time.Minute}},
			`[{"rule":"","limit":"d.minute: 3/min burst 3","mode":"shadow","key":"d|minute=a","cost":2,"verdict":"denied","remaining":0,"retry_after_us":60000000}]`,
		},
		{
			"slots",
			evaluate.Event{Verdict: evaluate.Denied, Charge: charge, Violated: []string{"d.owner"}, Decision: denied},
			`[{"rule":"","limit":"d.owner","mode":"enforced","key":"d|minute=a","cost":2,"verdict":"denied","remaining":0,"retry_after_us":60000000,"binds":true}]`,
		},
		{
			"failed",
			evaluate.Event{Verdict: evaluate.FailedClosed, Charge: charge, Err: io.ErrUnexpectedEOF},
			`[{"rule":"","mode":"enforced","key":"d|minute=a","cost":2,"verdict":"failed","error":"unexpected EOF","binds":true}]`,
		},
		{"nothing", evaluate.Event{}, ""},
	} {
		line := decisionlog.New(decisionlog.Options{Plain: true}).Append(nil, &front.Record{Ended: true, Event: c.event, Request: (&policy.Request{}).Attributes()})
		decode(t, line)
		_, got, _ := strings.Cut(strings.TrimSuffix(string(line), "}\n"), `,"rules":`)
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
}

// TestFields: a key is found in its own line only, for any text of the key and any form in the
// log.
func TestFields(t *testing.T) {
	keys := []string{"ada", `a"b\c`, "tab\tü€", "a|b%7C", "\xff\xc3(", strings.Repeat("long ", 100), `x","key":"ada`}
	for _, o := range []decisionlog.Options{{Plain: true}, {Secret: []byte("secret")}} {
		for i, key := range keys {
			l := newLogged(t, "  - {name: a, by: header.X-User, limits: 9/min}\n", newStore(), o)
			l.ask(t, get("/", "X-User", key))
			for j, of := range keys {
				found := slices.ContainsFunc(l.encoder.Fields(of), func(field []byte) bool { return bytes.Contains(l.lines[0], field) })
				if found != (i == j) {
					t.Errorf("%+v, %q in the line of %q: %v: %s", o, of, key, found, l.lines[0])
				}
			}
		}
	}
}

// TestBlock: the entry of a block has no units, blocked or not; that of a limit beside it
// does.
func TestBlock(t *testing.T) {
	l := newLogged(t, "  - {name: a, by: ip, limits: 2/min sliding-log, block: 1h after 1 denial/min}\n", newStore(), decisionlog.Options{})
	for i, want := range []string{"allowed", "allowed", "denied", "denied"} {
		line := l.ask(t, get("/"))
		entries := line["rules"].([]any)
		limit, block := entries[0].(map[string]any), entries[1].(map[string]any)
		if limit["remaining"] != float64(max(0, 1-i)) {
			t.Errorf("request %d: the limit is %v", i+1, limit)
		}
		if left, ok := block["remaining"]; ok || block["verdict"] != want {
			t.Errorf("request %d: the block is %v with %v left, want it %s without", i+1, block, left, want)
		}
	}
}

// TestHash: a key has one hash under one secret and another under another, and is found with
// the secret.
func TestHash(t *testing.T) {
	hash := func(secret, key string) any {
		l := newLogged(t, "  - {name: a, by: header.X-User, limits: 9/min}\n", newStore(), decisionlog.Options{Secret: []byte(secret)})
		return l.ask(t, get("/", "X-User", key))["rules"].([]any)[0].(map[string]any)["key_hash"] //nolint:forcetypeassert // the test fails otherwise
	}
	// printf %s ada | openssl dgst -sha256 -hmac secret
	const want = "3c30486140e27f6f8b09ea69da2a6ca7"
	if got := hash("secret", "ada"); got != want || got == hash("other", "ada") || got == hash("secret", "eve") {
		t.Errorf("got %v, want %v, of this secret and key alone", got, want)
	}
}

// TestHostile: any request of a client is one line of bounded length.
func TestHostile(t *testing.T) {
	l := newLogged(t, "  - {name: a, by: header.X-User, limits: 9/min}\n", newStore(), decisionlog.Options{Plain: true})
	for _, text := range []string{"\n{\"v\":1}\n", "a\"b\\c", "\x00\x1b[2J\x7f", "\xff\xfe\xc3", "\u0085\u009b\u2028", strings.Repeat("\x01", 8000), strings.Repeat("ü", 4000)} {
		r := get("/")
		r.Method, r.Host, r.URL.Path, r.URL.RawPath = text, text, "/"+text, ""
		r.Header["X-User"], r.Header["Traceparent"] = []string{text}, []string{text}
		line := l.ask(t, r)
		if n := len(l.lines[len(l.lines)-1]); n > 64<<10 {
			t.Errorf("%d bytes", n)
		}
		if host := fmt.Sprint(line["host"]); len(text) < 100 && host != strings.ToValidUTF8(text, "\ufffd") && !strings.Contains(text, "\xff") {
			t.Errorf("host %q of %q", host, text)
		}
		if host := fmt.Sprint(line["host"]); len(text) > 1000 && (!strings.HasSuffix(host, "…") || len(host) > 260) {
			t.Errorf("host of %d bytes, %q", len(host), host)
		}
	}
}

// TestTrace: only a valid field names a trace.
func TestTrace(t *testing.T) {
	const id, rest = "4bf92f3577b34da6a3ce929d0e0e4736", "-00f067aa0ba902b7-01"
	for field, want := range map[string]any{
		"00-" + id + rest: id, "cc-" + id + rest + "-more": id, "00-" + id + rest + "-more": nil, "ff-" + id + rest: nil,
		"00-" + strings.Repeat("0", 32) + rest: nil, "00-" + strings.ToUpper(id) + rest: nil, "00-" + id: nil, "": nil,
		"00-" + id + "-0000000000000000-01": nil,
	} {
		l := newLogged(t, "  - {name: a, limits: 9/min}\n", newStore(), decisionlog.Options{})
		if got := l.ask(t, get("/", "Traceparent", field))["trace_id"]; got != want {
			t.Errorf("%q: got %v, want %v", field, got, want)
		}
	}
}

// TestSample: a sample has all requests of a key or none, and the stated share of keys.
func TestSample(t *testing.T) {
	const keys, every = 10_000, 10
	l := newLogged(t, "  - {name: a, by: header.X-User, missing: skip, limits: 1/min}\n", memstore.New(memstore.Options{}),
		decisionlog.Options{Requests: decisionlog.Sample, Every: every, By: "a", Plain: true})
	for range 2 {
		for i := range keys {
			l.handler.ServeHTTP(httptest.NewRecorder(), get("/", "X-User", fmt.Sprint("u", i)))
		}
	}
	seen := make(map[any]int)
	for _, line := range l.lines {
		v := decode(t, line)
		seen[v["rules"].([]any)[0].(map[string]any)["key"]]++ //nolint:forcetypeassert // the test fails otherwise
		if !bytes.Contains(line, []byte(`"sample":{"every":10,"by":"a"}`)) {
			t.Fatalf("%s does not say of what it is a sample", line)
		}
	}
	for key, n := range seen {
		if n != 2 {
			t.Errorf("%v has %d lines of 2 requests", key, n)
		}
	}
	if n := len(seen); n < keys/every*8/10 || n > keys/every*12/10 {
		t.Errorf("%d keys of %d", n, keys)
	}
	l.lines = nil
	for i := range 200 {
		r := get("/")
		r.RemoteAddr = fmt.Sprintf("10.0.0.%d:1", i)
		l.handler.ServeHTTP(httptest.NewRecorder(), r)
	}
	if n := len(l.lines); n < 8 || n > 40 {
		t.Errorf("%d lines of 200 clients without a key", n)
	}
}

// TestDenied: a request passed on has no line, unless a shadow rule would have denied it.
func TestDenied(t *testing.T) {
	l := newLogged(t, "  - {name: a, match: {path: /a}, limits: 1/min}\n  - {name: dry, match: {path: /dry}, mode: shadow, limits: 1/min}\n", newStore(), decisionlog.Options{Requests: decisionlog.Denied})
	for _, path := range []string{"/a", "/a", "/dry", "/dry", "/"} {
		l.handler.ServeHTTP(httptest.NewRecorder(), get(path))
	}
	var verdicts []string
	for _, line := range l.lines {
		verdicts = append(verdicts, fmt.Sprint(decode(t, line)["verdict"]))
	}
	if !slices.Equal(verdicts, []string{"denied", "allowed"}) {
		t.Errorf("got %q", verdicts)
	}
}
