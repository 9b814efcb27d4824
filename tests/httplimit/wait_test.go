// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
)

// queue runs requests in a bubble, whose time passes only when all wait.
type queue struct {
	handler http.Handler
	start   time.Time
	mu      sync.Mutex
	served  []string // "name at duration" in the order in which the handler saw them
	events  []evaluate.VerdictKind
	wg      sync.WaitGroup
}

// newQueue returns a queue under a limit that does not count requests for other paths.
func newQueue(t *testing.T, limit string, o httplimit.Options) *queue {
	t.Helper()
	api := counting(rule(t, "api", policy.IP(), limit), policy.Status{From: 100, To: 403}, policy.Status{From: 405, To: 599})
	return newQueueOf(t, api, o)
}

func newQueueOf(t *testing.T, r policy.Rule, o httplimit.Options) *queue {
	t.Helper()
	q := &queue{start: time.Now()}
	o.Store = memstore.New(memstore.Options{})
	o.Rules = []policy.Rule{r}
	o.OnDecision = func(_ *http.Request, e httplimit.Event) {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.events = append(q.events, e.Verdict)
	}
	q.handler = newMiddleware(t, o).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q.mu.Lock()
		defer q.mu.Unlock()
		status := http.StatusOK
		if strings.HasPrefix(r.URL.Path, "/missing") {
			status = http.StatusNotFound
		}
		w.WriteHeader(status)
		q.served = append(q.served, fmt.Sprintf("%s at %v", r.URL.Path, time.Since(q.start)))
	}))
	return q
}

// send starts a request and returns once it waits or is answered.
func (q *queue) send(ctx context.Context, path string) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	q.wg.Go(func() { q.handler.ServeHTTP(rec, r) })
	synctest.Wait()
	return rec
}

func (q *queue) check(t *testing.T, want []string, events []evaluate.VerdictKind) {
	t.Helper()
	q.wg.Wait()
	if !slices.Equal(q.served, want) {
		t.Errorf("served %q, want %q", q.served, want)
	}
	if !slices.Equal(q.events, events) {
		t.Errorf("verdicts %v, want %v", q.events, events)
	}
}

func TestDelayOfAQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, "q: 1/s burst 3 leaky-bucket", httplimit.Options{})
		ctx := t.Context()
		a, b, c, d := q.send(ctx, "/a"), q.send(ctx, "/b"), q.send(ctx, "/c"), q.send(ctx, "/d")
		q.check(t, []string{"/a at 0s", "/b at 1s", "/c at 2s"},
			[]evaluate.VerdictKind{evaluate.Allowed, evaluate.Denied, evaluate.Delayed, evaluate.Delayed})
		for name, rec := range map[string]*httptest.ResponseRecorder{"a": a, "b": b, "c": c} {
			if rec.Code != 200 || len(rec.Header()["RateLimit"]) != 1 {
				t.Errorf("%s: status %d, fields %v", name, rec.Code, rec.Header())
			}
		}
		if d.Code != 429 || field(d, "Retry-After") != "1" {
			t.Errorf("the fourth: status %d, fields %v", d.Code, d.Header())
		}
		if got, want := field(c, "RateLimit"), `"api";r=0;t=1`; got != want { // as it is after the delay of 2 s
			t.Errorf("the third: RateLimit %s, want %s", got, want)
		}
	})
}

// A client that hangs up while waiting gives back its units and its place.
func TestHangingUpGivesBack(t *testing.T) {
	for _, c := range []struct {
		name  string
		limit string
		o     httplimit.Options
	}{
		{"queue", "q: 1/s burst 2 leaky-bucket", httplimit.Options{}},
		{"reservation", "t: 1/s burst 1", httplimit.Options{MaxWait: time.Second}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQueue(t, c.limit, c.o)
				hangUp, cancel := context.WithCancel(t.Context())
				q.send(t.Context(), "/a")
				b := q.send(hangUp, "/b")
				if denied := q.send(t.Context(), "/c"); denied.Code != 429 {
					t.Errorf("while b waits: status %d, want 429", denied.Code)
				}
				time.Sleep(500 * time.Millisecond) // of the bubble: b is halfway to its turn
				cancel()
				synctest.Wait()
				if b.Code != 503 {
					t.Errorf("b: status %d, want 503", b.Code)
				}
				q.send(t.Context(), "/d") // is given b's turn
				q.check(t, []string{"/a at 0s", "/d at 1s"},
					[]evaluate.VerdictKind{evaluate.Allowed, evaluate.Denied, evaluate.Abandoned, evaluate.Delayed})
			})
		})
	}
}

// A request that could pass only after its deadline is denied at once and charged nothing.
func TestDeadlineBeforeTheTurn(t *testing.T) {
	for _, c := range []struct {
		name  string
		limit string
		o     httplimit.Options
	}{
		{"queue", "q: 1/s burst 3 leaky-bucket", httplimit.Options{}},
		{"reservation", "t: 1/s burst 1", httplimit.Options{MaxWait: time.Minute}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQueue(t, c.limit, c.o)
				short, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
				defer cancel()
				q.send(short, "/a")
				q.send(short, "/b")
				denied := q.send(short, "/c")
				if at := time.Since(q.start); denied.Code != 429 || at != 0 {
					t.Errorf("status %d after %v, want 429 at once", denied.Code, at)
				}
				q.send(t.Context(), "/d")
				q.check(t, []string{"/a at 0s", "/b at 1s", "/d at 2s"},
					[]evaluate.VerdictKind{evaluate.Allowed, evaluate.Denied, evaluate.Delayed, evaluate.Delayed})
			})
		})
	}
}

func TestMaxWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, "t: 1/s burst 1 ", httplimit.Options{MaxWait: 2 * time.Second})
		ctx := t.Context()
		q.send(ctx, "/a")
		q.send(ctx, "/b")
		q.send(ctx, "/c")
		if d := q.send(ctx, "/d"); d.Code != 429 {
			t.Errorf("a wait of 3 s: status %d, want 429", d.Code)
		}
		q.check(t, []string{"/a at 0s", "/b at 1s", "/c at 2s"},
			[]evaluate.VerdictKind{evaluate.Allowed, evaluate.Denied, evaluate.Delayed, evaluate.Delayed})
	})
}

// The refund of a request that has waited is relative to its instant.
func TestRefundAfterADelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, "q: 1/s burst 2 leaky-bucket", httplimit.Options{})
		q.send(t.Context(), "/a")
		q.send(t.Context(), "/missing")
		time.Sleep(time.Second)
		synctest.Wait()
		q.send(t.Context(), "/c")
		q.check(t, []string{"/a at 0s", "/missing at 1s", "/c at 1s"}, []evaluate.VerdictKind{evaluate.Allowed, evaluate.Delayed, evaluate.Allowed})
	})
}

// In shadow mode no request waits, but denials are reported.
func TestShadowDoesNotDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := rule(t, "api", policy.IP(), "q: 1/s burst 2 leaky-bucket")
		api.Shadow = true
		q := newQueueOf(t, api, httplimit.Options{})
		for _, path := range []string{"/a", "/b", "/c"} {
			q.send(t.Context(), path)
		}
		q.check(t, []string{"/a at 0s", "/b at 0s", "/c at 0s"}, []evaluate.VerdictKind{evaluate.Allowed, evaluate.Allowed, evaluate.Allowed})
	})
}
