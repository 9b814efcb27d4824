// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httpclient_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice/httpclient"
	"github.com/sluicegate/sluice/httplimit"
)

// TestTransportStaysWithinLimits: after its first answer a client is never denied, whether its
// requests come one by one or all at once, and it gets its quota.
func TestTransportStaysWithinLimits(t *testing.T) {
	const n = 100
	for _, c := range []struct {
		name   string
		limit  string
		server httplimit.Fields
		atMost time.Duration // by then all n must have passed
	}{
		{"token bucket", "10/s", 0, 10 * time.Second},
		{"small burst", "10/s burst 3", 0, 10 * time.Second},
		{"smallest burst", "10/s burst 1", 0, 10 * time.Second},
		{"leaky bucket", "10/s leaky-bucket", 0, 10 * time.Second},
		{"leaky bucket that queues", "10/s leaky-bucket burst 5", 0, 10 * time.Second},
		{"fixed window", "10/s fixed-window", 0, 10 * time.Second},
		{"sliding log", "10/s sliding-log", 0, 10 * time.Second},
		{"sliding log of a minute", "10/min sliding-log", 0, 10 * time.Minute},
		{"sliding histogram", "10/s sliding-histogram", 0, 10 * time.Second},
		// Of a sliding counter the client knows only that a unit is forgotten two windows
		// later.
		{"sliding counter", "10/s sliding-counter", 0, 20 * time.Second},
		{"X-RateLimit", "10/s", httplimit.XRateLimit, 12 * time.Second},
		{"X-RateLimit since 1970", "10/s", httplimit.XRateLimitEpoch, 12 * time.Second},
	} {
		for _, together := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s together=%v", c.name, together), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					time.Sleep(2 * 366 * 24 * time.Hour) // from 2000 on, past the 10^9th second
					h := newCounter(t, c.server, c.limit)
					client := limited(t, h, httpclient.TransportOptions{MaxWait: time.Hour})
					start := time.Now()
					ask := func() {
						status, err := get(t.Context(), client, "http://api.test/")
						if err != nil || status != http.StatusOK {
							t.Errorf("got %d, %v; want 200", status, err)
						}
					}
					ask()
					var wg sync.WaitGroup
					for range n - 1 {
						if together {
							wg.Go(ask)
						} else {
							ask()
						}
					}
					wg.Wait()
					if got := h.denied.Load(); got != 0 {
						t.Errorf("%d requests were denied; want 0", got)
					}
					if got := h.allowed.Load(); got != n {
						t.Errorf("%d requests were allowed; want %d", got, n)
					}
					if took := time.Since(start); took > c.atMost {
						t.Errorf("took %v; want at most %v", took, c.atMost)
					}
				})
			})
		}
	}
}

// TestTransportRecovers: part of a first burst is denied, as no limit has been stated; each
// request once at most, and all pass in the end.
func TestTransportRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newCounter(t, 0, "10/s")
		together := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Millisecond) // until all have arrived
			h.ServeHTTP(w, r)
		})
		client := limited(t, together, httpclient.TransportOptions{})
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				if status, err := get(t.Context(), client, "http://api.test/"); err != nil || status != http.StatusOK {
					t.Errorf("got %d, %v; want 200", status, err)
				}
			})
		}
		wg.Wait()
		if got := h.allowed.Load(); got != 100 {
			t.Errorf("%d allowed; want 100", got)
		}
		if got := h.denied.Load(); got != 90 {
			t.Errorf("%d denied; want 90: those above the burst, once each", got)
		}
	})
}

// script answers the n-th request with the n-th function, and 200 from then on.
type script struct {
	answers []http.HandlerFunc
	mu      sync.Mutex
	start   time.Time
	at      []time.Duration
	bodies  []string
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err)
	}
	s.mu.Lock()
	n := len(s.at)
	s.at = append(s.at, time.Since(s.start))
	s.bodies = append(s.bodies, string(body))
	s.mu.Unlock()
	if n < len(s.answers) {
		s.answers[n](w, r)
	}
}

// answer sends a status with header fields, as in "Retry-After: 1".
func answer(status int, fields ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for _, f := range fields {
			name, value, _ := strings.Cut(f, ": ")
			w.Header()[name] = append(w.Header()[name], value)
		}
		w.WriteHeader(status)
		if _, err := io.WriteString(w, "answer"); err != nil {
			panic(err)
		}
	}
}

func TestTransportRetries(t *testing.T) {
	date := func(d time.Duration) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			// A server whose clock is an hour ahead says so in Date.
			now := time.Now().Add(time.Hour).UTC()
			w.Header().Set("Date", now.Format(http.TimeFormat))
			answer(http.StatusTooManyRequests, "Retry-After: "+now.Add(d).Format(http.TimeFormat))(w, r)
		}
	}
	denial := answer(http.StatusTooManyRequests, "Retry-After: 8")
	for _, c := range []struct {
		name     string
		answers  []http.HandlerFunc
		opts     httpclient.TransportOptions
		method   string
		key      string
		body     io.Reader
		want     int           // status
		attempts int           // seen by the server
		from, to time.Duration // when the second is sent
	}{
		{name: "seconds", answers: []http.HandlerFunc{denial}, want: 200, attempts: 2, from: 8 * time.Second, to: 9 * time.Second},
		{name: "date", answers: []http.HandlerFunc{date(8 * time.Second)}, want: 200, attempts: 2, from: 8 * time.Second, to: 9 * time.Second},
		{name: "503", answers: []http.HandlerFunc{answer(503, "Retry-After: 8")}, want: 200, attempts: 2, from: 8 * time.Second, to: 9 * time.Second},
		{name: "without Retry-After", answers: []http.HandlerFunc{answer(503)}, want: 200, attempts: 2, from: 250 * time.Millisecond, to: 500 * time.Millisecond},
		{name: "nothing left", answers: []http.HandlerFunc{answer(429, `RateLimit: "a";r=0;t=8`)}, want: 200, attempts: 2, from: 8 * time.Second, to: 9 * time.Second},
		{name: "nonsense", answers: []http.HandlerFunc{answer(429, "Retry-After: soon")}, want: 200, attempts: 2, from: 250 * time.Millisecond, to: 500 * time.Millisecond},
		{name: "other failures are not ours", answers: []http.HandlerFunc{answer(502)}, want: 502, attempts: 1},
		{name: "nor with another text", answers: []http.HandlerFunc{answer(403, "Retry-After: soon")}, want: 403, attempts: 1},
		{name: "decimals, as Shopify sends", answers: []http.HandlerFunc{answer(429, "Retry-After: 8.0")}, want: 200, attempts: 2, from: 8 * time.Second, to: 9 * time.Second},
		{name: "less than a second", answers: []http.HandlerFunc{answer(429, "Retry-After: 0.9")}, want: 200, attempts: 2, from: 900 * time.Millisecond, to: 1015 * time.Millisecond},
		{name: "at once", answers: []http.HandlerFunc{answer(502, "Retry-After: 0")}, want: 200, attempts: 2, from: 250 * time.Millisecond, to: 500 * time.Millisecond},
		{name: "count spent", answers: []http.HandlerFunc{denial, denial, denial, denial, denial}, want: 429, attempts: 4, from: 8 * time.Second, to: 9 * time.Second},
		{name: "never", opts: httpclient.TransportOptions{MaxRetries: -1}, answers: []http.HandlerFunc{denial}, want: 429, attempts: 1},
		{name: "too long", opts: httpclient.TransportOptions{MaxWait: 7 * time.Second}, answers: []http.HandlerFunc{denial}, want: 429, attempts: 1},
		{name: "longer than MaxRetryAfter", opts: httpclient.TransportOptions{MaxWait: time.Hour, MaxRetryAfter: time.Minute}, answers: []http.HandlerFunc{answer(429, "Retry-After: 1800")}, want: 200, attempts: 2, from: time.Minute, to: 68 * time.Second},
		{name: "hostile number", answers: []http.HandlerFunc{answer(429, "Retry-After: 99999999999999999999")}, want: 429, attempts: 1},
		{name: "POST", method: "POST", body: strings.NewReader("hello"), answers: []http.HandlerFunc{denial}, want: 429, attempts: 1},
		{name: "POST with a key", method: "POST", key: "k1", body: strings.NewReader("hello"), answers: []http.HandlerFunc{denial}, want: 200, attempts: 2, from: 8 * time.Second, to: 9 * time.Second},
		{name: "POST that may", method: "POST", opts: httpclient.TransportOptions{Repeatable: func(*http.Request) bool { return true }}, body: strings.NewReader("hello"), answers: []http.HandlerFunc{denial}, want: 200, attempts: 2, from: 8 * time.Second, to: 9 * time.Second},
		{name: "PUT", method: "PUT", body: strings.NewReader("hello"), answers: []http.HandlerFunc{denial}, want: 200, attempts: 2, from: 8 * time.Second, to: 9 * time.Second},
		{name: "PUT of a stream", method: "PUT", body: io.MultiReader(strings.NewReader("hello")), answers: []http.HandlerFunc{denial}, want: 429, attempts: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{answers: c.answers, start: time.Now()}
				client := limited(t, s, c.opts)
				method := c.method
				if method == "" {
					method = http.MethodGet
				}
				r, err := http.NewRequestWithContext(t.Context(), method, "http://api.test/", c.body)
				if err != nil {
					t.Fatal(err)
				}
				if c.key != "" {
					r.Header.Set("Idempotency-Key", c.key)
				}
				res, err := client.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(res.Body)
				if err = errors.Join(err, res.Body.Close()); err != nil || res.StatusCode != c.want {
					t.Errorf("got %d, %v; want %d", res.StatusCode, err, c.want)
				}
				if c.want != 200 && string(body) != "answer" {
					t.Errorf("got the body %q; want the server's own", body)
				}
				if len(s.at) != c.attempts {
					t.Fatalf("got %d attempts; want %d", len(s.at), c.attempts)
				}
				if c.attempts > 1 && (s.at[1] < c.from || s.at[1] > c.to) {
					t.Errorf("the second attempt came after %v; want %v to %v", s.at[1], c.from, c.to)
				}
				for i, b := range s.bodies {
					if b != s.bodies[0] || c.body != nil && b != "hello" {
						t.Errorf("attempt %d had the body %q", i+1, b)
					}
				}
			})
		})
	}
}

// TestTransportObeysAnyStatus: whatever the failure, a Retry-After delays the repeated request
// and all others; that of a redirect delays the next request.
func TestTransportObeysAnyStatus(t *testing.T) {
	for _, status := range []int{400, 403, 404, 408, 409, 413, 420, 429, 500, 502, 503, 504, 509, 529, 599} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{answers: []http.HandlerFunc{answer(status, "Retry-After: 8.5")}, start: time.Now()}
				client := limited(t, s, httpclient.TransportOptions{})
				var wg sync.WaitGroup
				for range 2 {
					wg.Go(func() {
						if got, err := get(t.Context(), client, "http://api.test/"); got != 200 || err != nil {
							t.Errorf("got %d, %v; want 200", got, err)
						}
					})
					synctest.Wait()
				}
				wg.Wait()
				if len(s.at) != 3 || s.at[1] < 8500*time.Millisecond {
					t.Errorf("got requests at %v; want two more from 8.5s on", s.at)
				}
			})
		})
	}
	t.Run("redirect", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := &script{answers: []http.HandlerFunc{answer(302, "Location: /moved", "Retry-After: 8")}, start: time.Now()}
			client := limited(t, s, httpclient.TransportOptions{})
			if got, err := get(t.Context(), client, "http://api.test/"); got != 200 || err != nil {
				t.Errorf("got %d, %v; want 200", got, err)
			}
			if got, want := fmt.Sprint(s.at), "[0s 8s]"; got != want {
				t.Errorf("got requests at %v; want %v", got, want)
			}
		})
	})
}

// TestTransportObeysOddAnswers: if an answer states the time of a retry in several ways, or
// comes from a cache, the next request still waits for the requested time.
func TestTransportObeysOddAnswers(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		fields []string
		want   time.Duration // the next request is not sent before, and at most an eighth later
	}{
		{"denied by a cache", 429, []string{"Age: 1", "Retry-After: 30"}, 29 * time.Second},
		{"denied by a cache, by a date", 503, []string{"Age: 2", "Date: Sat, 01 Jan 2000 00:00:00 GMT", "Retry-After: Sat, 01 Jan 2000 00:00:30 GMT"}, 28 * time.Second},
		{"two Retry-After", 429, []string{"Retry-After: 1", "Retry-After: 48"}, 48 * time.Second},
		{"a policy, and X-RateLimit", 200, []string{`RateLimit-Policy: "a";q=10;w=60`, "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 50"}, 50 * time.Second},
		{"a policy, and X-RateLimit, denied", 429, []string{`RateLimit-Policy: "a";q=10;w=60`, "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 50"}, 50 * time.Second},
		{"a result that is not ready", 202, []string{"Retry-After: 30"}, 0},
		{"a success from a cache", 200, []string{"Age: 1", "Retry-After: 30", "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 50"}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{answers: []http.HandlerFunc{answer(c.status, c.fields...)}, start: time.Now()}
				client := limited(t, s, httpclient.TransportOptions{})
				for len(s.at) < 2 {
					if _, err := get(t.Context(), client, "http://api.test/"); err != nil {
						t.Fatal(err)
					}
				}
				if got := s.at[1]; got < c.want || got > c.want*9/8 {
					t.Errorf("the next request was sent at %v, want %v", got, c.want)
				}
			})
		})
	}
}

// TestTransportHolds: a call that would wait too long fails at once.
func TestTransportHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answers: []http.HandlerFunc{answer(200, `RateLimit: "a";r=0;t=90`)}, start: time.Now()}
		client := limited(t, s, httpclient.TransportOptions{})
		if status, err := get(t.Context(), client, "http://api.test/"); status != 200 || err != nil {
			t.Fatal(status, err)
		}
		_, err := get(t.Context(), client, "http://api.test/")
		var hold *httpclient.WaitError
		if !errors.As(err, &hold) || hold.Host != "api.test" || hold.Wait != 90*time.Second || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v; want a WaitError of 90s for MaxWait", err)
		}
		time.Sleep(40 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 49*time.Second)
		defer cancel()
		if _, err = get(ctx, client, "http://api.test/"); !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &hold) {
			t.Errorf("got %v; want a WaitError for the deadline", err)
		}
		if got := time.Since(s.start); got != 40*time.Second {
			t.Errorf("the refusals took until %v; want 40s: no wait that is in vain", got)
		}
		// A call that gives up does not delay a later one.
		ctx, hangUp := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := get(ctx, client, "http://api.test/"); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v; want %v", err, context.Canceled)
			}
		})
		synctest.Wait()
		wg.Go(func() {
			if status, err := get(t.Context(), client, "http://api.test/"); status != 200 || err != nil {
				t.Errorf("got %d, %v; want 200", status, err)
			}
		})
		synctest.Wait()
		hangUp()
		wg.Wait()
		if len(s.at) != 2 || s.at[1] != 90*time.Second {
			t.Errorf("got requests at %v; want the second at 90s", s.at)
		}
	})
}

// TestTransportKeepsHostsApart: no request waits for another host's limit, and an answer from a
// cache states none.
func TestTransportKeepsHostsApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fields := []string{`RateLimit: "a";r=0;t=30`}
			if r.Host == "cached.test" {
				fields = append(fields, "Age: 7")
			}
			answer(200, fields...)(w, r)
		})
		client := limited(t, h, httpclient.TransportOptions{
			Partition: func(r *http.Request) string { return r.Header.Get("X-Key") },
		})
		for _, url := range []string{"http://a.test/", "http://b.test/", "http://cached.test/", "http://cached.test/"} {
			if status, err := get(t.Context(), client, url); status != 200 || err != nil {
				t.Errorf("%s: got %d, %v; want 200", url, status, err)
			}
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://a.test/", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Key", "other")
		res, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := res.Body.Close(); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("took %v; want 0: each has a budget of its own", took)
		}
		if _, err := get(t.Context(), client, "http://a.test/"); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took != 30*time.Second {
			t.Errorf("took %v; want 30s: nothing was left", took)
		}
	})
}

// TestTransportSpreads: the remaining units are spread over their time, and no further request
// is sent before that is over.
func TestTransportSpreads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answers: []http.HandlerFunc{
			answer(200, `RateLimit: "a";r=4;t=8`), answer(200), answer(200), answer(200), answer(200),
			answer(200, `RateLimit: "a";r=100;t=10`), // changed from now on: ten in a second
		}, start: time.Now()}
		client := limited(t, s, httpclient.TransportOptions{})
		for range 8 {
			if status, err := get(t.Context(), client, "http://api.test/"); status != 200 || err != nil {
				t.Fatal(status, err)
			}
		}
		const want = "[0s 2s 4s 6s 8s 10s 10.1s 10.2s]"
		if got := fmt.Sprint(s.at); got != want {
			t.Errorf("got requests at %v; want %v", got, want)
		}
	})
}

// TestTransportBlind: when the time is over and no quota is known, one request goes ahead and
// the others wait for its answer.
func TestTransportBlind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		empty := answer(200, `RateLimit: "a";r=0;t=10`)
		s := &script{answers: []http.HandlerFunc{empty, empty, empty}, start: time.Now()}
		client := limited(t, s, httpclient.TransportOptions{})
		var wg sync.WaitGroup
		if _, err := get(t.Context(), client, "http://api.test/"); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			wg.Go(func() {
				if _, err := get(t.Context(), client, "http://api.test/"); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if got, want := fmt.Sprint(s.at), "[0s 10s 20s 30s]"; got != want {
			t.Errorf("got requests at %v; want %v", got, want)
		}
	})
}

func TestNewTransportRefuses(t *testing.T) {
	_, err := httpclient.NewTransport(httpclient.TransportOptions{
		MaxWait: -1, MaxRetryAfter: -1, MaxBudgets: -1,
	})
	if err == nil {
		t.Fatal("got no error")
	}
	for _, want := range []string{"MaxWait: -1ns", "MaxRetryAfter: -1ns", "MaxBudgets: -1"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %q; want it to say %q", err, want)
		}
	}
}
