// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package fiberlimit_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/gofiber/fiber/v3"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/adapters/internal/limittest"
	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/policy"
)

// TestPaths: paths of one route in fiber are charged as one.
func TestPaths(t *testing.T) {
	for _, c := range []struct {
		name    string
		config  fiber.Config
		targets []string // the one handler serves each of them
	}{
		{"by default", fiber.Config{}, []string{"/private", "/private/", "/PRIVATE", "/Private//", "/private?a=/b", "/private?a=://b"}},
		{"unescaped", fiber.Config{UnescapePath: true}, []string{"/private", "/%70rivate", "/PRIV%41TE", "/private%2F"}},
		{"strict", fiber.Config{StrictRouting: true, CaseSensitive: true}, []string{"/private", "http://127.0.0.1/private"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			start := starting(c.config, func(app *fiber.App, _ *limittest.Signals) {
				app.Get("/private", func(c fiber.Ctx) error { return c.SendString("secret") })
			})
			const limit = "100/min"
			r := limittest.Rule(t, limit)
			r.Match.Paths = []string{"/private"}
			s := limittest.Serve(t, start, httplimit.Options{Rules: []policy.Rule{r}})
			for i, target := range c.targets {
				conn := s.Dial(t, "GET "+target+" HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
				answer, err := io.ReadAll(conn)
				if err != nil || !bytes.HasSuffix(answer, []byte("secret")) {
					t.Fatalf("%s: %q, %v", target, answer, err)
				}
				if got := s.Spent(t, limit); got != int64(i)+1 {
					t.Errorf("%s is not charged: %d are spent", target, got)
				}
			}
		})
	}
	t.Run("unreadable", func(t *testing.T) {
		s := limittest.Serve(t, start, httplimit.Options{Rules: []policy.Rule{limittest.Rule(t, "1/min")}})
		conn := s.Dial(t, "GET /%zz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		if answer, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 400 ") {
			t.Errorf("%q, %v; want 400", answer, err)
		}
	})
}

// TestReusedBuffers: fasthttp reuses its buffers, and no request is charged to the key of
// another because of that.
func TestReusedBuffers(t *testing.T) {
	const users, requests = 40, 25
	l, err := sluice.ParseLimit(strconv.Itoa(requests) + "/min")
	if err != nil {
		t.Fatal(err)
	}
	r := policy.NewRule("api", policy.Header("X-User"), l)
	r.Cost = policy.Cost{Of: policy.ResponseHeader, Header: "X-Cost", Most: 10} // it is settled late
	start := starting(fiber.Config{}, func(app *fiber.App, _ *limittest.Signals) {
		app.Get("/cost", func(c fiber.Ctx) error {
			c.Set("X-Cost", "1")
			name := c.Get("X-User") + "\n" // in a reused buffer
			if len(name)%2 == 0 {
				return c.SendString(name)
			}
			return c.SendStreamWriter(func(w *bufio.Writer) { _, _ = w.Write(limittest.Chunk) }) // the client is there
		})
	})
	s := limittest.Serve(t, start, httplimit.Options{Rules: []policy.Rule{r}})
	var clients sync.WaitGroup
	for user := range users {
		clients.Go(func() {
			name := "X-User: " + strings.Repeat("u", user%7) + strconv.Itoa(user)
			for range requests {
				if got := s.Get(t, "/cost", name); got != http.StatusOK {
					t.Errorf("%s: got %d, want 200", name, got)
				}
			}
			if got := s.Get(t, "/cost", name); got != http.StatusTooManyRequests {
				t.Errorf("%s over the limit: got %d, want 429", name, got)
			}
		})
	}
	clients.Wait()
}

// TestStreamsOfKnownLength: files and other streams are sent unchanged, and counted.
func TestStreamsOfKnownLength(t *testing.T) {
	const size = 100_000
	content := bytes.Repeat([]byte("x"), size)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	start := starting(fiber.Config{}, func(app *fiber.App, _ *limittest.Signals) {
		app.Get("/file", func(c fiber.Ctx) error { return c.SendFile(file) })
		app.Get("/reader", func(c fiber.Ctx) error { return c.SendStream(bytes.NewReader(content), size) })
		app.Get("/limited", func(c fiber.Ctx) error {
			return c.SendStream(&io.LimitedReader{R: bytes.NewReader(content), N: size})
		})
	})
	const limit = "10MB/min"
	r := limittest.Rule(t, limit)
	s := limittest.Serve(t, start, httplimit.Options{Rules: []policy.Rule{r}})
	for i, target := range []string{"/file", "/reader", "/limited"} {
		got := s.Ask(t, http.MethodGet, target, http.NoBody)
		if got.Body != string(content) || got.Header.Get("Content-Length") != strconv.Itoa(size) {
			t.Errorf("%s: %d bytes, %v", target, len(got.Body), got.Header)
		}
		s.Reach(t, limit, int64(i+1)*size)
		s.Ask(t, http.MethodHead, target, http.NoBody)
		s.Reach(t, limit, int64(i+1)*size)
	}
}

// TestClientLeavesStream: a stream whose client has left frees its slot.
func TestClientLeavesStream(t *testing.T) {
	start := starting(fiber.Config{}, func(app *fiber.App, _ *limittest.Signals) {
		app.Get("/endless", func(c fiber.Ctx) error {
			return c.SendStreamWriter(func(w *bufio.Writer) {
				for w.Flush() == nil {
					_, _ = w.Write(limittest.Chunk) // Flush reports
				}
			})
		})
	})
	s := limittest.Serve(t, start, httplimit.Options{Rules: []policy.Rule{limittest.OneAtATime()}})
	conn := s.Dial(t, "GET /endless HTTP/1.1\r\nHost: x\r\n\r\n")
	if _, err := io.ReadFull(conn, make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	if got := s.Get(t, "/bytes"); got != http.StatusTooManyRequests {
		t.Errorf("beside a stream: got %d, want 429", got)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	s.Free(t)
}

// TestClientLeavesHijack: if a client leaves before its connection is hijacked, fasthttp drops
// the request, and the slot is still freed.
func TestClientLeavesHijack(t *testing.T) {
	start := starting(fiber.Config{}, func(app *fiber.App, s *limittest.Signals) {
		app.Get("/late", func(c fiber.Ctx) error {
			s.Started <- struct{}{}
			<-s.Release
			c.RequestCtx().Hijack(func(net.Conn) { panic("the connection is hijacked though its client has left") })
			return c.Send(bytes.Repeat(limittest.Whole, 100)) // more than is buffered
		})
	})
	s := limittest.Serve(t, start, httplimit.Options{Rules: []policy.Rule{limittest.OneAtATime()}})
	conn := s.Dial(t, "GET /late HTTP/1.1\r\nHost: x\r\n\r\n")
	<-s.Started
	if err := conn.(*net.TCPConn).SetLinger(0); err != nil { // so that a write fails
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	s.Release <- struct{}{}
	testkit.Until(t, "a free slot", func() bool {
		runtime.GC()
		return s.Get(t, "/bytes") == http.StatusOK
	})
}

// TestGetWithBody: the body of a GET counts, although fasthttp's length for it is 0.
func TestGetWithBody(t *testing.T) {
	for _, stream := range []bool{false, true} {
		t.Run(fmt.Sprintf("streamed %v", stream), func(t *testing.T) {
			start := starting(fiber.Config{StreamRequestBody: stream}, func(app *fiber.App, _ *limittest.Signals) {
				app.Get("/upload", func(c fiber.Ctx) error { return c.SendString(strconv.Itoa(len(c.Body()))) })
			})
			const limit = "10kB/min"
			r := limittest.Rule(t, limit)
			r.Cost = policy.Cost{Of: policy.RequestBytes}
			s := limittest.Serve(t, start, httplimit.Options{Rules: []policy.Rule{r}})
			got := s.Ask(t, http.MethodGet, "/upload", bytes.NewReader(limittest.Whole))
			read, err := strconv.Atoi(got.Body)
			if err != nil {
				t.Fatalf("%+v", got)
			}
			s.Reach(t, limit, int64(read))
		})
	}
}

// TestTimeouts: a request that exceeds its timeout counts under every When, as its handler may
// still run.
func TestTimeouts(t *testing.T) {
	s := limittest.Serve(t, start, httplimit.Options{Rules: []policy.Rule{limittest.Counting(t, "3/min", http.StatusUnauthorized, true)}})
	for _, want := range []int{408, 408, 408, 429} {
		if got := s.Ask(t, http.MethodPost, "/login/timeout", http.NoBody).Status; got != want {
			t.Errorf("got %d, want %d", got, want)
		}
	}
}
