// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package gateway_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/server/internal/gateway"
)

// nobody is an address without a listener. A port that was free a moment ago may be in use by
// now.
const nobody = "127.0.0.1:1"

// rawUpstream returns the address of a server that answers every request with text and closes.
func rawUpstream(t *testing.T, text string) string {
	t.Helper()
	return serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _ := hijack(t, w, text)
		_ = conn.Close() // the end of the server may have come first
	}))
}

func TestFailuresOfTheUpstream(t *testing.T) {
	hangs := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			t.Error(err)
		}
		<-r.Context().Done()
	}))
	for _, c := range []struct {
		name, upstream string
		opts           gateway.Options
		want           int
	}{
		{"nobody listens", "http://" + nobody, gateway.Options{}, http.StatusBadGateway},
		{"closes without an answer", rawUpstream(t, ""), gateway.Options{}, http.StatusBadGateway},
		{"does not speak HTTP", rawUpstream(t, "220 mail.example ESMTP\r\n"), gateway.Options{}, http.StatusBadGateway},
		{"answers with an endless header", rawUpstream(t, "HTTP/1.1 200 OK\r\nX: "+strings.Repeat("x", 300<<10)), gateway.Options{}, http.StatusBadGateway},
		{"switches protocol unasked", rawUpstream(t, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"), gateway.Options{}, http.StatusBadGateway},
		{"does not answer in time", hangs, gateway.Options{ResponseTimeout: time.Millisecond}, http.StatusGatewayTimeout},
		{"cannot be dialled in time", hangs, gateway.Options{Dial: dialLate}, http.StatusGatewayTimeout},
	} {
		t.Run(c.name, func(t *testing.T) {
			// A POST, as a client's transport may send a GET twice.
			wantProblem(t, do(t, http.MethodPost, front(t, c.upstream, c.opts), strings.NewReader("x")), c.want)
		})
	}
}

// dialLate dials without the time to connect.
func dialLate(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Nanosecond)
	defer cancel()
	return new(net.Dialer).DialContext(ctx, network, address)
}

// wantProblem fails t unless resp is a problem document of that status without the upstream's
// address.
func wantProblem(t *testing.T, got reply, status int) {
	t.Helper()
	if got.status != status {
		t.Errorf("status %d, want %d", got.status, status)
	}
	if kind := got.header.Get("Content-Type"); kind != "application/problem+json" {
		t.Errorf("content type %q", kind)
	}
	var doc struct {
		Title, Detail string
		Status        int
	}
	text := readAll(t, got.body)
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatalf("%v in %q", err, text)
	}
	if doc.Status != status || doc.Title != http.StatusText(status) || doc.Detail == "" || strings.Contains(text, "127.0.0.1") {
		t.Errorf("problem %s", text)
	}
}

// TestBreaksOff: a response that the upstream does not finish does not look complete to the
// client.
func TestBreaksOff(t *testing.T) {
	for _, c := range []struct{ name, response string }{
		{"of known length", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"},
		{"chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			resp := do(t, http.MethodGet, front(t, rawUpstream(t, c.response), gateway.Options{}), nil)
			if body, err := io.ReadAll(resp.body); err == nil {
				t.Errorf("read %q without an error", body)
			}
		})
	}
}

// TestFaultsOfTheClient: a fault of the client is not the upstream's failure.
func TestFaultsOfTheClient(t *testing.T) {
	upstream := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			t.Error("the body ended well")
		}
	}))
	g := front(t, upstream, gateway.Options{})
	limited := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, 3)
		gw, err := gateway.New(upstream, gateway.Options{Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Error(err)
			return
		}
		defer gw.Close()
		gw.ServeHTTP(w, r)
	}))
	for _, c := range []struct {
		name, front, request string
		want                 int
	}{
		{"chunk without a length", g, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", http.StatusBadRequest},
		{"body above its bound", limited, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n", http.StatusRequestEntityTooLarge},
		{"target with a host within", g, "GET x:http://h/login HTTP/1.1\r\nHost: x\r\n\r\n", http.StatusBadRequest},
		{"target without a slash", g, "GET x:login HTTP/1.1\r\nHost: x\r\n\r\n", http.StatusBadRequest},
		{"target of http without a slash", g, "GET http:login HTTP/1.1\r\nHost: x\r\n\r\n", http.StatusBadRequest},
		{"unreadable protocol", g, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: \xff\xfe\r\n\r\n", http.StatusBadRequest},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, answers := dial(t, c.front, c.request)
			resp, err := http.ReadResponse(answers, nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { check(t, resp.Body.Close()) })
			wantProblem(t, replyOf(resp), c.want)
		})
	}
}

func TestNewRefuses(t *testing.T) {
	for _, c := range []struct{ name, upstream, want string }{
		{"nothing", "", "is empty; use for example http://127.0.0.1:3000"},
		{"no scheme", "localhost:3000", "does not begin with http://, https:// or h2c://"},
		{"another scheme", "ftp://x", "does not begin with http://, https:// or h2c://"},
		{"no host", "http://", "names no host"},
		{"port only", "http://:80", "names no host"},
		{"control characters", "http://x\n", "is not a URL"},
		{"user", "http://me:secret@x", "holds a user name"},
		{"query", "http://x/?a=b", "has a query"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := gateway.New(c.upstream, gateway.Options{})
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}
