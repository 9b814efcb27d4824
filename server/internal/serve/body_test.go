// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// uploads is an upstream that reads bodies and counts their bytes.
type uploads struct {
	url      string
	users    sync.Map // *atomic.Int64 by name: bytes of a cut-off body may arrive during the next one
	requests atomic.Int64
}

// came returns the counter of a user's bytes.
func (u *uploads) came(user string) *atomic.Int64 {
	n, _ := u.users.LoadOrStore(user, new(atomic.Int64))
	return n.(*atomic.Int64)
}

func newUploads(t *testing.T) *uploads {
	t.Helper()
	u := &uploads{}
	u.url = servetest.Backend(t, func(w http.ResponseWriter, r *http.Request) {
		u.requests.Add(1)
		if r.URL.Path == "/early" { // answered before the body has come
			if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
				t.Error(err)
			}
			w.WriteHeader(http.StatusAccepted)
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
		}
		buf := make([]byte, 32<<10)
		for {
			n, err := r.Body.Read(buf)
			u.came(r.Header.Get("X-User")).Add(int64(n))
			if err != nil {
				break
			}
		}
	})
	return u
}

// body returns a body of size bytes whose length the client's transport does not know.
func body(size int64) io.Reader {
	return struct{ io.Reader }{io.LimitReader(letters{}, size)}
}

// letters is an endless body.
type letters struct{}

func (letters) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// onUploads runs a test with the beginning of a configuration, up to its rules, on both
// stores.
func onUploads(t *testing.T, run func(t *testing.T, u *uploads, head string)) {
	t.Helper()
	t.Parallel()
	onBothStores(t, func(t *testing.T, store string) {
		u := newUploads(t)
		run(t, u, fmt.Sprintf("upstream: %s\n%srules:\n  - name: up\n    by: header.X-User\n    failure: closed\n    cost: request-bytes\n    limits: ", u.url, store))
	})
}

// upload sends a body, of unknown length if length is negative.
func upload(t *testing.T, client *http.Client, url, user string, size, length int64) servetest.Answer {
	t.Helper()
	req := servetest.Request(t.Context(), t, http.MethodPost, url, body(size), "X-User", user)
	req.ContentLength = length
	return servetest.Do(t, client, req)
}

// left returns how many more bytes a user may send.
func left(t *testing.T, s *servetest.Gateway, user string) (n int64) {
	t.Helper()
	a := s.Get(t, "/.well-known/ratelimit", "X-User", user)
	if _, after, ok := strings.Cut(a.Body, `"remaining":`); ok {
		if _, err := fmt.Sscanf(after, "%d", &n); err == nil {
			return n
		}
	}
	t.Errorf("got %d %s", a.Status, a.Body)
	return 0
}

// TestChunked: a body without a length is denied like the same body with one, and uncharged
// bytes do not reach the upstream.
func TestChunked(t *testing.T) {
	onUploads(t, func(t *testing.T, u *uploads, head string) {
		s := servetest.Start(t, head+"1MB/day fixed-window\n", servetest.Stopped)
		for _, c := range []struct {
			user        string
			spent, size int64
			status      int
			retry       bool
		}{
			{"large", 0, 5_000_000, 413, false},
			{"partly spent", 600_000, 500_000, 429, true},
			{"fits", 600_000, 400_000, 200, false},
			{"nothing", 0, 0, 200, false},
			{"a byte", 0, 1, 200, false},
			{"all spent", 1_000_000, 1, 429, true},
		} {
			if c.spent > 0 {
				upload(t, http.DefaultClient, s.URL, c.user, c.spent, c.spent)
			}
			u.came(c.user).Store(0)
			a := upload(t, http.DefaultClient, s.URL, c.user, c.size, -1)
			if a.Status != c.status || (a.Header.Get("Retry-After") != "") != c.retry {
				t.Errorf("%s: got %d, Retry-After %q: %s", c.user, a.Status, a.Header.Get("Retry-After"), a.Body)
			}
			if c.status != 200 && (!strings.Contains(a.Body, "quota-exceeded") || a.Header.Get("Ratelimit") == "") {
				t.Errorf("%s: got %v %s", c.user, a.Header, a.Body)
			}
			if came, paid := u.came(c.user).Load(), 1_000_000-c.spent-left(t, s, c.user); came > paid || c.status == 200 && came != c.size || c.status == 200 && paid != c.size {
				t.Errorf("%s: %d bytes came, and %d were charged", c.user, came, paid)
			}
		}
	})
}

// TestChunkedAsMany: as many bodies pass without a length as with one.
func TestChunkedAsMany(t *testing.T) {
	onUploads(t, func(t *testing.T, _ *uploads, head string) {
		s := servetest.Start(t, head+"1MB/day fixed-window\n", servetest.Stopped)
		var passed [2]int
		for i, length := range []int64{-1, 50_000} {
			for range 40 {
				if upload(t, http.DefaultClient, s.URL, fmt.Sprint("user", i), 50_000, length).Status == 200 {
					passed[i]++
				}
			}
		}
		if passed != [2]int{20, 20} {
			t.Errorf("%d pass without a length, and %d with one", passed[0], passed[1])
		}
	})
}

// TestChunkedAtOnce: of many bodies at once, no more bytes reach the upstream than the limit
// admits.
func TestChunkedAtOnce(t *testing.T) {
	onUploads(t, func(t *testing.T, u *uploads, head string) {
		s := servetest.Start(t, head+"1MB/day fixed-window\n", servetest.Stopped)
		var all sync.WaitGroup
		for range 30 {
			all.Go(func() { upload(t, http.DefaultClient, s.URL, "ada", 300_000, -1) })
		}
		all.Wait()
		if came := u.came("ada").Load(); came > 1_000_000 {
			t.Errorf("%d bytes came", came)
		}
		if upload(t, http.DefaultClient, s.URL, "ada", 1_000_000, 1_000_000).Status == 200 {
			t.Error("nothing was charged")
		}
	})
}

// TestChunkedHungUp: a client that hangs up in the middle of its body is charged for the bytes
// read.
func TestChunkedHungUp(t *testing.T) {
	onUploads(t, func(t *testing.T, u *uploads, head string) {
		s := servetest.Start(t, head+"1MB/day fixed-window\n", servetest.Stopped)
		conn := servetest.Dial(t, s.URL, "")
		const size = 200_000
		if _, err := fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nX-User: ada\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", size, strings.Repeat("x", size)); err != nil {
			t.Fatal(err)
		}
		testkit.Until(t, "the bytes to come", func() bool { return u.came("ada").Load() == size })
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
		testkit.Until(t, "the rest to be refunded", func() bool { return left(t, s, "ada") == 1_000_000-size })
	})
}

// TestChunkedEarly: a response that began before the body's denial is cut off.
func TestChunkedEarly(t *testing.T) {
	onUploads(t, func(t *testing.T, u *uploads, head string) {
		s := servetest.Start(t, head+"1MB/day fixed-window\n", servetest.Stopped)
		conn := servetest.Dial(t, s.URL, "")
		defer conn.Close() //nolint:errcheck // the gateway closes it
		if _, err := io.WriteString(conn, "POST /early HTTP/1.1\r\nHost: x\r\nX-User: ada\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n"); err != nil {
			t.Fatal(err)
		}
		if err := conn.SetDeadline(time.Now().Add(testkit.Ceiling)); err != nil {
			t.Fatal(err)
		}
		r := bufio.NewReader(conn)
		resp, err := http.ReadResponse(r, nil) //nolint:bodyclose // the connection is closed
		if err != nil || resp.StatusCode != http.StatusAccepted {
			t.Fatalf("got %v, %v", resp, err)
		}
		go func() {
			chunk := fmt.Sprintf("%x\r\n%s\r\n", 1<<16, strings.Repeat("x", 1<<16))
			for {
				if _, err := io.WriteString(conn, chunk); err != nil {
					return
				}
			}
		}()
		if rest, err := io.ReadAll(resp.Body); err == nil {
			t.Errorf("the response ends well: %q", rest)
		}
		testkit.Until(t, "the request to be settled", func() bool { return left(t, s, "ada") < 100_000 })
		if came := u.came("ada").Load(); came > 1_000_000 {
			t.Errorf("%d bytes came", came)
		}
	})
}

// TestChunkedExpect: a client that waits for 100 Continue does not get it when nothing is
// left, and is otherwise charged like any other. Trailers cost nothing.
func TestChunkedExpect(t *testing.T) {
	onUploads(t, func(t *testing.T, u *uploads, head string) {
		s := servetest.Start(t, head+"10B/day fixed-window\n", servetest.Stopped)
		for _, c := range []struct {
			chunk, want string
		}{{"4", "HTTP/1.1 100 Continue"}, {"6", "HTTP/1.1 100 Continue"}, {"1", "HTTP/1.1 429"}} {
			conn := servetest.Dial(t, s.URL, "POST / HTTP/1.1\r\nHost: x\r\nX-User: ada\r\nExpect: 100-continue\r\nTrailer: X-T\r\nTransfer-Encoding: chunked\r\n\r\n")
			r := bufio.NewReader(conn)
			line, err := r.ReadString('\n')
			if err != nil || !strings.HasPrefix(line, c.want) {
				t.Errorf("%s bytes: got %q, %v; want %s", c.chunk, line, err, c.want)
			}
			if c.want == "HTTP/1.1 100 Continue" {
				n := int(c.chunk[0] - '0')
				if _, err := fmt.Fprintf(conn, "%x\r\n%s\r\n0\r\nX-T: 1\r\n\r\n", n, strings.Repeat("x", n)); err != nil {
					t.Fatal(err)
				}
				for strings.TrimSpace(line) != "" { // the other fields
					if line, err = r.ReadString('\n'); err != nil {
						t.Fatal(err)
					}
				}
				resp, err := http.ReadResponse(r, nil)                     //nolint:bodyclose // the connection is closed
				for err == nil && resp.StatusCode == http.StatusContinue { // the upstream's own
					resp, err = http.ReadResponse(r, nil) //nolint:bodyclose // the connection is closed
				}
				if err != nil || resp.StatusCode != http.StatusOK {
					t.Errorf("%s bytes: got %v, %v", c.chunk, resp, err)
				}
			}
			if err := conn.Close(); err != nil {
				t.Error(err)
			}
		}
		if n := u.requests.Load(); n != 2 {
			t.Errorf("%d requests reached the upstream, want 2", n)
		}
	})
}

// TestChunkedHTTP2: TestChunked over HTTP/2, where a body needs no length.
func TestChunkedHTTP2(t *testing.T) {
	onUploads(t, func(t *testing.T, u *uploads, head string) {
		s := servetest.Start(t, head+"1MB/day fixed-window\n", servetest.Stopped)
		protocols := new(http.Protocols)
		protocols.SetUnencryptedHTTP2(true)
		transport := &http.Transport{Protocols: protocols}
		defer transport.CloseIdleConnections()
		client := &http.Client{Transport: transport}
		for _, c := range []struct {
			user   string
			size   int64
			status int
		}{{"fits", 1_000_000, 200}, {"large", 5_000_000, 413}, {"fits", 1, 429}, {"small", 10, 200}} {
			u.came(c.user).Store(0)
			if a := upload(t, client, s.URL, c.user, c.size, -1); a.Status != c.status {
				t.Errorf("%s: got %d %s, want %d", c.user, a.Status, a.Body, c.status)
			}
			if came := u.came(c.user).Load(); came > 1_000_000 || c.status == 200 && came != c.size {
				t.Errorf("%s: %d bytes came", c.user, came)
			}
		}
		if n := left(t, s, "small"); n != 1_000_000-10 {
			t.Errorf("%d bytes are left", n)
		}
	})
}
