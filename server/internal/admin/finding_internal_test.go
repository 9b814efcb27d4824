// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"crypto/sha256"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
	"github.com/sluicegate/sluice/server/internal/audit"
	"github.com/sluicegate/sluice/server/internal/decided"
	"github.com/sluicegate/sluice/server/internal/overrides"
	"github.com/sluicegate/sluice/server/internal/overview"
	"github.com/sluicegate/sluice/server/internal/reload"
	"github.com/sluicegate/sluice/server/internal/tally"
)

// watched is an API with rules and a clock, whose requests a test counts.
type watched struct {
	*API
	now   time.Time
	front *evaluate.Evaluator
	tally tally.Tally
	call  evaluate.Call
}

func newWatched(t *testing.T, rules string) *watched {
	t.Helper()
	c, err := config.Parse("test.yaml", []byte("rules:\n"+rules))
	if err != nil {
		t.Fatal(err)
	}
	w := &watched{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	clock := func() time.Time { return w.now }
	store := memstore.New(memstore.Options{Now: clock})
	if w.front, err = evaluate.New(evaluate.Options{Policy: c.Policy, Store: store}); err != nil {
		t.Fatal(err)
	}
	w.tally.Share(sha256.Sum256(nil)) // numbers are the same in every run
	w.tally.Follow(c.Policy)
	list, err := overrides.Open(filepath.Join(t.TempDir(), "overrides.json"))
	if err != nil {
		t.Fatal(err)
	}
	w.API, err = NewAPI(APIOptions{
		Policy: func() *policy.Policy { return c.Policy }, Store: store, Tally: &w.tally, Now: clock, Overrides: list,
		Version: func() (reload.Version, error) { return reload.Version{File: "test.yaml"}, nil },
		Audit:   audit.New(io.Discard),
		System:  func() overview.System { return overview.System{} }, State: func() overview.State { return overview.State{} },
		Logs: func() []overview.Log { return nil }, Decisions: func([]decided.Key) decided.List { return decided.List{} }, Explains: store,
	})
	if err != nil {
		t.Fatal(err)
	}
	w.tally.Tick(w.now)
	return w
}

// ask sends n requests of a user.
func (w *watched) ask(t *testing.T, user string, n int) {
	t.Helper()
	for range n {
		a := policy.Request{Method: "GET", Path: "/", Headers: map[string][]string{"X-User": {user}}, Client: netip.MustParseAddr("192.0.2.1")}
		w.front.Decide(t.Context(), a.Attributes(), &w.call)
		w.tally.Count(&w.call.Event, tally.Cause{})
	}
}

// pass lets time pass.
func (w *watched) pass(d time.Duration) {
	w.now = w.now.Add(d)
	w.tally.Tick(w.now)
}

func (w *watched) look(t *testing.T, query string) (o overview.Overview) {
	t.Helper()
	rec := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/overview"+query, nil)
	r.Host, r.RemoteAddr = "localhost", "127.0.0.1:1234"
	w.ServeHTTP(rec, r)
	if err := json.Unmarshal(rec.Body.Bytes(), &o); err != nil || rec.Code != http.StatusOK {
		t.Fatalf("%d %v: %s", rec.Code, err, rec.Body)
	}
	return o
}

// said returns the kinds and texts of the findings of each rule.
func (w *watched) said(t *testing.T) (kinds, texts string) {
	t.Helper()
	for _, r := range w.look(t, "").Rules {
		for _, f := range r.Findings {
			kinds += f.Kind + " "
			texts += f.Text + "\n"
		}
	}
	return strings.TrimSpace(kinds), texts
}

// TestFindings: artificial traffic of each kind gives its finding, with its figures, and
// other traffic gives none.
func TestFindings(t *testing.T) {
	const limit = "  - {name: api, by: header.X-User, limits: 10/min sliding-log"
	users := func(n, each int) func(*testing.T, *watched, *rand.Rand) {
		return func(t *testing.T, w *watched, _ *rand.Rand) {
			t.Helper()
			for i := range n {
				w.ask(t, "user"+strconv.Itoa(i), each)
			}
		}
	}
	const short = 8
	for i, c := range []struct {
		name, rules string
		minutes     int
		traffic     func(*testing.T, *watched, *rand.Rand) // of a minute
		kind, text  string
	}{
		{"all are denied a little", limit + "}", 40, users(100, 12), "too-tight", "about 100 of 100 keys were denied in the last 39 minutes, 80.0 times each: 16.7 % of all requests"},
		{"a few in a hundred are, and a candidate has room", limit + ", candidates: {wide: 20/min sliding-log}}", 40, func(t *testing.T, w *watched, _ *rand.Rand) {
			t.Helper()
			users(300, 1)(t, w, nil)
			users(10, 13)(t, w, nil)
		}, "too-tight", `the candidate "wide" would have let 1600 of 1600 denied requests pass`},
		{"one presses", limit + "}", 40, func(t *testing.T, w *watched, _ *rand.Rand) {
			t.Helper()
			users(50, 3)(t, w, nil)
			w.ask(t, "mallory", 100)
		}, "one-client", "one key makes most denials: 3600 or more of 3600, of about 51 keys, in the last 39 minutes; 36.0 % of all requests"},
		{"a flash crowd at one of many keys", limit + "}", 40, func(t *testing.T, w *watched, random *rand.Rand) {
			t.Helper()
			users(300, 1)(t, w, nil)
			w.ask(t, "popular", 10+random.IntN(80))
		}, "", ""},
		{"one budget for all", "  - {name: api, limits: 10/min sliding-log}", 40, users(20, 10), "", ""},
		{"nobody uses half of it", "  - {name: api, by: header.X-User, limits: 100/min sliding-log}", 90, users(30, 20), "never-reached", "of 54000 requests in the last 89 minutes none left a key with less than 80 % of its limit"},
		{"nobody does, so far", "  - {name: api, by: header.X-User, limits: 100/min sliding-log}", 50, users(30, 20), "", ""},
		{"most of it is used", limit + "}", 90, users(30, 8), "", ""},
		// Make long runs those below.
		{"the same without a candidate", limit + "}", 40, func(t *testing.T, w *watched, _ *rand.Rand) {
			t.Helper()
			users(300, 1)(t, w, nil)
			users(10, 13)(t, w, nil)
		}, "", ""},
		{"a candidate that is tighter", limit + ", candidates: {small: 5/min sliding-log}}", 40, users(100, 8), "", ""},
		{"three press", limit + "}", 40, func(t *testing.T, w *watched, _ *rand.Rand) {
			t.Helper()
			users(50, 3)(t, w, nil)
			for _, user := range []string{"mallory", "eve", "trudy"} {
				w.ask(t, user, 100)
			}
		}, "one-client", "3 keys make most denials"},
		{"one pressed, two hours ago", limit + "}", 180, func(t *testing.T, w *watched, _ *rand.Rand) {
			t.Helper()
			users(50, 3)(t, w, nil)
			if w.now.Hour() < 13 {
				w.ask(t, "mallory", 100)
			}
		}, "", ""},
		{"a flood from many keys", limit + "}", 40, users(300, 40), "", ""},
		{"in shadow", "  - {name: api, by: header.X-User, limits: 100/min sliding-log, mode: shadow}", 90, users(30, 20), "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if i >= short {
				testkit.Long(t)
			}
			w := newWatched(t, c.rules+"\n")
			random := rand.New(rand.NewPCG(1, 1))
			for range c.minutes {
				c.traffic(t, w, random)
				w.pass(time.Minute)
			}
			if kinds, texts := w.said(t); kinds != c.kind || !strings.Contains(texts, c.text) {
				t.Errorf("got %q: %s; want %q: %s", kinds, texts, c.kind, c.text)
			}
		})
	}
}
