// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package gateway_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/gateway"
)

// scarce is a server whose clients may take 400 KB: six connections, each with a request.
type scarce struct {
	*gateway.Memory
	address string
	release chan struct{} // lets a request of /stay end
	refused atomic.Int64
}

func newScarce(t *testing.T) *scarce {
	t.Helper()
	s := &scarce{Memory: gateway.NewMemory(1_000_000, slog.New(slog.DiscardHandler)), release: make(chan struct{})}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.address = l.Addr().String()
	handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/stay" {
			<-s.release
		}
	})
	server := &http.Server{Handler: s.Wrap(handler, func() { s.refused.Add(1) }), ConnState: s.ConnState, ReadHeaderTimeout: time.Hour}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(s.Listen(l)) }()
	t.Cleanup(func() {
		close(s.release)
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
		s.awaitTaken(t, 0)
	})
	return s
}

// awaitTaken waits until clients take want bytes.
func (s *scarce) awaitTaken(t *testing.T, want int64) {
	t.Helper()
	testkit.Until(t, fmt.Sprint(want, " bytes to be taken"), func() bool { return s.Stats().Taken == want })
}

// dial connects and sends text.
func (s *scarce) dial(t *testing.T, text string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", s.address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // it may be closed
	if err := c.SetDeadline(time.Now().Add(testkit.Ceiling)); err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(c, text) // the server may have hung up
	return c
}

// statusOf sends a request on a connection and returns the answer's status, or 0 without one.
func statusOf(t *testing.T, c net.Conn, header string) int {
	t.Helper()
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n"+header+"\r\n"); err != nil {
		return 0
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Error(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Error(err)
	}
	return resp.StatusCode
}

const (
	aConnection = 24 << 10
	aRequest    = 40 << 10
)

// TestMemory: the memory that clients can take is bounded, an existing client is served, and
// all of it is given back.
func TestMemory(t *testing.T) {
	t.Run("connections", func(t *testing.T) {
		s := newScarce(t)
		var all []net.Conn
		for i := range 6 {
			all = append(all, s.dial(t, ""))
			s.awaitTaken(t, int64(i+1)*aConnection)
		}
		if n, err := s.dial(t, "").Read(make([]byte, 1)); err == nil {
			t.Errorf("read %d bytes on a connection too many", n)
		}
		for i, c := range all {
			if got := statusOf(t, c, ""); got != http.StatusOK {
				t.Errorf("connection %d: got %d, want 200", i, got)
			}
		}
		if err := all[0].Close(); err != nil {
			t.Fatal(err)
		}
		s.awaitTaken(t, 5*aConnection)
		if got := statusOf(t, s.dial(t, ""), ""); got != http.StatusOK {
			t.Errorf("in place of one that has left: got %d, want 200", got)
		}
		if got := s.Stats(); got.Connections != 1 || got.Headers != 0 || got.Requests != 0 {
			t.Errorf("got %+v, want 1 connection refused", got)
		}
	})
	t.Run("headers that do not end", func(t *testing.T) {
		s := newScarce(t)
		other := s.dial(t, "")
		s.awaitTaken(t, aConnection)
		part := "GET / HTTP/1.1\r\nHost: x\r\nX-A: " + strings.Repeat("a", 60_000)
		var others []net.Conn
		for range 5 {
			others = append(others, s.dial(t, ""))
		}
		s.awaitTaken(t, 6*aConnection)
		for _, c := range others {
			_, _ = io.WriteString(c, part) // the server may have hung up
		}
		testkit.Until(t, "some to be refused", func() bool { return s.Stats().Headers > 0 })
		if got := s.Stats(); got.Taken > got.Most/4*3 {
			t.Errorf("%+v, want three quarters taken at most", got)
		}
		if got := statusOf(t, other, ""); got != http.StatusOK {
			t.Errorf("another client got %d, want 200", got)
		}
	})
	t.Run("requests", func(t *testing.T) {
		s := newScarce(t)
		large := "X-A: " + strings.Repeat("a", 50_000) + "\r\n"
		other := s.dial(t, "")
		if got := statusOf(t, other, large); got != http.StatusOK {
			t.Fatalf("got %d, want 200", got)
		}
		s.awaitTaken(t, aConnection)
		for i := range 3 {
			s.dial(t, "GET /stay HTTP/1.1\r\nHost: x\r\n\r\n")
			s.awaitTaken(t, aConnection+int64(i+1)*(aConnection+aRequest))
		}
		if got := statusOf(t, other, large); got != http.StatusServiceUnavailable {
			t.Errorf("a large header: got %d, want 503", got)
		}
		if got := statusOf(t, s.dial(t, ""), ""); got != http.StatusOK {
			t.Errorf("another client got %d, want 200", got)
		}
		if got, told := s.Stats(), s.refused.Load(); got.Requests != 1 || told != 1 {
			t.Errorf("got %+v, and %d were reported, want 1 request refused", got, told)
		}
	})
}

// TestNoMemory: without a memory limit of the process, clients have none.
func TestNoMemory(t *testing.T) {
	m := gateway.NewMemory(math.MaxInt64, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if m.Listen(l) != l || m.Stats() != (gateway.MemoryStats{}) {
		t.Error("something is bounded")
	}
	m.ConnState(nil, http.StateNew)
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}
