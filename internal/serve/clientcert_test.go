// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/config"
	"github.com/sluicegate/sluice/internal/serve"
	"github.com/sluicegate/sluice/internal/serve/servetest"
	"github.com/sluicegate/sluice/internal/testkit"
)

// clientAuthority issues certificates for clients.
type clientAuthority struct {
	file string // in which it stands
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newClientAuthority(t *testing.T) *clientAuthority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a := &clientAuthority{key: key, file: filepath.Join(t.TempDir(), "clients.pem"), cert: &x509.Certificate{
		SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}}
	der, err := x509.CreateCertificate(rand.Reader, a.cert, a.cert, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(a.file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return a
}

// client returns a client with a certificate for a URI.
func (a *clientAuthority) client(t *testing.T, uri string, trust *x509.CertPool) *http.Client {
	t.Helper()
	id, err := url.Parse(uri)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(2), URIs: []*url.URL{id}, NotBefore: a.cert.NotBefore, NotAfter: a.cert.NotAfter}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	transport := clientTransport(trust)
	transport.TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// TestClientCertificates: each client has the budget of its certificate's name, who
// has none is refused where one is optional and not let in where it is required,
// and one without a known authority is accepted nowhere.
func TestClientCertificates(t *testing.T) {
	t.Parallel()
	cert, key, trust := testkit.CertificateFiles(t)
	ours, others := newClientAuthority(t), newClientAuthority(t)
	s := servetest.Start(t, fmt.Sprintf(`
listen:
  - {address: "127.0.0.1:0", tls: {cert: %[1]q, key: %[2]q, client_ca: %[3]q}}
  - {address: "127.0.0.2:0", tls: {cert: %[1]q, key: %[2]q, client_ca: %[3]q, client_cert: optional}}
  - 127.0.0.3:0
rules: [{name: services, by: cert.uri, limits: 2/h}]
`, cert, key, ours.file), servetest.Stopped)
	ada, again, eve := ours.client(t, "spiffe://example/ada", trust), ours.client(t, "spiffe://example/ada", trust), ours.client(t, "spiffe://example/eve", trust)
	for i, c := range []struct {
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
		if got := servetest.Fetch(t, c.client, s.URLs[c.at]+"/?userId=u1"); got.Status != c.want {
			t.Errorf("%d: got %d %s, want %d", i, got.Status, got.Body, c.want)
		}
	}
	for name, client := range map[string]*http.Client{"none": {Transport: clientTransport(trust)}, "of others": others.client(t, "spiffe://example/ada", trust)} {
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

// TestClientCertificatesTCP: a listener of TCP passes on what verified clients send.
func TestClientCertificatesTCP(t *testing.T) {
	t.Parallel()
	cert, key, trust := testkit.CertificateFiles(t)
	ours := newClientAuthority(t)
	s := servetest.Start(t, fmt.Sprintf(`
listen: [{address: "tcp://127.0.0.1:0", upstream: %q, tls: {cert: %q, key: %q, client_ca: %q}}]
rules: [{name: all, by: ip, limits: 9/h}]
`, strings.TrimPrefix(servetest.Named(t, "up"), "http://"), cert, key, ours.file))
	at := "https" + strings.TrimPrefix(s.URL, "tcp")
	ada := ours.client(t, "spiffe://example/ada", trust)
	none := &http.Client{Transport: clientTransport(trust)}
	for _, client := range []*http.Client{ada, none} { // the upstream speaks HTTP/1
		client.Transport.(*http.Transport).ForceAttemptHTTP2 = false
	}
	if got := servetest.Fetch(t, ada, at+"/x"); got.Body != "up /x 0" {
		t.Errorf("got %d %q", got.Status, got.Body)
	}
	resp, err := none.Get(at)
	if err == nil {
		err = resp.Body.Close()
		t.Errorf("got %s without a certificate, %v", resp.Status, err)
	}
}

// TestClientCAFile: a start fails with a file that is no good, and lint says where
// it is named.
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
