// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package grpclimit_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"net/url"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/sluicegate/sluice/grpclimit"
	"github.com/sluicegate/sluice/policy"
)

// authority signs certificates of servers and clients.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{key: key, cert: &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}}
	a.cert.Raw = a.sign(t, a.cert, key)
	if a.cert, err = x509.ParseCertificate(a.cert.Raw); err != nil {
		t.Fatal(err)
	}
	return a
}

func (a *authority) sign(t *testing.T, c *x509.Certificate, key *ecdsa.PrivateKey) []byte {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// issue returns a certificate of a name and for 127.0.0.1.
func (a *authority) issue(t *testing.T, name string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	id, err := url.Parse(name)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{PrivateKey: key, Certificate: [][]byte{a.sign(t, &x509.Certificate{
		SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour), URIs: []*url.URL{id}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, key)}}
}

func (a *authority) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

// TestCertificates: each client has the budget of its certificate's name, on all its
// connections. Who shows none, or one that nobody verifies, has no name.
func TestCertificates(t *testing.T) {
	ca := newAuthority(t)
	for _, c := range []struct {
		name     string
		asks     tls.ClientAuthType
		verified bool
	}{
		{"verified", tls.VerifyClientCertIfGiven, true},
		{"any", tls.RequestClientCert, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := &tls.Config{Certificates: []tls.Certificate{ca.issue(t, "spiffe://example/server")}, ClientAuth: c.asks, ClientCAs: ca.pool()}
			_, dial := start(t, new(service), grpclimit.Options{
				Rules: []policy.Rule{rule(t, "service", policy.Certificate("uri"), "2/h")},
			}, grpc.Creds(credentials.NewTLS(server)))
			call := func(name string, want codes.Code) {
				t.Helper()
				client := &tls.Config{RootCAs: ca.pool()}
				if name != "" {
					client.Certificates = []tls.Certificate{ca.issue(t, name)}
				}
				_, err := dial(grpc.WithTransportCredentials(credentials.NewTLS(client))).EmptyCall(t.Context(), new(testgrpc.Empty))
				if got := status.Code(err); got != want {
					t.Errorf("%q: got %v, want %v", name, err, want)
				}
			}
			if !c.verified {
				call("spiffe://example/ada", codes.InvalidArgument)
				return
			}
			for _, name := range []string{"spiffe://example/ada", "spiffe://example/ben"} {
				call(name, codes.OK)
				call(name, codes.OK)
				call(name, codes.ResourceExhausted)
			}
			call("", codes.InvalidArgument)
		})
	}
}
