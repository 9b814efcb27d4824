// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package evaluate_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/wire"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
)

// certify returns a certificate as it is read from the wire.
func certify(t *testing.T, template x509.Certificate) *x509.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(1)
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestCertificate: the names of a verified certificate are keys, each if the certificate has
// one name of its kind.
func TestCertificate(t *testing.T) {
	uri := func(s string) *url.URL {
		u, err := url.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	cn := func(s string) pkix.AttributeTypeAndValue {
		return pkix.AttributeTypeAndValue{Type: []int{2, 5, 4, 3}, Value: s}
	}
	full := certify(t, x509.Certificate{
		Subject: pkix.Name{CommonName: "ada, the first", Organization: []string{"example"}},
		URIs:    []*url.URL{uri("spiffe://example/ada")}, DNSNames: []string{"Ada.Example"},
	})
	several := certify(t, x509.Certificate{
		Subject: pkix.Name{ExtraNames: []pkix.AttributeTypeAndValue{cn("ada"), cn("eve")}},
		URIs:    []*url.URL{uri("spiffe://example/ada"), uri("spiffe://example/eve")}, DNSNames: []string{"ada.example", "eve.example"},
	})
	bare := certify(t, x509.Certificate{})
	for _, c := range []struct {
		name, part string
		cert       *x509.Certificate
		unverified bool
		want       string // the key, or what the error holds
	}{
		{"the URI", "cert.uri", full, false, "spiffe://example/ada"},
		{"the host", "cert.dns", full, false, "ada.example"},
		{"the common name", "cert.cn", full, false, "ada, the first"},
		{"the subject", "cert.subject", full, false, `CN=ada\, the first,O=example`},
		{"no TLS", "cert.cn", nil, false, "cert cn is missing"},
		{"not verified", "cert.cn", full, true, "cert cn is missing"},
		{"several URIs", "cert.uri", several, false, "more than once"},
		{"several hosts", "cert.dns", several, false, "more than once"},
		{"several common names", "cert.cn", several, false, "more than once"},
		{"the subject of several", "cert.subject", several, false, "CN=eve,CN=ada"},
		{"no URI", "cert.uri", bare, false, "cert uri is missing"},
		{"no host", "cert.dns", bare, false, "cert dns is missing"},
		{"no subject", "cert.subject", bare, false, "cert subject is missing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			part, err := policy.ParsePart(c.part)
			if err != nil || part.String() != c.part {
				t.Fatalf("got %v, %v", part, err)
			}
			evaluator, err := evaluate.New(evaluate.Options{Store: memstore.New(memstore.Options{}), Rules: []policy.Rule{policy.NewRule("all", part, sluice.PerHour(1))}})
			if err != nil {
				t.Fatal(err)
			}
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
			if c.cert != nil {
				r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{c.cert}}
				if !c.unverified {
					r.TLS.VerifiedChains = [][]*x509.Certificate{{c.cert}}
				}
			}
			var a wire.Attributes
			a.Reset(r, netip.MustParseAddr("192.0.2.1"), nil)
			var call evaluate.Call
			evaluator.Decide(t.Context(), &a, &call)
			got := call.Charge.Key
			if call.Err != nil {
				got = call.Err.Error()
			}
			if !strings.Contains(got, c.want) || call.Err == nil && got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	if _, err := policy.Compile([]policy.Rule{policy.NewRule("all", policy.Certificate("serial"), sluice.PerHour(1))}); err == nil || !strings.Contains(err.Error(), "use cert.uri, cert.dns, cert.cn or cert.subject") {
		t.Errorf("got %v", err)
	}
}
