// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// certificateFiles writes a certificate for 127.0.0.1 and returns the files and
// whom to trust.
func certificateFiles(t *testing.T) (cert, key string, trust *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	for name, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: pkcs8}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	trust = x509.NewCertPool()
	trust.AppendCertsFromPEM(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return cert, key, trust
}

// clientTransport trusts a certificate for 127.0.0.1.
func clientTransport(trust *x509.CertPool) *http.Transport {
	return &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: trust, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12}}
}

// TestListeners: one program serves HTTP with and without TLS, trusts the PROXY
// protocol of those it should, and passes TCP on.
func TestListeners(t *testing.T) {
	cert, key, trust := certificateFiles(t)
	up := named(t, "up")
	s := start(t, fmt.Sprintf(`
listen:
  - 127.0.0.1:0
  - {address: "127.0.0.2:0", tls: {cert: %q, key: %q}}
  - {address: "127.0.0.3:0", proxy_protocol: 127.0.0.0/8}
  - {address: "tcp://127.0.0.4:0", upstream: %q}
upstream: %q
deny: 198.51.100.0/24
rules: [{name: all, by: ip, limits: 2/min sliding-log}]
`, cert, key, strings.TrimPrefix(up, "http://"), up), stopped)
	if len(s.urls) != 4 {
		t.Fatalf("listeners %q", s.urls)
	}

	t.Run("TLS", func(t *testing.T) {
		transport := clientTransport(trust)
		defer transport.CloseIdleConnections()
		client := &http.Client{Transport: transport}
		got := fetch(t, client, s.urls[1]+"/tls")
		if got.status != 200 || got.body != "up /tls 0" {
			t.Errorf("got %d %q", got.status, got.body)
		}
		resp, err := client.Get(s.urls[1])
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
			header := fmt.Sprintf("PROXY TCP4 %s 127.0.0.3 5555 80\r\n", c.client)
			if got := raw(t, s.urls[2], header); got != c.want {
				t.Errorf("%s: got %d, want %d", c.client, got, c.want)
			}
		}
	})

	t.Run("TCP", func(t *testing.T) {
		if got := raw(t, s.urls[3], ""); got != 200 {
			t.Errorf("got %d", got)
		}
	})
}

// raw sends a request after a header and returns the status of its answer.
func raw(t *testing.T, url, header string) int {
	t.Helper()
	_, address, _ := strings.Cut(url, "://")
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	closeAtEnd(t, conn)
	if _, err := io.WriteString(conn, header+"GET /x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Error(err)
	}
	return resp.StatusCode
}

// TestWebsocketThroughGateway: a connection that switches protocol passes both
// ways, and its bytes are counted.
func TestWebsocketThroughGateway(t *testing.T) {
	up := backend(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close() //nolint:errcheck // the other end may have been first
		if _, err := conn.Write([]byte("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")); err != nil {
			t.Error(err)
		}
		_, _ = io.Copy(conn, rw) // until the client ends it
	})
	s := start(t, fmt.Sprintf("upstream: %q\nrules: [{name: bytes, by: ip, cost: response-bytes, limits: 1000B/min sliding-log debt 1000B}]\n", up), stopped)
	_, address, _ := strings.Cut(s.url, "://")
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := resp.Body.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
	if resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("got %d", resp.StatusCode)
	}
	message := bytes.Repeat([]byte("x"), 1200)
	if _, err := conn.Write(message); err != nil {
		t.Fatal(err)
	}
	echo := make([]byte, len(message))
	if _, err := io.ReadFull(r, echo); err != nil || !bytes.Equal(echo, message) {
		t.Fatalf("read %d bytes, %v", len(echo), err)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	for { // the exchange ends a moment after the connection
		got := s.metrics(t)[`sluice_operations_total{op="charge",store="memory"}`]
		if got > 0 || t.Context().Err() != nil {
			break
		}
	}
	if got := s.get(t, "/"); got.status != 429 {
		t.Errorf("after 1200 of 1000 bytes: got %d, want 429", got.status)
	}
}
