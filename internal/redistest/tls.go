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
	"fmt"
	"math/big"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/testkit"
)

// User and Password are the credentials that [StartTLS] accepts. The user may access keys that
// begin with "sluice", with only the commands that a store needs.
const (
	User     = "limiter"
	Password = "one two three"
)

// StartTLS starts a server that speaks only TLS and accepts one user.
func StartTLS(t testing.TB, b Binary) *Server {
	t.Helper()
	s := newTLS(t, b, testkit.FreePort(t), newIdentity(t), "user default off\n"+acl("+config|get"))
	s.Run(t)
	return s
}

// acl gives [User] the permissions that a store needs, and more.
func acl(more string) string {
	return "user " + User + " on #" + hexSum(Password) + " ~sluice* +@read +@write +@scripting +@connection +time +info " + more + "\n"
}

// identity is a certificate that several servers present.
type identity struct {
	cert, key string
	pool      *x509.CertPool
}

func newIdentity(t testing.TB) identity {
	t.Helper()
	cert, key, pool := certificate(t)
	return identity{cert, key, pool}
}

// newTLS returns a server that speaks only TLS, to the users of an ACL.
func newTLS(t testing.TB, b Binary, port int, id identity, users string, args ...string) *Server {
	t.Helper()
	s := newServer(t, b, port, nil)
	cert := write(t, s.Dir, "cert.pem", id.cert)
	s.args = append(s.args,
		"--port", "0", "--tls-port", strconv.Itoa(port), "--tls-auth-clients", "no", "--aclfile", write(t, s.Dir, "users.acl", users),
		"--tls-ca-cert-file", cert, "--tls-cert-file", cert, "--tls-key-file", write(t, s.Dir, "key.pem", id.key))
	s.args = append(s.args, args...)
	s.tls = &tls.Config{RootCAs: id.pool, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12}
	s.user, s.password = User, Password
	return s
}

// adminName and adminPassword are the credentials of tests, and of servers that connect to
// each other.
const adminName, adminPassword = "admin", "admins-own"

const adminACL = "user default off\nuser " + adminName + " on >" + adminPassword + " ~* &* +@all\n"

func asAdmin(s *Server) { s.user, s.password = adminName, adminPassword }

// StartTLSCluster starts three masters that speak only TLS, also to each other, and give
// [User] the permissions that a store needs.
func StartTLSCluster(t testing.TB, b Binary) []*Server {
	t.Helper()
	id := newIdentity(t)
	var nodes []*Server
	for range 3 {
		s := newTLS(t, b, testkit.FreePort(t), id, adminACL+acl("+cluster|slots +cluster|shards"), "--tls-cluster", "yes", "--tls-replication", "yes",
			"--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(testkit.FreePort(t)), "--cluster-node-timeout", "2000")
		asAdmin(s)
		s.Run(t)
		nodes = append(nodes, s)
	}
	joinCluster(t, nodes)
	return nodes
}

// StartTLSSentinel starts a master watched by one sentinel. Both speak only TLS and accept
// [User], the sentinel with the permissions that a client needs there.
func StartTLSSentinel(t testing.TB, b Binary) (master, sentinel *Server) {
	t.Helper()
	id := newIdentity(t)
	master = newTLS(t, b, testkit.FreePort(t), id, adminACL+acl("+role"), "--tls-replication", "yes")
	asAdmin(master)
	master.Run(t)
	port := testkit.FreePort(t)
	sentinel = newTLS(t, b, port, id, adminACL+"user "+User+" on #"+hexSum(Password)+
		" &* +@connection +subscribe +psubscribe +sentinel|get-master-addr-by-name +sentinel|sentinels +sentinel|replicas +sentinel|slaves\n")
	asAdmin(sentinel)
	dir := sentinel.Dir + "/"
	sentinel.args = []string{write(t, sentinel.Dir, "sentinel.conf", fmt.Sprintf(
		"port 0\ntls-port %d\nbind 127.0.0.1\ndir %s\ntls-auth-clients no\ntls-replication yes\n"+
			"tls-ca-cert-file %[2]scert.pem\ntls-cert-file %[2]scert.pem\ntls-key-file %[2]skey.pem\naclfile %[2]susers.acl\n"+
			"sentinel monitor %[3]s 127.0.0.1 %[4]d 1\nsentinel auth-user %[3]s %[5]s\nsentinel auth-pass %[3]s %[6]s\n",
		port, dir, MasterSet, master.Port, adminName, adminPassword)), "--sentinel"}
	sentinel.Run(t)
	waitInfo(t, sentinel, "sentinel", fmt.Sprintf("master0:name=%s,status=ok,address=%s,slaves=0,sentinels=1", MasterSet, master.Addr))
	return master, sentinel
}

// certificate makes a self-signed certificate for 127.0.0.1.
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
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, // nodes are clients, too
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
