// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httpserver

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/server/internal/gateway"
)

// TestLeastBodyRate: bodies have a least rate by default; a file may change it or turn it off.
func TestLeastBodyRate(t *testing.T) {
	for _, c := range []struct {
		line string
		want int64
	}{{"", 240}, {"least_body_rate: 1000", 1000}, {"least_body_rate: off", 0}} {
		conf, err := config.Parse("a.yaml", []byte(c.line+"\nrules: [{name: a, limits: 1/s}]\n"))
		if err != nil {
			t.Fatal(err)
		}
		s := New(http.NotFoundHandler(), bounds())
		s.SetLeastBodyRate(conf.LeastBodyRate)
		if got := s.rate.Load(); got != c.want {
			t.Errorf("%q: got %d, want %d", c.line, got, c.want)
		}
	}
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// one is a listener with one connection.
type one chan net.Conn

func (l one) Accept() (net.Conn, error) {
	conn, ok := <-l
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (l one) Close() error   { return nil }
func (l one) Addr() net.Addr { return &net.TCPAddr{} }

func bounds() *Bounds { return &Bounds{Log: discard(), Lingering: gateway.NewLingering(10)} }

// overPipe serves one client like a front does, and returns its end of the connection.
func overPipe(t *testing.T, handler http.Handler) (ours net.Conn, s *Server) {
	t.Helper()
	s = New(handler, bounds())
	ours, theirs := net.Pipe()
	l := make(one, 1)
	l <- theirs
	close(l)
	if err := s.Serve(l); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	return ours, s
}

// TestSlowBodiesCount: a body cut off for its rate is counted.
func TestSlowBodiesCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // an error means that it was cut off
		})
		ours, o := overPipe(t, handler)
		if _, err := io.WriteString(ours, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nx"); err != nil {
			t.Error(err)
		}
		time.Sleep(bodyPatience)
		if got := o.bounds.SlowBodies(); got != 1 {
			t.Errorf("%d slow bodies, want 1", got)
		}
		if err := errors.Join(ours.Close(), o.Close()); err != nil {
			t.Error(err)
		}
	})
}

// bodyPatience is longer than a body of almost no bytes may be waited for, and shorter than a
// stalled one may.
const bodyPatience = 30 * time.Second
