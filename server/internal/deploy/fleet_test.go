// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package deploy_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/serve"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// The nodes share a store. They have one of all that the board shows.
const nodeFile = `
listen:
  - 127.0.0.1:0
  - {address: "127.0.0.2:0", serve: tcp, upstream: %q, name: db, tls: {cert: %q, key: %q}}
admin: 127.0.0.1:0
store: {redis: {url: %q}}
upstream:
  - {path: /gone, url: "http://127.0.0.1:1"}
  - {path: /api, url: %q}
rules:
  - {name: api, match: {path: /api}, by: query.u, limits: 20/h sliding-log, in_flight: 100, candidates: {less: 10/h}}
  - {name: busy, match: {path: /api/busy}, in_flight: 1}
  - {name: paced, match: {path: /api/paced}, limits: 100/s leaky-bucket burst 50}
`

// node is one gateway.
type node struct{ url, db, admin string }

// startNodes starts three gateways.
func startNodes(t *testing.T) []node {
	t.Helper()
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/api/fails":
			w.WriteHeader(http.StatusInternalServerError)
		case "/api/busy":
			time.Sleep(5 * time.Millisecond)
		}
	}))
	t.Cleanup(up.Close)
	cert, key, _ := testkit.CertificateFiles(t)
	store := redistest.Start(t, redistest.Redis(t))
	nodes := make([]node, 3)
	for i := range nodes {
		nodes[i] = startNode(t, fmt.Sprintf(nodeFile, up.Listener.Addr(), cert, key, store.URL(), up.URL))
	}
	return nodes
}

func startNode(t *testing.T, yaml string) node {
	t.Helper()
	g := servetest.Start(t, yaml, func(o *serve.Options) {
		o.Drain, o.Log, o.Intervals = time.Second, slog.New(slog.DiscardHandler), serve.Intervals{}
	})
	return node{url: g.URLs[0], db: strings.TrimPrefix(g.URLs[1], "tcp://"), admin: strings.TrimPrefix(g.Admin, "http://")}
}

// load is what asks the nodes, until the test ends.
type load struct {
	sent atomic.Int64 // requests that were answered
	stop func()
}

// startLoad asks all nodes for everything, over and over, with a trace.
func startLoad(t *testing.T, nodes []node) *load {
	t.Helper()
	l := new(load)
	ctx, cancel := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	l.stop = func() { cancel(); clients.Wait() }
	t.Cleanup(l.stop)
	for i, n := range nodes {
		for c := range 3 {
			clients.Go(func() {
				for round := 0; ctx.Err() == nil; round++ {
					time.Sleep(20 * time.Millisecond) // and leave the others some of the machine
					for _, path := range []string{"/api", "/api/fails?u=f", "/api/paced?u=p", "/api/busy?u=c", "/gone", "/elsewhere"} {
						if !strings.Contains(path, "?") {
							path += fmt.Sprintf("?u=%d-%d-%d", i, c, round/30) // of 30 requests 10 are denied
						}
						l.ask(ctx, t, n.url+path, round)
					}
					if conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", n.db); err == nil {
						_ = conn.Close() // without a handshake: it is the gateway's to close it
					}
				}
			})
		}
	}
	return l
}

// ask sends one request.
func (l *load) ask(ctx context.Context, t *testing.T, url string, round int) {
	t.Helper()
	req, err := http.NewRequestWithContext(context.WithoutCancel(ctx), http.MethodGet, url, nil)
	if err != nil {
		t.Error(err)
		return
	}
	req.Header.Set("Traceparent", fmt.Sprintf("00-%032x-%016x-01", round+1, round+1))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Error(err)
		return
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Error(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Error(err)
	}
	l.sent.Add(1)
}
