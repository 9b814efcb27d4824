// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package gateway_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/gateway"
	"github.com/sluicegate/sluice/internal/testkit"
)

// raw sends a request of bytes and returns what comes until the server closes the
// connection, without what differs from one response to the next: the date, how a body
// is cut into chunks, and its type where net/http guesses it, as it does only if the
// first bytes are there in time.
func raw(t *testing.T, server, text string) string {
	t.Helper()
	c, in := dial(t, server, text)
	check(t, c.SetDeadline(time.Now().Add(testkit.Ceiling)))
	method, _, _ := strings.Cut(text, " ")
	var got strings.Builder
	for status := 100; status < 200; {
		resp, err := http.ReadResponse(in, &http.Request{Method: method})
		if err != nil {
			fmt.Fprintf(&got, "%v\n", err)
			break
		}
		resp.Header.Del("Date")
		if resp.Header.Get("Content-Type") == "text/plain; charset=utf-8" {
			resp.Header.Del("Content-Type")
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close() // err says how it ended
		fmt.Fprintf(&got, "%s %s\n%v %v %v\n%v %v\n%s\n", resp.Proto, resp.Status, resp.Header, resp.ContentLength, resp.TransferEncoding, err, resp.Trailer, body)
		status = resp.StatusCode
	}
	rest, err := io.ReadAll(in)
	if err != nil && !strings.Contains(err.Error(), "reset") {
		t.Errorf("after %q: %v", got.String(), err)
	}
	return got.String() + string(rest)
}

// both serves an upstream by either transport. Fresh has the next request to async take
// a new connection: that what differs is net/http's race for one that the upstream has
// just closed is not to be seen. An answer is awaited for so long.
func both(t *testing.T, upstream string, timeout time.Duration) (async, sync string, fresh func()) {
	t.Helper()
	g, err := gateway.New(upstream, gateway.Options{ResponseTimeout: timeout, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	async = serve(t, gateway.WithDeadlines(g, time.Minute), g.Close)
	return async, front(t, upstream, gateway.Options{ResponseTimeout: timeout, Sync: true}), g.Close
}

// answersRaw is an upstream that answers each request with the bytes that its query
// names, and then closes the connection if its path is /close, or a little later.
func answersRaw(t *testing.T, answers []string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var open sync.WaitGroup
	open.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			open.Go(func() {
				defer c.Close() //nolint:errcheck // the gateway may have
				in := bufio.NewReader(c)
				for {
					r, err := http.ReadRequest(in)
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, r.Body) // of a client that left
					var n int
					if _, err := fmt.Sscan(r.URL.RawQuery, &n); err != nil {
						t.Error(err)
					}
					if _, err := io.WriteString(c, answers[n]); err != nil || r.URL.Path == "/close" {
						return
					}
					check(t, c.SetDeadline(time.Now().Add(100*time.Millisecond)))
				}
			})
		}
	})
	t.Cleanup(func() {
		check(t, l.Close())
		open.Wait()
	})
	return "http://" + l.Addr().String()
}

const head = "HTTP/1.1 200 OK\r\n"

// rawAnswers are right and wrong responses. What net/http's transport takes, rejects, or
// cuts off the other does, too.
var rawAnswers = []string{
	head + "Content-Length: 2\r\n\r\nok",
	head + "Content-Length: 2\r\nX-A: 1\r\nX-A: 2\r\nSet-Cookie: a=b\r\nConnection: X-A\r\n\r\nok",
	head + "Content-Length: 2\r\nConnection: close\r\n\r\nok",
	head + "Content-Length: 2\r\nKeep-Alive: timeout=5\r\nProxy-Connection: x\r\n\r\nok",
	"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
	"HTTP/1.0 200 OK\r\n\r\nok",
	"HTTP/1.1 404\r\nContent-Length: 0\r\n\r\n",
	"HTTP/1.1 599 Own Words\r\nContent-Length: 0\r\n\r\n",
	"HTTP/1.1 204 No Content\r\n\r\n",
	"HTTP/1.1 204 No Content\r\nContent-Length: 6\r\n\r\npoison",
	"HTTP/1.1 304 Not Modified\r\nEtag: x\r\nContent-Length: 9\r\n\r\n",
	"HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n",
	"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + head + "Content-Length: 2\r\n\r\nok",
	"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n" + head + "Content-Length: 2\r\n\r\nok",
	"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n",
	"HTTP/1.1 101 Switching Protocols\r\n\r\n",
	head + "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
	head + "Transfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n2\r\nok\r\n0\r\nX-T: 1\r\n\r\n",
	head + "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Not-Announced: 1\r\n\r\n",
	head + "Transfer-Encoding: chunked\r\nTrailer: Content-Length\r\n\r\n0\r\n\r\n",
	head + "Transfer-Encoding: chunked\r\nContent-Length: 7\r\n\r\n2\r\nok\r\n0\r\n\r\n",
	head + "Transfer-Encoding: identity\r\nContent-Length: 2\r\n\r\nok",
	head + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
	head + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	head + "Transfer-Encoding: CHUNKED\r\n\r\n2\r\nok\r\n0\r\n\r\n",
	head + "Transfer-Encoding: xchunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
	head + "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\nx\r\n",
	head + "Transfer-Encoding: chunked\r\n\r\n-2\r\nok\r\n",
	head + "Transfer-Encoding: chunked\r\n\r\n2\r\nokay\r\n0\r\n\r\n",
	head + "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nok",
	head + "Content-Length: 2\r\nContent-Length: 2\r\n\r\nok",
	head + "Content-Length: 2\r\nContent-Length: 3\r\n\r\nok!",
	head + "Content-Length: 2, 2\r\n\r\nok",
	head + "Content-Length: +2\r\n\r\nok",
	head + "Content-Length: 0x2\r\n\r\nok",
	head + "Content-Length: -2\r\n\r\nok",
	head + "Content-Length: 99999999999999999999\r\n\r\nok",
	head + "Content-Length:\r\n\r\nok",
	head + " folded: 1\r\nContent-Length: 2\r\n\r\nok",
	head + "X: 1\r\n folded\r\nContent-Length: 2\r\n\r\nok",
	head + "Bad Name: 1\r\nContent-Length: 2\r\n\r\nok",
	head + "X: \x00\r\nContent-Length: 2\r\n\r\nok",
	head + "X: a\rY: b\r\nContent-Length: 2\r\n\r\nok",
	head + ": empty\r\nContent-Length: 2\r\n\r\nok",
	head + "no colon\r\n\r\n",
	"HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
	"HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
	"HTTP/3.7 200 OK\r\n\r\nok",
	"HTTP/1.1 20 OK\r\n\r\n",
	"HTTP/1.1 2000 OK\r\n\r\n",
	"HTTP/1.1 abc OK\r\n\r\n",
	"ICY 200 OK\r\n\r\n",
	"\r\n" + head + "Content-Length: 2\r\n\r\nok",
	"",
	"HTTP/1.1 200 OK",
	head,
	head + "Content-Length: 9\r\n\r\nok",
	head + "Content-Length: 2\r\n\r\nok" + head + "Content-Length: 6\r\n\r\npoison",
	head + "X: " + strings.Repeat("x", 300<<10) + "\r\nContent-Length: 2\r\n\r\nok",
	head + "X: " + strings.Repeat("x", 200<<10) + "\r\nContent-Length: 2\r\n\r\nok",
	head + "Content-Length: 200000\r\n\r\n" + strings.Repeat("x", 200000),
	head + "Content-Type: text/event-stream\r\n\r\ndata: 1\n\n",
}

// TestAlikeRaw: what a client gets of an upstream's answer, right or wrong, does not
// depend on the transport, and no request gets what belongs to another.
func TestAlikeRaw(t *testing.T) {
	log.SetOutput(io.Discard) // net/http's transport writes there what it was not asked for
	t.Cleanup(func() { log.SetOutput(os.Stderr) })
	async, sync, fresh := both(t, answersRaw(t, rawAnswers), time.Minute)
	for i, answer := range rawAnswers {
		for _, line := range []string{"GET /close", "HEAD /close", "POST /close", "GET /keep", "HEAD /keep"} {
			// With its key a POST may be sent again, like the rest: the end of a connection may
			// cross the next request on it.
			text := fmt.Sprintf("%s?%d HTTP/1.1\r\nHost: h\r\nIdempotency-Key: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", line, i)
			fresh()
			want := raw(t, async, text)
			for range 2 { // the second may find a connection
				if got := raw(t, sync, text); got != want {
					t.Errorf("%s, answered with %.200q: got\n%.300s\nwant\n%.300s", line, answer, got, want)
				}
			}
		}
		if got := raw(t, sync, "GET /keep?0 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"); !strings.HasSuffix(got, "<nil> map[]\nok\n") {
			t.Errorf("behind %.200q: got\n%.300s", answer, got)
		}
	}
}

// requests are of all kinds: those that are sent at once and others.
var requests = []string{
	"GET / HTTP/1.1\r\nHost: h\r\n",
	"GET /a%2Fb?q=%20;x HTTP/1.1\r\nHost: h\r\nX-Odd: \t a,b \r\nAccept-Encoding: gzip\r\n",
	"GET / HTTP/1.1\r\nHost: h\r\nUser-Agent: u\r\nTe: trailers\r\nConnection: X-Hop, close\r\nX-Hop: 1\r\n",
	"HEAD /length HTTP/1.1\r\nHost: h\r\n",
	"OPTIONS / HTTP/1.1\r\nHost: h\r\n",
	"OPTIONS * HTTP/1.1\r\nHost: h\r\n",
	"DELETE / HTTP/1.1\r\nHost: h\r\n",
	"PURGE / HTTP/1.1\r\nHost: h\r\n",
	"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n",
	"GET /length HTTP/1.1\r\nHost: h\r\n",
	"GET /chunks HTTP/1.1\r\nHost: h\r\n",
	"GET /trailers HTTP/1.1\r\nHost: h\r\nTe: trailers\r\n",
	"GET /hints HTTP/1.1\r\nHost: h\r\n",
	"GET /empty HTTP/1.1\r\nHost: h\r\n",
	"GET /304 HTTP/1.1\r\nHost: h\r\n",
	"GET /large HTTP/1.1\r\nHost: h\r\n",
	"GET /abort HTTP/1.1\r\nHost: h\r\n",
	"GET /abort-late HTTP/1.1\r\nHost: h\r\n",
	"GET /slow HTTP/1.1\r\nHost: h\r\n",
	"GET / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n",
	"GET / HTTP/1.1\r\nHost: h\r\nX-Long: " + strings.Repeat("x", 30000) + "\r\n",
	"GET / HTTP/1.0\r\nHost: h\r\n",
}

// echo is an upstream of net/http that shows what has come.
func echo(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/length":
		w.Header().Set("Content-Length", "5")
		_, _ = io.WriteString(w, "12345")
	case "/chunks", "/abort-late":
		for range 3 {
			_, _ = io.WriteString(w, "part")
			_ = http.NewResponseController(w).Flush()
		}
		if r.URL.Path == "/abort-late" {
			panic(http.ErrAbortHandler)
		}
	case "/trailers":
		w.Header().Set("Trailer", "X-T")
		_, _ = io.WriteString(w, "body")
		w.Header().Set("X-T", "1")
	case "/hints":
		w.Header().Set("Link", "</a>")
		w.WriteHeader(http.StatusEarlyHints)
	case "/empty":
		w.WriteHeader(http.StatusNoContent)
	case "/304":
		w.WriteHeader(http.StatusNotModified)
	case "/large":
		_, _ = w.Write(make([]byte, 3<<20))
	case "/abort":
		panic(http.ErrAbortHandler)
	case "/slow":
		<-r.Context().Done()
	default:
		_, _ = fmt.Fprintf(w, "%s %s %s %d %v\n", r.Method, r.RequestURI, r.Host, r.ContentLength, r.TransferEncoding)
		_ = r.Header.WriteSubset(w, nil)
	}
}

// TestAlike: requests arrive, and are answered, alike by both transports, from an
// upstream of net/http and from nginx.
func TestAlike(t *testing.T) {
	for name, upstream := range map[string]string{"net/http": serve(t, http.HandlerFunc(echo)), "nginx": startNginx(t)} {
		patient, patientSync, fresh := both(t, upstream, time.Minute)
		for _, text := range requests {
			t.Run(name+" "+text[:min(len(text), 30)], func(t *testing.T) {
				async, sync, fresh := patient, patientSync, fresh
				if name == "net/http" && strings.HasPrefix(text, "GET /slow ") { // nginx answers it
					async, sync, fresh = both(t, upstream, time.Second)
				}
				if !strings.Contains(text, "Connection:") {
					text += "Connection: close\r\n"
				}
				text += "\r\n"
				fresh()
				want := raw(t, async, text)
				for range 3 {
					if got := raw(t, sync, text); got != want {
						t.Errorf("%.60q: got\n%.600s\nwant\n%.600s", text, got, want)
					}
				}
			})
		}
	}
}

// startNginx returns the address of an nginx that closes each connection behind its
// third request.
func startNginx(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("it starts nginx")
	}
	address := testkit.FreeAddress(t)
	dir := t.TempDir()
	check(t, os.Chmod(dir, 0o755))
	conf := filepath.Join(dir, "nginx.conf")
	check(t, os.WriteFile(conf, fmt.Appendf(nil, `daemon off; master_process off; pid %[1]s/pid; error_log stderr; events {}
http {
	access_log off; keepalive_requests 3; client_header_buffer_size 64k; large_client_header_buffers 4 64k;
	client_body_temp_path %[1]s; proxy_temp_path %[1]s; fastcgi_temp_path %[1]s; uwsgi_temp_path %[1]s; scgi_temp_path %[1]s;
	server { listen %[2]s; location / { return 200 "$request_method $request_uri $http_host $http_x_odd $http_x_forwarded_for"; }
		location = /empty { return 204; } location = /304 { return 304; } location = /abort { return 444; } }
}`, dir, address), 0o600))
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "nginx", "-p", dir, "-c", conf, "-e", "stderr")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v; install it, on Debian: apt-get install nginx", err)
	}
	t.Cleanup(func() {
		check(t, cmd.Process.Signal(os.Interrupt))
		_ = cmd.Wait() // it says how it was ended
	})
	testkit.Until(t, "nginx", func() bool {
		c, err := net.Dial("tcp", address)
		if err == nil {
			check(t, c.Close())
		}
		return err == nil
	})
	return "http://" + address
}

// everySync is set for a run of the tests of this package in which upstreams of http have
// the synchronous transport.
const everySync = "GATEWAY_TESTS_SYNC"

// chosen returns opts for an upstream with the transport of this run.
func chosen(opts gateway.Options, upstream string) gateway.Options {
	opts.Sync = opts.Sync || os.Getenv(everySync) != "" && strings.HasPrefix(upstream, "http://")
	return opts
}

// TestAllSync: all that holds for a Gateway does with the synchronous transport. Tests
// that have both anyway, or none, are left out.
func TestAllSync(t *testing.T) {
	if os.Getenv(everySync) != "" {
		t.Skip("this is that run")
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.skip=^Test(Alike|Soak|DeadlineSet)", "-test.timeout=9m")
	cmd.Env = append(os.Environ(), everySync+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
