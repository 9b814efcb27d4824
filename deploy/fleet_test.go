// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package deploy_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/config"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/serve"
)

// The nodes share a store. They have one of all that the board shows.
const nodeFile = `
listen:
  - 127.0.0.1:0
  - {address: "tcp://127.0.0.2:0", upstream: %q, name: db, tls: {cert: %q, key: %q}}
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
	cert, key := certificateFiles(t)
	store := redistest.Start(t, redistest.Redis(t))
	nodes := make([]node, 3)
	for i := range nodes {
		nodes[i] = startNode(t, fmt.Sprintf(nodeFile, up.Listener.Addr(), cert, key, store.URL(), up.URL))
	}
	return nodes
}

func startNode(t *testing.T, yaml string) (n node) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "sluice.yaml")
	if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	out, in := io.Pipe()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() {
		err := serve.Run(ctx, serve.Options{Config: c, Drain: time.Second, Out: in, Log: slog.New(slog.DiscardHandler)})
		ended <- err
		_ = in.CloseWithError(io.ErrUnexpectedEOF) // the reader learns of an early end
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		fields := strings.Fields(line)
		switch {
		case strings.HasPrefix(line, "sluice: http"):
			n.url = fields[1]
		case strings.HasPrefix(line, "sluice: tcp"):
			n.db = strings.TrimPrefix(fields[1], "tcp://")
		case strings.HasPrefix(line, "  admin"):
			n.admin = strings.TrimSuffix(strings.TrimPrefix(fields[1], "http://"), "/metrics,")
		case strings.HasPrefix(line, "  config"):
			return n
		}
	}
}

// certificateFiles writes a certificate for an hour.
func certificateFiles(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, block := range map[string]*pem.Block{"cert.pem": {Type: "CERTIFICATE", Bytes: der}, "key.pem": {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
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
