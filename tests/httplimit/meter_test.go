// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy/evaluate"
)

// upload returns a rule that counts the bytes of bodies.
func upload(limits string) string {
	return "  - {name: up, by: ip, cost: request-bytes, limits: " + limits + "}\n"
}

// chunked returns a request with a body of that many bytes, and of unknown length.
func chunked(t *testing.T, size int) *http.Request {
	t.Helper()
	r := requestOf(t, "POST", "/", strings.Repeat("x", size))
	r.ContentLength = -1
	return r
}

// countingBytes is a handler that counts the bytes that it has read, and always answers 200.
func countingBytes(read *atomic.Int64) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		read.Add(n)
		w.Header().Set("Content-Length", "2")
		w.Header().Set("Set-Cookie", "a=b")
		if err == nil {
			fmt.Fprint(w, "ok") //nolint:errcheck // a recorder takes all
			return
		}
		w.WriteHeader(http.StatusTeapot)
	}
}

// TestUnknownLength: a body of unknown length passes where the same body passes with a known
// length, and costs the same; the handler reads no byte beyond those charged.
func TestUnknownLength(t *testing.T) {
	for _, c := range []struct {
		name, limit  string
		spent, size  int
		status, with int // without a length, and with one
	}{
		{"fits", "1MB/day", 0, 1_000_000, 200, 200},
		{"can never fit", "1MB/day", 0, 5_000_000, 413, 429},
		{"one byte more than ever fits", "1MB/day", 0, 1_000_001, 413, 429},
		{"does not fit now", "1MB/day", 500_000, 600_000, 429, 429},
		{"fills it up", "1MB/day fixed-window", 499_999, 500_001, 200, 200},
		{"of a window", "1MB/day fixed-window", 499_999, 500_002, 429, 429},
		{"a burst below the quota", "1MB/day burst 1KB", 0, 1000, 200, 200},
		{"more than a burst", "1MB/day burst 1KB", 0, 1001, 413, 429},
		{"nothing", "10B/day", 0, 0, 200, 200},
		{"a byte", "1B/day", 0, 1, 200, 200},
		{"two bytes", "1B/day", 0, 2, 413, 429},
		{"a tiny quota", "10B/day", 5, 5, 200, 200},
		{"a tiny quota, too much", "10B/day", 5, 6, 429, 429},
		{"counts denials", "1KB/day sliding-log count-denied", 0, 900, 200, 200},
		{"two limits", "[1MB/day fixed-window, 1KB/h]", 0, 1001, 413, 429},
		{"two limits, one spent", "[1MB/day fixed-window, 2KB/h]", 1500, 501, 429, 429},
	} {
		t.Run(c.name, func(t *testing.T) {
			var spent [2]int64
			for i, want := range []int{c.status, c.with} {
				var read atomic.Int64
				store := memstore.New(memstore.Options{Now: newClock().Now})
				g := newGuard(t, upload(c.limit), countingBytes(&read), httplimit.Options{Store: store})
				if c.spent > 0 {
					answer(g, requestOf(t, "POST", "/", strings.Repeat("x", c.spent)))
				}
				r := chunked(t, c.size)
				if i == 1 {
					r.ContentLength = int64(c.size)
				}
				w := answer(g, r)
				if w.Code != want {
					t.Errorf("got %d, want %d", w.Code, want)
				}
				if w.Code != 200 && (w.Header().Get("Set-Cookie") != "" || !strings.Contains(w.Body.String(), "quota-exceeded")) {
					t.Errorf("the answer is the handler's: %v %s", w.Header(), w.Body)
				}
				if (w.Header().Get("Retry-After") != "") != (w.Code == 429 && want == c.status && c.spent > 0) && i == 0 {
					t.Errorf("Retry-After %q", w.Header().Get("Retry-After"))
				}
				first, _, _ := strings.Cut(strings.Trim(c.limit, "[]"), ",")
				if spent[i] = testkit.Spent(t, store, testkit.Plan(t, "up", first), "192.0.2.1"); c.limit != "1KB/day sliding-log count-denied" && spent[i] != read.Load() {
					t.Errorf("%d bytes were charged, and the handler read %d", spent[i], read.Load())
				}
			}
			if c.status == 200 && spent[0] != spent[1] {
				t.Errorf("costs %d without a length, and %d with one", spent[0], spent[1])
			}
		})
	}
}

// TestUnknownLengthAsMany: as many bodies pass without a length as with one.
func TestUnknownLengthAsMany(t *testing.T) {
	for _, limit := range []string{"1MB/day", "1MB/day sliding-histogram", "1MB/day sliding-counter", "1MB/day fixed-window"} {
		var passed [2]int
		for i := range passed {
			var read atomic.Int64
			g := newGuard(t, upload(limit), countingBytes(&read), httplimit.Options{Store: memstore.New(memstore.Options{Now: newClock().Now})})
			for range 40 {
				r := chunked(t, 50_000)
				if i == 1 {
					r.ContentLength = 50_000
				}
				if answer(g, r).Code == 200 {
					passed[i]++
				}
			}
			if read.Load() > 1_000_000 {
				t.Errorf("%s: %d bytes passed", limit, read.Load())
			}
		}
		if passed[0] != passed[1] {
			t.Errorf("%s: %d pass without a length, and %d with one", limit, passed[0], passed[1])
		}
	}
}

// TestUnknownLengthAtOnce: concurrent bodies never pass more bytes than the limit has.
func TestUnknownLengthAtOnce(t *testing.T) {
	var read atomic.Int64
	store := memstore.New(memstore.Options{Now: newClock().Now})
	g := newGuard(t, upload("1MB/day fixed-window"), countingBytes(&read), httplimit.Options{Store: store})
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() { answer(g, chunked(t, 300_000)) })
	}
	all.Wait()
	spent := testkit.Spent(t, store, testkit.Plan(t, "up", "1MB/day fixed-window"), "192.0.2.1")
	if read.Load() > 1_000_000 || spent != read.Load() {
		t.Errorf("%d bytes passed, and %d were charged", read.Load(), spent)
	}
}

// TestUnknownLengthOfRules: a step charges every rule that counts request bytes, or none.
// Rules that shape, or wait for the response, are charged at the end.
func TestUnknownLengthOfRules(t *testing.T) {
	const large = "  - {name: large, by: ip, cost: request-bytes, limits: 10MB/day fixed-window}\n"
	for _, c := range []struct {
		name, rules, scope, limit string
		size, status              int
		spent                     int64 // -1: what was read
	}{
		{"two rules", large + upload("1MB/day fixed-window"), "large", "10MB/day fixed-window", 2_000_000, 413, -1},
		{"and a number of requests", "  - {name: n, by: ip, limits: 5/day fixed-window}\n" + upload("1MB/day fixed-window"), "n", "5/day fixed-window", 500_000, 200, 1},
		{"shadow", "  - {name: s, mode: shadow, by: ip, cost: request-bytes, limits: 1MB/day fixed-window}\n", "s", "1MB/day fixed-window", 500_000, 200, -1},
		{"shadow, too large", "  - {name: s, mode: shadow, by: ip, cost: request-bytes, limits: 1MB/day fixed-window}\n", "s", "1MB/day fixed-window", 2_000_000, 200, 1_000_000},
		{"shadow beside", "  - {name: s, mode: shadow, by: ip, cost: request-bytes, limits: 1KB/day fixed-window}\n" + upload("1MB/day fixed-window"), "up", "1MB/day fixed-window", 500_000, 200, -1},
		{"candidate", "  - {name: up, by: ip, cost: request-bytes, limits: 1MB/day fixed-window, candidates: {c: 1KB/day fixed-window}}\n", "up", "1MB/day fixed-window", 500_000, 200, -1},
		{"override", "  - {name: up, by: ip, cost: request-bytes, limits: 1KB/day fixed-window, overrides: [{key: 192.0.2.1, limits: 1MB/day fixed-window, reason: r, author: a}]}\n", "up", "1MB/day fixed-window", 500_000, 200, -1},
		{"override, too large", "  - {name: up, by: ip, cost: request-bytes, limits: 1GB/day fixed-window, overrides: [{key: 192.0.2.1, limits: 1MB/day fixed-window, reason: r, author: a}]}\n", "up", "1MB/day fixed-window", 1_500_000, 413, -1},
		{"lease", "  - {name: up, by: ip, cost: request-bytes, limits: 1MB/day fixed-window, lease: true}\n", "up", "1MB/day fixed-window", 1_500_000, 413, -1},
		{"when", "  - {name: up, by: ip, when: {response: 418}, cost: request-bytes, limits: 1KB/day fixed-window}\n", "up", "1KB/day fixed-window", 5000, 200, 0},
		{"held for when", "  - {name: up, by: ip, when: {response: 200, charge: first}, cost: request-bytes, limits: 1KB/day fixed-window}\n", "up", "1KB/day fixed-window", 5000, 200, 1000},
		{"a soft limit", "  - {name: up, by: ip, cost: request-bytes, limits: [{soft: 100KB/day fixed-window, grace: 'g: 1MB/h fixed-window'}, 2MB/min fixed-window]}\n", "up", "g: 1MB/h fixed-window", 500_000, 200, 437_499},
		{"a status", "  - {name: up, by: ip, status: 403, cost: request-bytes, limits: [1MB/day fixed-window, 500KB/h fixed-window]}\n" + "  - {name: n, limits: 1/s}\n", "up", "1MB/day fixed-window", 2_000_000, 413, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			var read atomic.Int64
			store := memstore.New(memstore.Options{Now: newClock().Now})
			g := newGuard(t, c.rules, countingBytes(&read), httplimit.Options{Store: store})
			if w := answer(g, chunked(t, c.size)); w.Code != c.status {
				t.Errorf("got %d %s, want %d", w.Code, w.Body, c.status)
			}
			want := c.spent
			if want < 0 {
				want = read.Load()
			}
			if c.status == 200 && int(read.Load()) != c.size {
				t.Errorf("%d bytes passed, want %d", read.Load(), c.size)
			}
			if got := testkit.Spent(t, store, testkit.Plan(t, c.scope, c.limit), "192.0.2.1"); got != want {
				t.Errorf("%d units were charged, want %d", got, want)
			}
		})
	}
}

// TestUnknownLengthDelayed: bodies that may be delayed are delayed rather than denied, and no
// longer than with a known length.
func TestUnknownLengthDelayed(t *testing.T) {
	for _, limits := range []string{"100KB/s leaky-bucket burst 1MB", "100KB/s burst 1MB, max_wait: 20s"} {
		synctest.Test(t, func(t *testing.T) {
			var took [2]time.Duration
			for i := range took {
				var read atomic.Int64
				g := newGuard(t, upload(limits), countingBytes(&read), httplimit.Options{})
				began := time.Now()
				for range 3 {
					r := chunked(t, 500_000)
					if i == 1 {
						r.ContentLength = 500_000
					}
					if w := answer(g, r); w.Code != 200 {
						t.Errorf("%s: got %d %s", limits, w.Code, w.Body)
					}
				}
				took[i] = time.Since(began)
			}
			if late := took[0] - took[1]; late < -time.Second || late > time.Second {
				t.Errorf("%s: took %v, and %v with a length", limits, took[0], took[1])
			}
		})
	}
}

// failingLater is a store that fails after some calls.
type failingLater struct {
	sluice.Store
	left atomic.Int64
	fail func(ctx context.Context) error
}

func (s *failingLater) Take(ctx context.Context, req sluice.Request) (sluice.Decision, error) {
	if s.left.Add(-1) < 0 && req.Op == sluice.OpTake {
		return sluice.Decision{}, s.fail(ctx)
	}
	return s.Store.Take(ctx, req)
}

// TestUnknownLengthFailures: if the store fails in the middle of a body, the failure policies
// decide whether it goes on, and a client that has left gets nothing.
func TestUnknownLengthFailures(t *testing.T) {
	outage := errors.New("outage")
	for _, c := range []struct {
		failure string
		leaves  bool
		status  int
		read    int64
	}{
		{"open", false, 200, 500_000},
		{"closed", false, 503, 62_500},
		{"open", true, 503, 62_500},
	} {
		t.Run(fmt.Sprint(c.failure, " ", c.leaves), func(t *testing.T) {
			var read atomic.Int64
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			store := &failingLater{Store: memstore.New(memstore.Options{Now: newClock().Now}), fail: func(ctx context.Context) error {
				if c.leaves {
					cancel()
					return ctx.Err()
				}
				return outage
			}}
			store.left.Store(2) // on arrival, and a step
			var reported errorList
			rules := "  - {name: up, by: ip, failure: " + c.failure + ", cost: request-bytes, limits: 1MB/day fixed-window}\n"
			g := newGuard(t, rules, countingBytes(&read), httplimit.Options{Store: store, OnError: reported.report})
			if w := answer(g, chunked(t, 500_000).WithContext(ctx)); w.Code != c.status {
				t.Errorf("got %d %s, want %d", w.Code, w.Body, c.status)
			}
			if got := read.Load(); got > c.read || got < c.read-32<<10 {
				t.Errorf("%d bytes passed, want %d", got, c.read)
			}
			spent := testkit.Spent(t, store.Store, testkit.Plan(t, "up", "1MB/day fixed-window"), "192.0.2.1")
			if spent != read.Load() {
				t.Errorf("%d bytes were charged, and %d passed", spent, read.Load())
			}
			if (len(reported.all()) > 0) == c.leaves {
				t.Errorf("reported %v", reported.all())
			}
		})
	}
}

// TestUnknownLengthEvents: a denial in the middle of a body is the request's one verdict and
// in its summary; a body that fits is also reported once.
func TestUnknownLengthEvents(t *testing.T) {
	var verdicts []evaluate.VerdictKind
	var end httplimit.Summary
	var read atomic.Int64
	g := newGuard(t, upload("1MB/day"), countingBytes(&read), httplimit.Options{
		OnDecision: func(_ *http.Request, e httplimit.Event) { verdicts = append(verdicts, e.Verdict) },
		OnEnd:      func(_ *http.Request, s *httplimit.Summary) { end = *s },
	})
	answer(g, chunked(t, 2_000_000))
	if !slices.Equal(verdicts, []evaluate.VerdictKind{evaluate.Denied}) {
		t.Errorf("decisions: %v", verdicts)
	}
	if end.Event.Verdict != evaluate.Denied || end.Event.Status != 413 || end.Status != 413 || end.Read != read.Load() {
		t.Errorf("summary: %v %d %d, %d read of %d", end.Event.Verdict, end.Event.Status, end.Status, end.Read, read.Load())
	}
	verdicts = nil
	fits := newGuard(t, upload("1MB/day"), countingBytes(&read), httplimit.Options{
		OnDecision: func(_ *http.Request, e httplimit.Event) { verdicts = append(verdicts, e.Verdict) },
	})
	answer(fits, chunked(t, 100_000))
	if !slices.Equal(verdicts, []evaluate.VerdictKind{evaluate.Allowed}) {
		t.Errorf("decisions: %v", verdicts)
	}
}

// TestUnknownLengthBegun: a response that has begun is cut off when the body is denied.
func TestUnknownLengthBegun(t *testing.T) {
	g := newGuard(t, upload("1MB/day"), func(w http.ResponseWriter, r *http.Request) {
		if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
			t.Error(err)
		}
		w.WriteHeader(http.StatusOK)
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			t.Error("the body was not denied")
		}
		fmt.Fprint(w, "all is well") //nolint:errcheck // it must not be
	}, httplimit.Options{})
	server := httptest.NewServer(g)
	defer server.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, io.LimitReader(zeros{}, 2_000_000))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := server.Client().Do(req)
	if err != nil {
		return // the connection was closed before the client had read the header
	}
	defer resp.Body.Close() //nolint:errcheck // it is broken
	if body, err := io.ReadAll(resp.Body); err == nil {
		t.Errorf("got %d and all of %q", resp.StatusCode, body)
	}
}

// zeros is a body without an end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
