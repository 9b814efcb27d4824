// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httpclient_test

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/httpclient"
	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
)

// base starts a server in the bubble and returns a RoundTripper to it.
func base(t *testing.T, h http.Handler) *http.Transport {
	t.Helper()
	l := testkit.NewPipes()
	base := &http.Transport{DialContext: l.Dial, MaxIdleConnsPerHost: 200}
	srv := &http.Server{Handler: h, ErrorLog: log.New(io.Discard, "", 0)}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	t.Cleanup(func() {
		base.CloseIdleConnections()
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("server: %v", err)
		}
	})
	return base
}

// limited returns a client of a server in the bubble. The client keeps to the server's limits.
func limited(t *testing.T, h http.Handler, o httpclient.TransportOptions) *http.Client {
	t.Helper()
	o.Base = base(t, h)
	rt, err := httpclient.NewTransport(o)
	if err != nil {
		t.Fatal(err)
	}
	return &http.Client{Transport: rt}
}

// get returns the status of a request's answer, whose body it reads.
func get(ctx context.Context, c *http.Client, url string) (int, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	res, err := c.Do(r)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, res.Body)
	return res.StatusCode, errors.Join(err, res.Body.Close())
}

var ok = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
	if _, err := io.WriteString(w, "ok\n"); err != nil {
		panic(err)
	}
})

// perAddress is a rule with one limit for each address.
func perAddress(t testing.TB, text string) policy.Rule {
	t.Helper()
	limit, err := sluice.ParseLimit(text)
	if err != nil {
		t.Fatal(err)
	}
	return policy.NewRule("api", policy.IP(), limit)
}

// counter is a middleware on a real store that counts its decisions.
type counter struct {
	http.Handler
	allowed, denied atomic.Int64
}

func newCounter(t *testing.T, fields httplimit.Fields, limit string) *counter {
	t.Helper()
	return newCounterOf(t, fields, perAddress(t, limit))
}

// newCostlyCounter is newCounter for requests at a cost.
func newCostlyCounter(t *testing.T, limit string, cost int64) *counter {
	t.Helper()
	rule := perAddress(t, limit)
	rule.Cost.Units = cost
	return newCounterOf(t, 0, rule)
}

func newCounterOf(t *testing.T, fields httplimit.Fields, rule policy.Rule) *counter {
	t.Helper()
	c := &counter{}
	mw, err := httplimit.New(httplimit.Options{
		Store:  memstore.New(memstore.Options{}),
		Rules:  []policy.Rule{rule},
		Fields: fields,
		OnDecision: func(_ *http.Request, e httplimit.Event) {
			if e.Verdict == evaluate.Denied {
				c.denied.Add(1)
			} else {
				c.allowed.Add(1)
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	c.Handler = mw.Wrap(ok)
	return c
}
