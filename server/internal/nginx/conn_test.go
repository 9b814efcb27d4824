// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package nginx_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/internal/wire"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
)

const connConfig = `
daemon off;
master_process off;
error_log stderr crit;
pid DIR/pid;
events { worker_connections 64; }
http {
	access_log off;
	client_body_temp_path DIR/a; proxy_temp_path DIR/b; fastcgi_temp_path DIR/c; uwsgi_temp_path DIR/d; scgi_temp_path DIR/e;
	limit_conn_zone $http_x_key zone=key:1m;
	limit_conn_zone all zone=all:1m;
	server {
		listen 127.0.0.1:PORT;
		location / { limit_conn all 3; proxy_pass http://UPSTREAM; }
		location /key/ { limit_conn key 2; limit_conn_status 429; proxy_pass http://UPSTREAM; }
	}
}
`

// TestRealNginxInFlight: the conversion of limit_conn admits as many requests at once as nginx
// does.
func TestRealNginxInFlight(t *testing.T) {
	t.Parallel()
	arrived, finish := make(chan struct{}), make(chan struct{})
	upstream := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		select {
		case <-finish:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(upstream.Close) // after nginx has ended
	base, text := startNginx(t, strings.ReplaceAll(connConfig, "UPSTREAM", upstream.Listener.Addr().String()))
	yaml, notes, err := convertText("nginx.conf", text)
	if err != nil || len(notes) > 0 {
		t.Fatalf("error %v, notes %v", err, notes)
	}
	c, err := config.Parse("converted.yaml", yaml)
	if err != nil {
		t.Fatal(err)
	}
	store := memstore.New(memstore.Options{MaxKeys: 64})
	eval, err := evaluate.New(evaluate.Options{Policy: c.Policy, Store: store, Slots: store, OnError: func(_ context.Context, _ policy.Attributes, err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}

	var running sync.WaitGroup
	var held []*evaluate.Call
	ask := func(path, key string) (got, want int) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if key != "" {
			req.Header.Set("X-Key", key)
		}
		var h wire.Attributes
		h.Reset(req, netip.MustParseAddr("127.0.0.1"), nil)
		call := new(evaluate.Call)
		eval.Decide(t.Context(), &h, call)
		v := call.Evaluated
		if v.Err != nil || v.Refused != nil {
			t.Fatalf("error %v, refused %v", v.Err, v.Refused)
		}
		if got = http.StatusOK; v.Allowed {
			held = append(held, call)
		} else {
			got = v.InFlight.Rule.Status
		}
		answer := make(chan int, 1)
		running.Go(func() {
			resp, err := http.DefaultTransport.RoundTrip(req)
			if err != nil {
				t.Error(err)
				answer <- 0
				return
			}
			if _, err := io.Copy(io.Discard, resp.Body); err != nil {
				t.Error(err)
			}
			if err := resp.Body.Close(); err != nil {
				t.Error(err)
			}
			answer <- resp.StatusCode
		})
		select {
		case <-arrived: // it stays with the upstream
			return got, http.StatusOK
		case want = <-answer:
			return got, want
		}
	}
	denied := 0
	for round := range 2 { // the second when all of the first have ended
		for i, r := range []struct{ path, key string }{
			{"/key/", "a"},
			{"/key/", "a"},
			{"/key/", "a"},
			{"/key/", "b"},
			{"/key/", ""},
			{"/key/", ""},
			{"/key/", ""},
			{"/", "a"},
			{"/", ""},
			{"/", "b"},
			{"/", "b"},
			{"/x", ""},
		} {
			got, want := ask(r.path, r.key)
			if got != want {
				t.Errorf("round %d, request %d of %+v: %d, nginx %d", round, i+1, r, got, want)
			}
			if want != http.StatusOK {
				denied++
			}
		}
		for _, v := range held {
			finish <- struct{}{}
			v.Settle(t.Context(), policy.Response{Status: http.StatusOK})
		}
		running.Wait()
		held = nil
	}
	if denied != 6 {
		t.Errorf("%d requests were denied, want 3 in each round", denied)
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}
