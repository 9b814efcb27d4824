// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package certificate_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/gateway/certificate"
)

type files struct {
	t         *testing.T
	cert, key string
}

func newFiles(t *testing.T) files {
	dir := t.TempDir()
	return files{t, filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")}
}

func (f files) write(name string, content []byte) {
	f.t.Helper()
	if err := os.WriteFile(name, content, 0o600); err != nil {
		f.t.Fatal(err)
	}
}

func (f files) remove(name string) {
	f.t.Helper()
	if err := os.Remove(name); err != nil {
		f.t.Fatal(err)
	}
}

func (f files) put(cert, key []byte) {
	f.t.Helper()
	f.write(f.cert, cert)
	f.write(f.key, key)
}

// serving returns the name on the certificate of a handshake.
func serving(t *testing.T, p *certificate.Pair) string {
	t.Helper()
	c, err := p.GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	return c.Leaf.Subject.CommonName
}

// TestReload follows a pair of files through valid and invalid contents.
func TestReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFiles(t)
		valid := time.Now().Add(24 * time.Hour)
		oldCert, oldKey := testkit.Certificate(t, "old", valid)
		newCert, newKey := testkit.Certificate(t, "new", valid)
		lateCert, lateKey := testkit.Certificate(t, "late", time.Now().Add(-time.Hour))
		f.put(oldCert, oldKey)
		var changes []error
		p, err := certificate.Load(f.cert, f.key, certificate.Options{OnChange: func(err error) { changes = append(changes, err) }})
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct {
			name    string
			do      func()
			wait    time.Duration
			want    string
			fault   string // of Err
			changes int    // reported in this step
		}{
			{"nothing happened", func() {}, time.Hour, "old", "", 0},
			{"not looked at yet", func() { f.put(newCert, newKey) }, time.Second, "old", "", 0},
			{"a new pair", func() {}, time.Second, "new", "", 1},
			{"half of a pair", func() { f.write(f.cert, oldCert) }, 2 * time.Second, "new", "cannot be used", 1},
			{"said once", func() {}, time.Minute, "new", "cannot be used", 0},
			{"the other half", func() { f.write(f.key, oldKey) }, 2 * time.Second, "old", "", 1},
			{"garbage", func() { f.write(f.cert, []byte("garbage")) }, 2 * time.Second, "old", "cannot be used", 1},
			{"gone", func() { f.remove(f.cert) }, 2 * time.Second, "old", "no such file", 1},
			{"still gone", func() {}, 2 * time.Second, "old", "no such file", 0},
			{"back", func() { f.write(f.cert, oldCert) }, 2 * time.Second, "old", "", 1},
			{"expired", func() { f.put(lateCert, lateKey) }, 2 * time.Second, "old", "expired on", 1},
			{"too large", func() { f.write(f.key, make([]byte, 2<<20)) }, 2 * time.Second, "old", "more than 1048576 bytes", 1},
			{"a link to a new pair", func() {
				dir := t.TempDir()
				to := filepath.Join(dir, "cert.pem")
				f.write(to, newCert)
				f.remove(f.cert)
				if err := os.Symlink(to, f.cert); err != nil {
					t.Fatal(err)
				}
				f.write(f.key, newKey)
			}, 2 * time.Second, "new", "", 1},
		} {
			before := len(changes)
			step.do()
			time.Sleep(step.wait)
			if got := serving(t, p); got != step.want {
				t.Errorf("%s: %q serves; want %q", step.name, got, step.want)
			}
			err := p.Err()
			if (err == nil) != (step.fault == "") || err != nil && !strings.Contains(err.Error(), step.fault) {
				t.Errorf("%s: got the fault %v; want %q", step.name, err, step.fault)
			}
			got := changes[before:]
			if len(got) != step.changes || len(got) == 1 && !errors.Is(got[0], err) {
				t.Errorf("%s: reported %v; want %d", step.name, got, step.changes)
			}
		}
		f.put(oldCert, oldKey)
		if err := p.Reload(); err != nil || serving(t, p) != "old" {
			t.Errorf("Reload: %v, %q serves; want old at once", err, serving(t, p))
		}
		if !p.NotAfter().Equal(valid.Truncate(time.Second)) {
			t.Errorf("got %v; want %v", p.NotAfter(), valid)
		}
	})
}

func TestLoadRefuses(t *testing.T) {
	f := newFiles(t)
	if _, err := certificate.Load(f.cert, f.key, certificate.Options{}); !errors.Is(err, fs.ErrNotExist) ||
		!strings.Contains(err.Error(), f.cert) || !strings.Contains(err.Error(), f.key) {
		t.Errorf("got %v; want both files named", err)
	}
}

// TestServer: a new certificate is used for the next HTTP/2 connection, and existing
// connections continue.
func TestServer(t *testing.T) {
	f := newFiles(t)
	valid := time.Now().Add(time.Hour)
	oldCert, oldKey := testkit.Certificate(t, "old.test", valid)
	newCert, newKey := testkit.Certificate(t, "new.test", valid)
	f.put(oldCert, oldKey)
	p, err := certificate.LoadOften(f.cert, f.key, certificate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{
		TLSConfig: p.Config(),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.WriteString(w, r.Proto); err != nil {
				t.Error(err)
			}
		}),
	}
	done := make(chan error, 1)
	go func() { done <- srv.ServeTLS(l, "", "") }()
	defer func() {
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	}()

	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(oldCert)
	roots.AppendCertsFromPEM(newCert)
	ask := func(c *http.Client, want string) {
		t.Helper()
		res, err := c.Get("https://" + l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		if err = errors.Join(err, res.Body.Close()); err != nil {
			t.Error(err)
		}
		if got := res.TLS.PeerCertificates[0].Subject.CommonName; err != nil || got != want || string(body) != "HTTP/2.0" {
			t.Errorf("got %q over %s, %v; want %q over HTTP/2.0", got, body, err, want)
		}
	}
	client := func(name string) *http.Client {
		tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: name}, ForceAttemptHTTP2: true}
		t.Cleanup(tr.CloseIdleConnections)
		return &http.Client{Transport: tr}
	}
	first := client("old.test")
	ask(first, "old.test")
	f.put(newCert, newKey)
	ask(client("new.test"), "new.test")
	ask(first, "old.test")
}

// TestConcurrentHandshakes is for the race detector.
func TestConcurrentHandshakes(t *testing.T) {
	f := newFiles(t)
	cert, key := testkit.Certificate(t, "a", time.Now().Add(time.Hour))
	f.put(cert, key)
	p, err := certificate.LoadOften(f.cert, f.key, certificate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				if c, err := p.GetCertificate(nil); err != nil || c == nil {
					t.Errorf("got %v, %v", c, err)
				}
			}
		})
	}
	wg.Wait()
}
