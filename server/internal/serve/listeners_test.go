// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// clientTransport trusts a certificate for 127.0.0.1.
func clientTransport(trust *x509.CertPool) *http.Transport {
	return &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: trust, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12}}
}

// TestListeners: one program serves HTTP with and without TLS, trusts the PROXY protocol of
// the listed peers only, and forwards TCP.
func TestListeners(t *testing.T) {
	t.Parallel()
	cert, key, trust := testkit.CertificateFiles(t)
	up := servetest.Named(t, "up")
	s := servetest.Start(t, fmt.Sprintf(`
listen:
  - 127.0.0.1:0
  - {address: "127.0.0.2:0", tls: {cert: %q, key: %q}}
  - {address: "127.0.0.3:0", proxy_protocol: 127.0.0.0/8}
  - {address: "127.0.0.4:0", serve: tcp, upstream: %q}
upstream: %q
deny: 198.51.100.0/24
rules: [{name: all, by: ip, limits: 2/min sliding-log}]
`, cert, key, strings.TrimPrefix(up, "http://"), up), servetest.Stopped)
	if len(s.URLs) != 4 {
		t.Fatalf("listeners %q", s.URLs)
	}

	t.Run("TLS", func(t *testing.T) {
		transport := clientTransport(trust)
		defer transport.CloseIdleConnections()
		client := &http.Client{Transport: transport}
		got := servetest.Fetch(t, client, s.URLs[1]+"/tls")
		if got.Status != 200 || got.Body != "up /tls 0" {
			t.Errorf("got %d %q", got.Status, got.Body)
		}
		resp, err := client.Get(s.URLs[1])
		if err != nil {
			t.Fatal(err)
		}
		if resp.ProtoMajor != 2 {
			t.Errorf("got %s, want HTTP/2", resp.Proto)
		}
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
	})

	t.Run("PROXY protocol", func(t *testing.T) {
		for _, c := range []struct {
			client string
			want   int
		}{{"192.0.2.7", 200}, {"192.0.2.7", 200}, {"192.0.2.7", 429}, {"192.0.2.8", 200}, {"198.51.100.1", 403}} {
			if got := asked(t, s.URLs[2], fmt.Sprintf("PROXY TCP4 %s 127.0.0.3 5555 80\nGET /x HTTP/1.1\nHost: x\n", c.client)).Status; got != c.want {
				t.Errorf("%s: got %d, want %d", c.client, got, c.want)
			}
		}
	})

	t.Run("TCP", func(t *testing.T) {
		if got := asked(t, s.URLs[3], "GET /x HTTP/1.1\nHost: x\n").Status; got != 200 {
			t.Errorf("got %d", got)
		}
	})
}

// TestReportsItsCertificate: one that could not be activated shows at
// /readyz, which stays 200, and in the metrics, though no client comes.
func TestReportsItsCertificate(t *testing.T) {
	t.Parallel()
	cert, key, _ := testkit.CertificateFiles(t)
	s := servetest.Start(t, fmt.Sprintf("listen: {address: 127.0.0.1:0, tls: {cert: %q, key: %q}}\nrules: [{name: a, limits: 1000/min}]\n", cert, key))
	const current = `sluice_certificate_current{listener="127.0.0.1:0"}`
	m := s.Metrics(t)
	if end := time.Unix(int64(m[`sluice_certificate_not_after_seconds{listener="127.0.0.1:0"}`]), 0); m[current] != 1 || time.Until(end) > time.Hour {
		t.Errorf("got current %v, expires %v; want 1, within an hour", m[current], end)
	}
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "the fault to be reported", func() bool { return s.Metrics(t)[current] == 0 })
	if got := servetest.Ready(t, s); got.Status != http.StatusOK || !strings.Contains(got.Body, key+": no such file") {
		t.Errorf("got %d %q; want 200 and the file that is gone", got.Status, got.Body)
	}
	s.ExpectLog(t, "cannot be used")
}
