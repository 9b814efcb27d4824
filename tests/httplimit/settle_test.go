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
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/policy"
)

// A streamed body reaches the client while it is written; all of it is charged, and a request
// after the quota is spent is denied.
func TestStreamedResponseBytes(t *testing.T) {
	c := newClock()
	const limit = "100B/min sliding-log debt 100B"
	store, plan := newStore(c), testkit.Plan(t, "video", limit)
	part := strings.Repeat("x", 30)
	received := make(chan struct{})
	h := newMiddleware(t, httplimit.Options{Store: store, Rules: []policy.Rule{rule(t, "video", policy.IP(), limit)}}).
		Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for range 2 {
				write(t, w, part)
				w.(http.Flusher).Flush()
				<-received // goes on only when the client has this part
			}
			if _, err := io.Copy(w, strings.NewReader(part)); err != nil {
				t.Error(err)
			}
		}))
	srv := httptest.NewServer(h)
	defer srv.Close()
	get := func() (status int, body string) {
		resp, err := srv.Client().Get(srv.URL)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := resp.Body.Close(); err != nil {
				t.Error(err)
			}
		}()
		if resp.StatusCode == http.StatusOK {
			buf := make([]byte, len(part))
			for range 2 {
				if _, err := io.ReadFull(resp.Body, buf); err != nil {
					t.Fatal(err)
				}
				body += string(buf)
				received <- struct{}{}
			}
		}
		rest, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, body + string(rest)
	}
	for i, want := range []int64{90, 180} { // the second was let in by 10 units, and is charged in full
		if status, body := get(); status != 200 || len(body) != 90 {
			t.Fatalf("request %d: status %d, %d bytes", i+1, status, len(body))
		}
		d, err := store.Take(context.Background(), sluice.Request{Op: sluice.OpPeek, Charge: sluice.Charge{Plan: plan, Key: "127.0.0.1", Cost: 1}})
		if err != nil || d.Allowed != (want < 100) {
			t.Fatalf("after %d bytes: %+v, %v", want, d, err)
		}
	}
	if status, _ := get(); status != 429 {
		t.Errorf("the request after the quota was spent: status %d, want 429", status)
	}
	c.Advance(time.Minute)
	if status, _ := get(); status != 200 {
		t.Errorf("a window later: status %d, want 200", status)
	}
}

// A body without Content-Length is charged while it is read, and denied where it does not fit.
func TestRequestBytesOfUnknownLength(t *testing.T) {
	const limit = "100B/min sliding-log"
	store, plan := newStore(newClock()), testkit.Plan(t, "upload", limit)
	h := newMiddleware(t, httplimit.Options{
		Store: store,
		Rules: []policy.Rule{costing(rule(t, "upload", policy.IP(), limit), policy.Cost{Of: policy.RequestBytes})},
	}).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, io.LimitReader(r.Body, 60))
		write(t, w, fmt.Sprint(n, err))
	}))
	srv := httptest.NewServer(h)
	defer srv.Close()
	var got []string
	for _, size := range []int{25, 90, 90, 90} {
		body := struct{ io.Reader }{strings.NewReader(strings.Repeat("x", size))} // hides its length
		resp, err := srv.Client().Post(srv.URL, "text/plain", body)
		if err != nil {
			t.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprint(resp.StatusCode, " ", spent(t, store, plan, "127.0.0.1")))
	}
	if want := []string{"200 25", "200 85", "429 85", "429 85"}; !slices.Equal(got, want) {
		t.Errorf("status and units: %q, want %q", got, want)
	}
}

// A handler that panics has cost the bytes that it wrote, or 1 if none, and the panic goes on.
func TestPanickingHandlerIsSettled(t *testing.T) {
	store := newStore(newClock())
	var statuses []int
	h := newMiddleware(t, httplimit.Options{
		Store: store,
		Rules: []policy.Rule{
			rule(t, "b", policy.IP(), "100B/min"),
			costing(rule(t, "r", policy.IP(), "10/min"), policy.Cost{Func: &policy.CostFunc{
				After: func(_ policy.Attributes, r *policy.Response) int64 {
					statuses = append(statuses, r.Status)
					return -1
				},
			}}),
		},
	}).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/started" {
			write(t, w, "0123456789")
		}
		panic(http.ErrAbortHandler)
	}))
	for _, path := range []string{"/started", "/"} {
		func() {
			defer func() {
				got := recover()
				if err, _ := got.(error); !errors.Is(err, http.ErrAbortHandler) {
					t.Errorf("recovered %v", got)
				}
			}()
			ask(t, h, path)
		}()
	}
	if got := spent(t, store, testkit.Plan(t, "b", "100B/min"), client); got != 11 || !slices.Equal(statuses, []int{200, 500}) {
		t.Errorf("%d bytes, statuses %v; want 11, [200 500]", got, statuses)
	}
}

// A correction that fails is reported; the client's answer does not change.
func TestErrorsAfterTheResponseAreReported(t *testing.T) {
	store := &testkit.Store{Store: newStore(newClock())}
	var seen []error
	h := newMiddleware(t, httplimit.Options{
		Store:   store,
		Rules:   []policy.Rule{rule(t, "b", policy.IP(), "100B/min")},
		OnError: func(_ *http.Request, err error) { seen = append(seen, err) },
	}).Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		store.Before = outage
		write(t, w, "0123456789")
	}))
	if rec := ask(t, h, "/"); rec.Code != 200 || rec.Body.Len() != 10 || len(seen) != 1 || !errors.Is(seen[0], errDown) {
		t.Errorf("status %d, %d bytes, errors %v", rec.Code, rec.Body.Len(), seen)
	}
}

// Bytes sent to a client that hangs up are charged: settling does not end with the request's
// context.
func TestSettlingOutlivesTheRequest(t *testing.T) {
	store, plan := contextual(newStore(newClock())), testkit.Plan(t, "b", "100B/min")
	h := newMiddleware(t, httplimit.Options{
		Store: store, Rules: []policy.Rule{rule(t, "b", policy.IP(), "100B/min")},
		OnError: func(_ *http.Request, err error) { t.Error(err) },
	})
	ctx, cancel := context.WithCancel(context.Background())
	h.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		write(t, w, "0123456789")
		cancel()
	})).ServeHTTP(httptest.NewRecorder(), request(t, "/").WithContext(ctx))
	if got := spent(t, store, plan, client); got != 10 {
		t.Errorf("%d units, want 10", got)
	}
}

// contextual returns a store that fails like one over a network when its context ends.
func contextual(s sluice.Store) *testkit.Store {
	return &testkit.Store{Store: s, Before: func(ctx context.Context, _ sluice.Request) error { return ctx.Err() }}
}
