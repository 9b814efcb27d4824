// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package certificate_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/gateway/certificate"
)

// asking is a server that asks clients for a certificate, and answers with the common name of
// a verified one.
type asking struct {
	*httptest.Server
	files

	ca    string
	trust *x509.CertPool
}

func newAsking(t *testing.T, ca []byte, optional bool) *asking {
	t.Helper()
	a := &asking{files: newFiles(t), ca: filepath.Join(t.TempDir(), "clients.pem"), trust: x509.NewCertPool()}
	cert, key := testkit.Certificate(t, "server.test", time.Now().Add(time.Hour))
	a.trust.AppendCertsFromPEM(cert)
	a.put(cert, key)
	a.write(a.ca, ca)
	p, err := certificate.LoadOften(a.cert, a.key, certificate.Options{ClientCA: a.ca, ClientOptional: optional})
	if err != nil {
		t.Fatal(err)
	}
	a.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, chain := range r.TLS.VerifiedChains {
			_, _ = io.WriteString(w, chain[0].Subject.CommonName) // the client checks it
		}
	}))
	a.Listener = tls.NewListener(a.Listener, p.Config())
	a.Start()
	t.Cleanup(a.Close)
	return a
}

// ask returns a client's result on a new connection.
func (a *asking) ask(t *testing.T, config *tls.Config) (body string, resumed bool, err error) {
	t.Helper()
	config.RootCAs, config.ServerName = a.trust, "server.test"
	transport := &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+a.Listener.Addr().String(), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return "", false, err
	}
	all, err := io.ReadAll(resp.Body)
	return string(all), resp.TLS.DidResume, errors.Join(err, resp.Body.Close())
}

// TestClients: a client with a certificate issued to it as a client is admitted, and nobody
// with another one.
func TestClients(t *testing.T) {
	ours, other := testkit.NewAuthority(t, "ours"), testkit.NewAuthority(t, "ours")
	server := func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }
	late := func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }
	early := func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) }
	required, optional := newAsking(t, ours.PEM, false), newAsking(t, ours.PEM, true)
	for _, c := range []struct {
		name     string
		cert     []tls.Certificate
		required bool // admitted where a certificate is required
		optional bool
		says     string
	}{
		{"none", nil, false, true, ""},
		{"ours", []tls.Certificate{ours.Issue(t, nil)}, true, true, "ada"},
		{"of another of the same name", []tls.Certificate{other.Issue(t, nil)}, false, false, ""},
		{"expired", []tls.Certificate{ours.Issue(t, late)}, false, false, ""},
		{"not valid yet", []tls.Certificate{ours.Issue(t, early)}, false, false, ""},
		{"of a server", []tls.Certificate{ours.Issue(t, server)}, false, false, ""},
	} {
		for at, want := range map[*asking]bool{required: c.required, optional: c.optional} {
			for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
				// A client leaves out a certificate that does not fit the server's list.
				give := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
					if c.cert == nil {
						return new(tls.Certificate), nil
					}
					return &c.cert[0], nil
				}
				body, _, err := at.ask(t, &tls.Config{MinVersion: version, MaxVersion: version, GetClientCertificate: give})
				if (err == nil) != want || err == nil && body != c.says {
					t.Errorf("%s, optional %v, %s: got %q, %v; let in %v", c.name, at == optional, tls.VersionName(version), body, err, want)
				}
			}
		}
	}
}

// TestClientCAChanges: a new file takes effect with the next connection, also for resumed
// sessions; an invalid one does not.
func TestClientCAChanges(t *testing.T) {
	before, after := testkit.NewAuthority(t, "before"), testkit.NewAuthority(t, "after")
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		at := newAsking(t, before.PEM, false)
		old, fresh := before.Issue(t, nil), after.Issue(t, nil)
		oldConfig := &tls.Config{MinVersion: version, MaxVersion: version, Certificates: []tls.Certificate{old}, ClientSessionCache: tls.NewLRUClientSessionCache(8)}
		freshConfig := &tls.Config{MinVersion: version, Certificates: []tls.Certificate{fresh}}
		for i, want := range []bool{false, true} {
			if body, resumed, err := at.ask(t, oldConfig); err != nil || body != "ada" || resumed != want {
				t.Fatalf("connection %d: got %q, %v, resumed %v", i, body, err, resumed)
			}
		}
		at.write(at.ca, []byte("garbage"))
		if _, _, err := at.ask(t, oldConfig); err != nil {
			t.Errorf("a file that is no good: %v", err)
		}
		at.write(at.ca, after.PEM)
		if _, _, err := at.ask(t, oldConfig); err == nil {
			t.Error("a client of before is let in")
		}
		if _, _, err := at.ask(t, freshConfig); err != nil {
			t.Errorf("a client of after: %v", err)
		}
		at.write(at.ca, append(before.PEM, after.PEM...))
		for _, config := range []*tls.Config{oldConfig, freshConfig} {
			if _, _, err := at.ask(t, config); err != nil {
				t.Errorf("both: %v", err)
			}
		}
	}
}

// TestCheckClientCA: each block of the file must be a certificate.
func TestCheckClientCA(t *testing.T) {
	good := string(testkit.NewAuthority(t, "good").PEM)
	_, key := testkit.Certificate(t, "x", time.Now())
	for _, c := range []struct{ name, content, want string }{
		{"good", "our clients\n" + good + good + "\n# the end\n", ""},
		{"empty", "", "holds no certificate in PEM"},
		{"a key", good + string(key), "block 2 is a PRIVATE KEY"},
		{"broken", good + strings.Replace(good, "-----END", "----END", 1), "block 2 is not PEM"},
		{"no certificate", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")})), "block 1: x509: "},
	} {
		name := filepath.Join(t.TempDir(), "clients.pem")
		if err := os.WriteFile(name, []byte(c.content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := certificate.CheckClientCA(name); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), name+": "+c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}
