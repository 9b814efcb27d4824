// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httpclient_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/httpclient"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
)

// arrivals is a server that states no limits and records when requests came.
type arrivals struct {
	began time.Time
	deny  int // the number of first requests that it denies

	mu   sync.Mutex
	came []time.Duration
}

func (a *arrivals) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.came = append(a.came, time.Since(a.began)); len(a.came) <= a.deny {
		w.WriteHeader(http.StatusTooManyRequests)
	}
}

func newClient(t *testing.T, o httpclient.TransportOptions) *http.Client {
	t.Helper()
	rt, err := httpclient.NewTransport(o)
	if err != nil {
		t.Fatal(err)
	}
	return &http.Client{Transport: rt}
}

func limiter(t *testing.T, store sluice.Store, limit string) *sluice.Limiter {
	t.Helper()
	l, err := sluice.New(store, "outbound", sluice.MustParseLimit(limit))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestLimiter: clients that share a store together keep to their own limit, for each host and
// partition, at a server that states none.
func TestLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &arrivals{began: time.Now()}
		server, store := base(t, a), memstore.New(memstore.Options{})
		var both [2]*http.Client
		for i := range both {
			both[i] = newClient(t, httpclient.TransportOptions{
				Base: server, Limiter: limiter(t, store, "1/s burst 1"),
				Partition: func(r *http.Request) string { return r.URL.Query().Get("key") },
			})
		}
		for _, of := range []string{"http://a.example/", "http://b.example/", "http://a.example/?key=x"} {
			a.came, a.began = nil, time.Now()
			var wg sync.WaitGroup
			for i := range 6 {
				wg.Go(func() {
					if status, err := get(t.Context(), both[i%2], of); err != nil || status != http.StatusOK {
						t.Error(status, err)
					}
				})
			}
			wg.Wait()
			if want := []time.Duration{0, 1e9, 2e9, 3e9, 4e9, 5e9}; !slices.Equal(a.came, want) {
				t.Errorf("%s: came after %v, want %v", of, a.came, want)
			}
		}
	})
}

// TestLimiterRefuses: a request that would wait longer than MaxWait is not sent and spends
// nothing; one whose caller leaves gives back its reservation.
func TestLimiterRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &arrivals{began: time.Now()}
		c := newClient(t, httpclient.TransportOptions{
			Base: base(t, a), MaxWait: 3 * time.Second, Limiter: limiter(t, memstore.New(memstore.Options{}), "1/2s burst 1"),
		})
		ask := func(ctx context.Context) error {
			_, err := get(ctx, c, "http://a.example/")
			return err
		}
		if err := ask(t.Context()); err != nil {
			t.Fatal(err)
		}
		leaves, leave := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() { left <- ask(leaves) }()
		synctest.Wait()
		denied, ok := errors.AsType[*sluice.DeniedError](ask(t.Context()))
		if !ok || denied.Decision.RetryAfter <= 0 {
			t.Errorf("got %v, want a denial that says when", denied)
		}
		leave()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want %v", err, context.Canceled)
		}
		if err := ask(t.Context()); err != nil || !slices.Equal(a.came, []time.Duration{0, 2 * time.Second}) {
			t.Errorf("%v; came after %v", err, a.came)
		}
	})
}

// TestLimiterCountsAttempts: each attempt takes a unit. Without one in time the server's answer
// is returned.
func TestLimiterCountsAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &arrivals{began: time.Now(), deny: 10}
		c := newClient(t, httpclient.TransportOptions{
			Base: base(t, a), MaxWait: time.Minute, MaxRetries: 9, Limiter: limiter(t, memstore.New(memstore.Options{}), "3/h fixed-window anchor first"),
		})
		if status, err := get(t.Context(), c, "http://a.example/"); err != nil || status != http.StatusTooManyRequests || len(a.came) != 3 {
			t.Errorf("status %d, %v, sent %d times; want 429 after 3", status, err, len(a.came))
		}
	})
}

// TestLimiterWithoutStore: a request that was not counted is not sent.
func TestLimiterWithoutStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, away := &arrivals{began: time.Now()}, errors.New("the store is unavailable")
		c := newClient(t, httpclient.TransportOptions{Base: base(t, a), Limiter: limiter(t, testkit.Failing(away), "1/s")})
		for range 2 {
			if _, err := get(t.Context(), c, "http://a.example/"); !errors.Is(err, away) || len(a.came) > 0 {
				t.Errorf("got %v, and %d were sent", err, len(a.came))
			}
		}
	})
}
