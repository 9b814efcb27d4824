// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"math/big"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"
)

// User and Password are what [StartTLS] lets in: to keys that begin with
// "sluice", and only to what a store needs.
const (
	User     = "limiter"
	Password = "one two three"
)

// StartTLS starts a server that speaks TLS only and lets in one user.
func StartTLS(t testing.TB, b Binary) *Server {
	t.Helper()
	port := FreePort(t)
	s := newServer(t, b, port, nil)
	cert, key, pool := certificate(t)
	acl := write(t, s.Dir, "users.acl", "user default off\nuser "+User+" on #"+hexSum(Password)+
		" ~sluice* +@read +@write +@scripting +@connection +time +info +config|get\n")
	s.args = append(s.args,
		"--port", "0", "--tls-port", strconv.Itoa(port), "--tls-auth-clients", "no", "--aclfile", acl,
		"--tls-cert-file", write(t, s.Dir, "cert.pem", cert), "--tls-key-file", write(t, s.Dir, "key.pem", key))
	s.dial = func(o *rueidis.ClientOption) {
		o.TLSConfig = &tls.Config{RootCAs: pool, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12}
		o.Username, o.Password = User, Password
	}
	s.Run(t)
	return s
}

// certificate makes a certificate for 127.0.0.1 that signs itself.
func certificate(t testing.TB) (cert, key string, pool *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "127.0.0.1"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool = x509.NewCertPool()
	pool.AddCert(parsed)
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})), pool
}

func hexSum(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}
