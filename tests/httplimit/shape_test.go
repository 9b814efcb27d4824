// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/remote"
)

const (
	down = "  - {name: down, by: ip, cost: response-bytes, shape: true, limits: 10000B/s leaky-bucket burst 2000}\n"
	up   = "  - {name: up, by: ip, cost: request-bytes, shape: true, limits: 10000B/s leaky-bucket burst 2000}\n"
)

// slowed returns a rule that shapes responses under other limits.
func slowed(limits string) string {
	return "  - {name: down, by: ip, cost: response-bytes, shape: true, limits: " + limits + "}\n"
}

// TestShaping: bodies pass whole, at most at the pace of the limit, which all responses of a
// client share; requests cost nothing else.
func TestShaping(t *testing.T) {
	const size = 50_000 // 5 s at 10,000 bytes a second
	body := strings.Repeat("x", size)
	for _, c := range []struct {
		name, yaml, method string
		least, most        time.Duration
	}{
		{"a response", down, "GET", 4800 * time.Millisecond, 5 * time.Second},
		{"a request", up, "POST", 4800 * time.Millisecond, 5 * time.Second},
		{"both by themselves", down + up, "POST", 4800 * time.Millisecond, 10 * time.Second},
		{"a token bucket", slowed("10000B/s burst 2000"), "GET", 4800 * time.Millisecond, 5 * time.Second},
		{"a meter", slowed("10000B/s leaky-bucket burst 2000 nodelay"), "GET", 4800 * time.Millisecond, 5 * time.Second},
		{"a fixed window", slowed("10000B/s fixed-window"), "GET", 4 * time.Second, 5 * time.Second},
		{"a sliding window", slowed("10000B/s sliding-histogram"), "GET", 4 * time.Second, 5 * time.Second},
		{"the slower of two", slowed("[10000B/s burst 2000, \"fast: 1MB/s\"]"), "GET", 4800 * time.Millisecond, 5 * time.Second},
		{"neither", down + up, "HEAD", 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGuard(t, c.yaml, func(w http.ResponseWriter, r *http.Request) {
					if r.Method != http.MethodPost {
						if _, err := io.WriteString(w, body); err != nil {
							t.Error(err)
						}
						return
					}
					if _, err := io.Copy(w, r.Body); err != nil {
						t.Error(err)
					}
				}, httplimit.Options{})
				sent := ""
				if c.method == http.MethodPost {
					sent = body
				}
				start := time.Now()
				w := answer(g, requestOf(t, c.method, "/", sent))
				took := time.Since(start)
				if took < c.least || took > c.most {
					t.Errorf("took %v, want %v to %v", took, c.least, c.most)
				}
				if w.Code != http.StatusOK || c.method != http.MethodHead && w.Body.String() != body {
					t.Errorf("got %d with %d bytes, want 200 with %d", w.Code, w.Body.Len(), size)
				}
			})
		})
	}
}

// TestShapingByAShare: while the store is unavailable, bodies pass whole at the pace of the
// node's share, which holds less than a chunk of the limit.
func TestShapingByAShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, err := remote.Wrap(testkit.Failing(errDown), remote.Options{
			Policy: sluice.FailLocal, Local: memstore.New(memstore.Options{}), Nodes: func() int { return 5 },
		})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = store.Close() }() // never fails
		body := strings.Repeat("x", 20_000)
		g := newGuard(t, strings.Replace(down, "shape: true", "shape: true, failure: local", 1), func(w http.ResponseWriter, _ *http.Request) {
			if _, err := io.WriteString(w, body); err != nil {
				t.Error(err)
			}
		}, httplimit.Options{Store: store})
		start := time.Now()
		w := answer(g, requestOf(t, http.MethodGet, "/", ""))
		if took := time.Since(start); w.Body.String() != body || took < 9*time.Second || took > 10*time.Second { // at 2,000 bytes a second
			t.Errorf("%d bytes in %v, want %d in 9 to 10 s", w.Body.Len(), took, len(body))
		}
	})
}

// TestShapingIsShared: two downloads of one client together have one pace.
func TestShapingIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(t, down, func(w http.ResponseWriter, _ *http.Request) {
			if _, err := io.WriteString(w, strings.Repeat("x", 20_000)); err != nil {
				t.Error(err)
			}
		}, httplimit.Options{})
		start := time.Now()
		done := make(chan time.Duration, 2)
		for range 2 {
			go func() {
				answer(g, requestOf(t, "GET", "/", ""))
				done <- time.Since(start)
			}()
		}
		if took := max(<-done, <-done); took < 3800*time.Millisecond || took > 4*time.Second {
			t.Errorf("took %v for 40,000 bytes at 10,000 a second", took)
		}
	})
}

// TestShapingEndsWithTheClient: a client that hangs up while bytes wait gives their units back.
func TestShapingEndsWithTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failed error
		g := newGuard(t, down, func(w http.ResponseWriter, r *http.Request) {
			_, err := io.WriteString(w, strings.Repeat("x", 20_000))
			if r.URL.Path == "/gone" {
				failed = err
			} else if err != nil {
				t.Error(err)
			}
		}, httplimit.Options{})
		ctx, hangUp := context.WithTimeout(t.Context(), time.Second)
		defer hangUp()
		start := time.Now()
		answer(g, requestOf(t, "GET", "/gone", "").WithContext(ctx))
		if !errors.Is(failed, context.DeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("ended with %v after %v, want the context's end after 1s", failed, time.Since(start))
		}
		start = time.Now()
		answer(g, requestOf(t, "GET", "/", ""))
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("the next took %v, want at most 2s", took)
		}
	})
}

var errAway = errors.New("the store is unavailable")

// TestStoreAway: without the store the rules' failure policies apply, and errors are
// reported.
func TestStoreAway(t *testing.T) {
	for _, c := range []struct {
		name, yaml string
		status     int
		cut        bool
	}{
		{"open", "  - {name: a, limits: 1/min}", 200, false},
		{"closed", "  - {name: a, limits: 1/min, failure: closed}", 503, false},
		{"shaped and open", down, 200, false},
		{"shaped and closed", strings.Replace(down, "by: ip", "by: ip, failure: closed", 1), 200, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var reported errorList
			var failed error
			g := newGuard(t, c.yaml, func(w http.ResponseWriter, _ *http.Request) {
				_, failed = io.WriteString(w, "text")
			}, httplimit.Options{Store: testkit.Failing(errAway), OnError: reported.report})
			w := answer(g, requestOf(t, "GET", "/", ""))
			if w.Code != c.status || errors.Is(failed, errAway) != c.cut {
				t.Errorf("got %d, write %v; want %d, cut %v", w.Code, failed, c.status, c.cut)
			}
			if strings.Contains(w.Body.String(), "away") {
				t.Errorf("the client sees: %s", w.Body)
			}
			if all := reported.all(); len(all) == 0 || !errors.Is(all[0], errAway) {
				t.Errorf("reported %v", all)
			}
		})
	}
}

// TestShapingGivesUp: bytes that could not pass in time are cut off.
func TestShapingGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := make(chan error, 8)
		start := time.Now()
		g := newGuard(t, strings.Replace(slowed("1000B/s burst 1000"), "shape: true", "shape: true, max_wait: 1s", 1), func(w http.ResponseWriter, r *http.Request) {
			_, err := io.WriteString(w, strings.Repeat("x", 5000))
			if r.URL.Path == "/late" {
				late <- err
			} else if err != nil {
				t.Error(err)
			}
		}, httplimit.Options{})
		answer(g, requestOf(t, "GET", "/", "")) // is alone, so that each part comes in time
		if took := time.Since(start); took < 4*time.Second || took > 5*time.Second {
			t.Errorf("5000 bytes at 1000 a second took %v", took)
		}
		var others sync.WaitGroup
		for range 4 {
			others.Go(func() { answer(g, requestOf(t, "GET", "/late", "")) })
		}
		others.Wait()
		close(late)
		cut := 0
		for err := range late {
			if err != nil && strings.Contains(err.Error(), "within 1s") {
				cut++
			}
		}
		if cut == 0 {
			t.Error("four shared a pace that is too slow for them, and none was cut off")
		}
	})
}
