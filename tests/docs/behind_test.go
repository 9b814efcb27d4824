// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package docs_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
)

// files returns the files that a document shows, by name.
func files(t *testing.T, document string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, b := range parse(read(t, document)) {
		if name, ok := strings.CutPrefix(b.note, "file: "); ok {
			all[name] = b.text
		}
	}
	return all
}

// TestBehind: under the configurations of behind.md, each of 100/min, a client that forges
// X-Forwarded-For has one budget, and another client one of its own.
func TestBehind(t *testing.T) {
	pages := files(t, "behind.md")
	tested := map[string]bool{"here.yaml": true, "nlb.yaml": true} // run as a program
	for _, c := range []struct {
		name, file, peer string
		field            string // that the last proxy sends: {f} is what the client wrote, {c} its address
	}{
		{"the balancer appends", "alb.yaml", "10.0.1.7", "{f}, {c}"},
		{"with a port", "alb.yaml", "10.0.2.7", "{f}, {c}:4711"},
		{"not through the balancer", "alb.yaml", "{c}", "{f}"},
		{"a neighbour in the VPC", "alb.yaml", "10.0.9.1", "{f}"},
		{"a client in the VPC", "alb.yaml", "10.0.1.7", "{f}, 10.0.9.1"},
		{"Cloudflare appends", "cloudflare.yaml", "172.68.1.1", "{f}, {c}"},
		{"Cloudflare by IPv6", "cloudflare.yaml", "2606:4700::17", "{f}, {c}"},
		{"not through Cloudflare", "cloudflare.yaml", "{c}", "{f}"},
		{"both append", "both.yaml", "10.0.2.7", "{f}, {c}, 172.68.1.1"},
		{"not through Cloudflare", "both.yaml", "10.0.2.7", "{f}, {c}"},
		{"a Cloudflare address, forged", "both.yaml", "10.0.2.7", "{f}, 172.68.1.1, {c}"},
		{"the controller appends", "ingress.yaml", "10.244.3.9", "{f}, {c}"},
		{"the controller writes", "ingress.yaml", "10.244.3.9", "{c}"},
		{"not through the controller", "ingress.yaml", "{c}", "{f}"},
		{"through two proxies", "hops.yaml", "10.0.0.1", "{f}, {c}, 192.0.2.200"},
	} {
		tested[c.file] = true
		t.Run(c.file+" "+c.name, func(t *testing.T) {
			g := guard(t, c.file, pages[c.file])
			ask := func(client string, i int) int {
				fill := strings.NewReplacer("{c}", client, "{f}", netip.AddrFrom4([4]byte{198, 51, 100, byte(i)}).String())
				r := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
				r.RemoteAddr = net.JoinHostPort(fill.Replace(c.peer), "4711")
				r.Header.Set("X-Forwarded-For", fill.Replace(c.field))
				w := httptest.NewRecorder()
				g.ServeHTTP(w, r)
				return w.Code
			}
			for i := range 101 {
				want := http.StatusOK
				if i == 100 {
					want = http.StatusTooManyRequests
				}
				if got := ask("203.0.113.9", i); got != want {
					t.Fatalf("request %d: got %d, want %d", i+1, got, want)
				}
			}
			if strings.Contains(c.peer+c.field, "{c}") {
				if got := ask("203.0.113.10", 0); got != http.StatusOK {
					t.Errorf("another client: got %d", got)
				}
			}
		})
	}
	for name := range pages {
		if !tested[name] {
			t.Errorf("behind.md: %s is not tested", name)
		}
	}
}

// TestBehindHeader: Cloudflare's own header names the client as well.
func TestBehindHeader(t *testing.T) {
	text := files(t, "behind.md")["cloudflare.yaml"]
	g := guard(t, "cloudflare.yaml", strings.Replace(text, "client_ip:\n", "client_ip:\n  header: CF-Connecting-IP\n", 1))
	for i := range 101 {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
		r.RemoteAddr = "172.68.1.1:4711"
		r.Header.Set("X-Forwarded-For", fmt.Sprintf("198.51.100.%d", i))
		r.Header.Set("CF-Connecting-IP", "203.0.113.9")
		w := httptest.NewRecorder()
		g.ServeHTTP(w, r)
		if (w.Code == http.StatusOK) != (i < 100) {
			t.Fatalf("request %d: got %d", i+1, w.Code)
		}
	}
}

// guard returns the limits of a file around a handler that answers 200.
func guard(t *testing.T, name, text string) http.Handler {
	t.Helper()
	c, err := config.Parse(name, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	mw, err := httplimit.New(httplimit.Options{
		Store: memstore.New(memstore.Options{Now: func() time.Time { return now }}), Policy: c.Policy,
		Trusted: c.ClientIP.Trusted, ClientHeader: c.ClientIP.Header, ClientHops: int(c.ClientIP.Hops),
	})
	if err != nil {
		t.Fatal(err)
	}
	return mw.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
}

// TestBehindTooMuch: what behind.md says of a network of clients that is trusted.
func TestBehindTooMuch(t *testing.T) {
	g := guard(t, "all.yaml", "client_ip: {trusted: 10.0.0.0/8}\nrules: [{name: api, by: ip, limits: 1/min}]\n")
	for i := range 10 {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
		r.RemoteAddr = "10.0.1.7:4711"
		r.Header.Set("X-Forwarded-For", fmt.Sprintf("198.51.100.%d, 10.9.9.9", i))
		w := httptest.NewRecorder()
		g.ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			t.Errorf("got %d: the page says that such a client has a budget for each address", w.Code)
		}
	}
}

// TestBehindProxyProtocol: the client is the one in the header of the PROXY protocol, whatever
// it writes.
func TestBehindProxyProtocol(t *testing.T) {
	address := fmt.Sprintf("127.0.0.1:%d", testkit.FreePort(t))
	text := strings.NewReplacer("0.0.0.0:8080", address, "[10.0.1.0/24, 10.0.2.0/24]", "127.0.0.1", "/min", "/day").Replace(files(t, "behind.md")["nlb.yaml"])
	if strings.Count(text, "127.0.0.1") != 2 {
		t.Fatalf("the page has other addresses:\n%s", text)
	}
	file := filepath.Join(t.TempDir(), "nlb.yaml")
	if err := os.WriteFile(file, []byte("admin: off\n"+text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(build(t), "sluice"), "serve", "--config", file)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ask := func(client, forged string) string {
		var conn net.Conn
		testkit.Until(t, "the gateway listens", func() (ok bool) {
			var err error
			conn, err = net.Dial("tcp", address)
			return err == nil
		})
		defer conn.Close() //nolint:errcheck // the answer has been read
		_, err := fmt.Fprintf(conn, "PROXY TCP4 %s 127.0.0.1 4711 8080\r\nGET /?userId=u1 HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: %s\r\n\r\n", client, forged)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close() //nolint:errcheck // it is not read
		return resp.Header.Get("RateLimit")
	}
	for i, want := range []string{`r=99;`, `r=98;`, `r=97;`} {
		if got := ask("203.0.113.9", fmt.Sprintf("198.51.100.%d", i)); !strings.Contains(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if got := ask("203.0.113.10", "203.0.113.9"); !strings.Contains(got, "r=99;") {
		t.Errorf("another client: got %s", got)
	}
}
