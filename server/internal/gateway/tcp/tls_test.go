// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package tcp_test

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/server/internal/gateway/proxyproto"
	"github.com/sluicegate/sluice/server/internal/gateway/tcp"
)

// TestTLS: TLS ends at the server, above a PROXY protocol header, and the client may close its
// direction and still receive. A denial precedes the handshake.
func TestTLS(t *testing.T) {
	var e events
	issuer := httptest.NewTLSServer(nil) // lends its certificate
	defer issuer.Close()
	below := listen(t)
	l, err := proxyproto.Listen(below, proxyproto.Options{Trusted: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	if err != nil {
		t.Fatal(err)
	}
	_, stop := serve(t, tls.NewListener(l, &tls.Config{Certificates: issuer.TLS.Certificates, MinVersion: tls.VersionTLS12}), tcp.Options{
		Upstream: upstream(t, echo), Store: memstore.New(memstore.Options{Now: stopped}),
		Limits: tcp.Limits{Rate: testkit.Plan(t, "connections", "one: 1/min")}, OnDecision: e.add,
	})
	roots := x509.NewCertPool()
	roots.AddCert(issuer.Certificate())
	for i, want := range []string{"hello", ""} {
		raw := dial(t, below, "127.0.0.1")
		if _, err := io.WriteString(raw, "PROXY TCP4 203.0.113.7 192.0.2.1 4711 443\r\n"); err != nil {
			t.Fatal(err)
		}
		c := tls.Client(raw, &tls.Config{RootCAs: roots, ServerName: "example.com", MinVersion: tls.VersionTLS12})
		err := c.HandshakeContext(t.Context())
		if (err == nil) != (want != "") {
			t.Fatalf("connection %d: handshake: %v", i, err)
		}
		if want == "" {
			continue
		}
		if _, err := io.WriteString(c, want); err != nil {
			t.Fatal(err)
		}
		if err := c.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(c); err != nil || string(got) != want {
			t.Errorf("got %q, %v; want %q", got, err, want)
		}
	}
	stop()
	const want = "203.0.113.7 allowed ; 203.0.113.7 denied-rate one"
	if e.String() != want {
		t.Errorf("got  %s\nwant %s", e.String(), want)
	}
}
