// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/serve"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// certified returns a client with a certificate for a URI.
func certified(t *testing.T, by *testkit.Authority, uri string, trust *x509.CertPool) *http.Client {
	t.Helper()
	cert := by.Issue(t, testkit.URI(t, uri))
	transport := clientTransport(trust)
	transport.TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil }
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// fileOf writes the certificate of an authority to a file.
func fileOf(t *testing.T, a *testkit.Authority) string {
	t.Helper()
	name := testkit.TempFile(t, "clients.pem", a.PEM)
	return name
}

// TestClientCertificates: each client has the budget of its certificate's name. A client
// without one is refused by the rule where a certificate is optional, and by TLS where it is
// required. A certificate of an unknown authority is accepted nowhere.
func TestClientCertificates(t *testing.T) {
	t.Parallel()
	cert, key, trust := testkit.CertificateFiles(t)
	ours, others := testkit.NewAuthority(t, "clients"), testkit.NewAuthority(t, "clients")
	s := servetest.Start(t, fmt.Sprintf(`
listen:
  - {address: "127.0.0.1:0", tls: {cert: %[1]q, key: %[2]q, client_ca: %[3]q}}
  - {address: "127.0.0.2:0", tls: {cert: %[1]q, key: %[2]q, client_ca: %[3]q, client_cert: optional}}
  - 127.0.0.3:0
rules: [{name: services, by: cert.uri, limits: 2/h}]
`, cert, key, fileOf(t, ours)), servetest.Stopped)
	ada, again, eve := certified(t, ours, "spiffe://example/ada", trust), certified(t, ours, "spiffe://example/ada", trust), certified(t, ours, "spiffe://example/eve", trust)
	for _, c := range []struct {
		client *http.Client
		at     int
		want   int
	}{
		{ada, 0, 200},
		{again, 1, 200}, // another certificate for the same name
		{ada, 0, 429},
		{again, 1, 429},
		{eve, 1, 200},
		{&http.Client{Transport: clientTransport(trust)}, 1, 400},
		{ada, 2, 400}, // no TLS, and so no certificate
	} {
		servetest.Want(t, c.want, c.client, s.URLs[c.at]+"/?userId=u1")
	}
	for name, client := range map[string]*http.Client{"none": {Transport: clientTransport(trust)}, "of others": certified(t, others, "spiffe://example/ada", trust)} {
		for at, refused := range map[int]bool{0: true, 1: name == "of others"} {
			resp, err := client.Get(s.URLs[at] + "/?userId=u1")
			if (err != nil) != refused {
				t.Errorf("%s at %d: got %v", name, at, err)
			}
			if err == nil && resp.Body.Close() != nil {
				t.Error("a body that is not closed")
			}
		}
	}
	s.ExpectLog(t, "TLS handshake")
}

// TestClientCertificatesTCP: a TCP listener forwards the bytes of verified clients.
func TestClientCertificatesTCP(t *testing.T) {
	t.Parallel()
	cert, key, trust := testkit.CertificateFiles(t)
	ours := testkit.NewAuthority(t, "clients")
	s := servetest.Start(t, fmt.Sprintf(`
listen: [{address: "127.0.0.1:0", serve: tcp, upstream: %q, tls: {cert: %q, key: %q, client_ca: %q}}]
rules: [{name: all, by: ip, limits: 9/h}]
`, strings.TrimPrefix(servetest.Named(t, "up"), "http://"), cert, key, fileOf(t, ours)))
	at := "https" + strings.TrimPrefix(s.URL, "tcp")
	ada := certified(t, ours, "spiffe://example/ada", trust)
	none := &http.Client{Transport: clientTransport(trust)}
	for _, client := range []*http.Client{ada, none} { // the upstream speaks HTTP/1
		client.Transport.(*http.Transport).ForceAttemptHTTP2 = false
	}
	if got := servetest.Fetch(t, ada, at+"/x"); got.Body != "up /x 0" {
		t.Errorf("got %d %q", got.Status, got.Body)
	}
	of := ada.Transport.(*http.Transport).TLSClientConfig.Clone() //nolint:forcetypeassert // as above
	of.NextProtos = []string{"postgresql"}
	if conn, err := tls.Dial("tcp", strings.TrimPrefix(at, "https://"), of); err != nil {
		t.Errorf("a client that offers a protocol: %v", err)
	} else {
		testkit.Closed(t, conn)
	}
	resp, err := none.Get(at)
	if err == nil {
		err = resp.Body.Close()
		t.Errorf("got %s without a certificate, %v", resp.Status, err)
	}
}

// TestClientCAFile: a start fails with an unusable file, and lint reports it at the place that
// names it.
func TestClientCAFile(t *testing.T) {
	t.Parallel()
	cert, key, _ := testkit.CertificateFiles(t)
	c, err := config.Parse("sluice.yaml", fmt.Appendf(nil, `
listen: {address: "127.0.0.1:0", tls: {cert: %q, key: %q, client_ca: %q}}
rules: [{name: services, by: cert.uri, limits: 2/h}]
`, cert, key, key))
	if err != nil {
		t.Fatal(err)
	}
	if err := serve.CheckFiles(c); err == nil || !strings.HasPrefix(err.Error(), "sluice.yaml:2:") || !strings.Contains(err.Error(), "block 1 is a PRIVATE KEY") || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v", err)
	}
}
