// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httpclient_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice/httpclient"
)

// trickle returns a handler that denies with a body of n dots, one every 100 ms.
func trickle(retryAfter string, n int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", retryAfter)
		w.WriteHeader(http.StatusTooManyRequests)
		for range n {
			if err := http.NewResponseController(w).Flush(); err != nil {
				return // the client is gone
			}
			select {
			case <-time.After(100 * time.Millisecond):
			case <-r.Context().Done():
				return
			}
			if _, err := io.WriteString(w, "."); err != nil {
				return
			}
		}
	}
}

// TestTransportDoesNotWaitForBodies: a denial delays a request for its limit only, however
// slowly its body comes; if it is returned its body is whole.
func TestTransportDoesNotWaitForBodies(t *testing.T) {
	const endless = 1_000_000
	for _, c := range []struct {
		name     string
		answer   http.HandlerFunc
		maxWait  time.Duration
		status   int
		from, to time.Duration // of the answer
		body     string
	}{
		{"slow, and too long a wait", trickle("3600", 40), 500 * time.Millisecond, 429, 0, 0, strings.Repeat(".", 40)},
		{"endless, and too long a wait", trickle("3600", endless), 500 * time.Millisecond, 429, 0, 0, "..."},
		{"slow, and repeated", trickle("8", 40), time.Minute, 200, 8 * time.Second, 9 * time.Second, ""},
		{"slower than the wait", trickle("8", 400), time.Minute, 200, 8 * time.Second, 9 * time.Second, ""},
		{"endless, and repeated", trickle("8", endless), time.Minute, 200, 8 * time.Second, 9 * time.Second, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{answers: []http.HandlerFunc{c.answer}, start: time.Now()}
				client := limited(t, s, httpclient.TransportOptions{MaxWait: c.maxWait})
				res := fetch(t.Context(), t, client)
				if took := time.Since(s.start); res.StatusCode != c.status || took < c.from || took > c.to {
					t.Errorf("got %d after %v; want %d after %v to %v", res.StatusCode, took, c.status, c.from, c.to)
				}
				got := make([]byte, len(c.body))
				_, err := io.ReadFull(res.Body, got)
				if err = errors.Join(err, res.Body.Close()); err != nil || string(got) != c.body {
					t.Errorf("got the body %q, %v; want %q", got, err, c.body)
				}
			})
		})
	}
}

// TestTransportLosesNothingOfABody: an answer that was being read ahead when the wait became too
// long is returned whole.
func TestTransportLosesNothingOfABody(t *testing.T) {
	for _, c := range []struct {
		name string
		body int
	}{{"while it comes", 200}, {"as it has come", 20}, {"empty", 0}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				late := func(w http.ResponseWriter, r *http.Request) {
					time.Sleep(time.Second)
					trickle("3600", 0)(w, r)
				}
				s := &script{answers: []http.HandlerFunc{late, trickle("8", c.body)}, start: time.Now()}
				client := limited(t, s, httpclient.TransportOptions{MaxWait: 10 * time.Second})
				done := make(chan error, 1)
				go func() {
					_, err := get(t.Context(), client, "http://api.test/")
					done <- err
				}()
				synctest.Wait()
				res := fetch(t.Context(), t, client)
				if took := time.Since(s.start); res.StatusCode != http.StatusTooManyRequests || took < 8*time.Second || took > 10*time.Second {
					t.Errorf("got %d after %v; want 429 after 8s to 10s", res.StatusCode, took)
				}
				body, err := io.ReadAll(res.Body)
				if err = errors.Join(err, res.Body.Close(), <-done); err != nil || string(body) != strings.Repeat(".", c.body) {
					t.Errorf("got %d bytes, %v; want %d", len(body), err, c.body)
				}
			})
		})
	}
}

// TestTransportFreesConnections: a small answer does not keep its connection while the request
// waits.
func TestTransportFreesConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answers: []http.HandlerFunc{trickle("8", 3)}, start: time.Now()}
		client := limited(t, s, httpclient.TransportOptions{})
		var reused []bool
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
			GotConn: func(i httptrace.GotConnInfo) { reused = append(reused, i.Reused) },
		})
		res := fetch(ctx, t, client)
		if err := res.Body.Close(); err != nil || res.StatusCode != http.StatusOK {
			t.Errorf("got %d, %v; want 200", res.StatusCode, err)
		}
		if len(reused) != 2 || !reused[1] {
			t.Errorf("got connections used before: %v; want the second to be", reused)
		}
	})
}

// fetch returns an answer whose body belongs to the caller.
func fetch(ctx context.Context, t *testing.T, c *http.Client) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://api.test/", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	return res
}
