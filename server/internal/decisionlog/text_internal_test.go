// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package decisionlog

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/server/internal/front"
)

// FuzzText: JSON reads any text unchanged, with U+FFFD for each byte that is not UTF-8; the
// line has no control character, and is cut at the end of a rune.
func FuzzText(f *testing.F) {
	for _, seed := range []string{"", "plain", "a\"b\\c\n", "\x00\x7f\x80\xff", "ü€😀", "\u0085\u2028\ufffd", "\xc3", "ab\xe2\x82"} {
		f.Add(seed, 1000)
		f.Add(seed, 2)
	}
	f.Fuzz(func(t *testing.T, text string, most int) {
		most = min(max(most, 0), 1<<16)
		b := appendText(nil, text, most)
		var got string
		if err := json.Unmarshal(b, &got); err != nil {
			t.Fatalf("%q: %v", b, err)
		}
		if i := strings.IndexFunc(string(b), func(c rune) bool { return c < ' ' || c >= 0x7f && c < 0xa0 }); i >= 0 || !utf8.Valid(b) {
			t.Errorf("%q has what it must not at %d", b, i)
		}
		want := []rune(text) // with U+FFFD for each invalid byte
		if len(text) <= most {
			if got != string(want) {
				t.Errorf("got %q, want %q", got, string(want))
			}
			return
		}
		cut, ok := strings.CutSuffix(got, "…")
		if !ok || len([]rune(cut)) > most || !strings.HasPrefix(string(want), cut) || len(cut) < min(most-utf8.UTFMax, len(text)-utf8.UTFMax) {
			t.Errorf("%q cut to %d: got %q", text, most, got)
		}
	})
}

// request returns a request under a rule, with its outcome.
func request(tb testing.TB) (rec *front.Record, done func()) {
	tb.Helper()
	c, err := config.Parse("test.yaml", []byte("rules: [{name: api, by: header.X-User, limits: [100/s, 5000/h sliding-log]}]"))
	if err != nil {
		tb.Fatal(err)
	}
	mw, err := httplimit.New(httplimit.Options{
		Policy: c.Policy, Store: memstore.New(memstore.Options{}),
	})
	if err != nil {
		tb.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodGet, "/v1/items?page=2", nil)
	r.Header.Set("X-User", "ada")
	r.Header.Set("Traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	q := mw.Decide(r)
	rec = &front.Record{
		Ended: true, Event: q.Event().Event, Request: q.Event().Request, Status: http.StatusOK, At: time.Unix(1_700_000_000, 123_000), Took: time.Millisecond,
		Upstream: &front.Upstream{URL: "http://127.0.0.1:3000", Status: http.StatusOK, Took: time.Millisecond},
	}
	rec.FromHTTP(r)
	return rec, func() { q.Settle(policy.Response{}) }
}

// TestNoAllocations: a line allocates only its buffer.
func TestNoAllocations(t *testing.T) {
	testkit.Long(t) // pools drop items under the race detector
	r, done := request(t)
	defer done()
	for _, o := range []Options{{}, {Plain: true}, {Requests: Sample, Every: 1, By: "api"}} {
		e := New(o)
		b := e.Append(nil, r)
		if n := testing.AllocsPerRun(100, func() {
			if e.Wants(r) {
				b = e.Append(b[:0], r)
			}
		}); n > 0 {
			t.Errorf("%+v: %v allocations", o, n)
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	r, done := request(b)
	defer done()
	for name, o := range map[string]Options{"hashed": {}, "plain": {Plain: true}} {
		b.Run(name, func(b *testing.B) {
			e, line := New(o), []byte(nil)
			b.ReportAllocs()
			for b.Loop() {
				line = e.Append(line[:0], r)
			}
			b.SetBytes(int64(len(line)))
		})
	}
}
