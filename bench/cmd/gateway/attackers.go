// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// assault is one attack on one server, by a process of its own.
type assault struct {
	target  string
	secure  string // where the same server speaks TLS
	open    atomic.Int64
	sent    atomic.Int64
	refused atomic.Int64 // connections
}

// serveAttack attacks until ctx ends, and says what it did.
func serveAttack(ctx context.Context, name, target, secure string, out io.Writer) error {
	for _, k := range attacks {
		if k.name != name {
			continue
		}
		a := &assault{target: target, secure: secure}
		k.do(ctx, a)
		_, err := fmt.Fprintf(out, "%d %d %d\n", a.open.Load(), a.sent.Load(), a.refused.Load())
		return err
	}
	return fmt.Errorf("no attack %q", name)
}

// each runs f, over and over, on each of n goroutines with a number of its own.
// They start over one second.
func (a *assault) each(ctx context.Context, n int, f func(ctx context.Context, i int) error) {
	var all sync.WaitGroup
	defer all.Wait()
	for i := range n {
		all.Go(func() {
			pause(ctx, time.Second*time.Duration(i)/time.Duration(n))
			for ctx.Err() == nil {
				if err := f(ctx, i); err != nil && ctx.Err() == nil {
					a.refused.Add(1)
					pause(ctx, 100*time.Millisecond)
				}
			}
		})
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// dial connects from one of 200 addresses. The connection ends with ctx.
func (a *assault) dial(ctx context.Context, address string, i int) (net.Conn, func(), error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(i%200+1))}, Timeout: answerTimeout}
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, nil, err
	}
	a.open.Add(1)
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	return conn, func() {
		stop()
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // hang up at once, and leave no state behind
		}
		_ = conn.Close()
	}, nil
}

// stay sends text on a connection of its own, and further text every interval,
// until the server hangs up. It reads nothing.
func (a *assault) stay(ctx context.Context, address string, i int, text string, interval time.Duration, further string) error {
	conn, hangUp, err := a.dial(ctx, address, i)
	if err != nil {
		return err
	}
	defer hangUp()
	if _, err := io.WriteString(conn, text); err != nil {
		return err
	}
	a.sent.Add(1)
	if further == "" {
		_, err := io.Copy(io.Discard, conn)
		return errors.Join(err, io.EOF)
	}
	for ctx.Err() == nil {
		pause(ctx, interval)
		if _, err := io.WriteString(conn, further); err != nil {
			return err
		}
	}
	return nil
}

// stayers is an attack by n connections that stay.
func stayers(n int, text string, interval time.Duration, further string) func(context.Context, *assault) {
	return func(ctx context.Context, a *assault) {
		a.each(ctx, n, func(ctx context.Context, i int) error {
			return a.stay(ctx, a.target, i, text, interval, further)
		})
	}
}

// hangUps sends requests over HTTP/1 and leaves 5 ms later.
func hangUps(ctx context.Context, a *assault) {
	a.each(ctx, 64, func(ctx context.Context, i int) error {
		conn, hangUp, err := a.dial(ctx, a.target, i)
		if err != nil {
			return err
		}
		defer hangUp()
		n := a.sent.Add(1)
		if _, err := fmt.Fprintf(conn, "GET /slow%d HTTP/1.1\r\nHost: x\r\nX-Key: k%d\r\n\r\n", n%3, n%1000); err != nil {
			return err
		}
		pause(ctx, 5*time.Millisecond)
		return nil
	})
}

// newKeys sends requests, each with a key of its own.
func newKeys(ctx context.Context, a *assault) {
	a.each(ctx, 64, func(ctx context.Context, _ int) error {
		c, err := dial(ctx, a.target, "/")
		if err != nil {
			return err
		}
		defer func() { _ = c.conn.Close() }()
		for ctx.Err() == nil {
			n := a.sent.Add(1)
			c.request = fmt.Appendf(nil, "GET /keys HTTP/1.1\r\nHost: x\r\nX-Key: key%d\r\n\r\n", n)
			if _, err := c.do(); err != nil {
				return err
			}
		}
		return nil
	})
}

// held sends requests that wait for their turn. It reads the answer and comes again.
func held(n, header, body int) func(context.Context, *assault) {
	request := "POST /held HTTP/1.1\r\nHost: x\r\nX-A: " + strings.Repeat("a", header) + fmt.Sprintf("\r\nContent-Length: %d\r\n\r\n", body) + strings.Repeat("b", body)
	return stayers(n, request, 0, "")
}

// unread asks for large responses and reads none of them.
func unread(ctx context.Context, a *assault) {
	a.each(ctx, 9000, func(ctx context.Context, i int) error {
		conn, hangUp, err := a.dial(ctx, a.target, i)
		if err != nil {
			return err
		}
		defer hangUp()
		if tcp, ok := conn.(*net.TCPConn); ok {
			if err := tcp.SetReadBuffer(4096); err != nil {
				return err
			}
		}
		a.sent.Add(1)
		if _, err := io.WriteString(conn, "GET /large HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	})
}

// handshakes sends a hello of TLS that does not end.
func handshakes(ctx context.Context, a *assault) {
	const long = 60_000 // bytes; a hello may have 64 KiB
	hello := []byte{1, 0, byte(long >> 8), byte(long & 255), 3, 3}
	hello = append(hello, make([]byte, long-1000)...)
	var text strings.Builder
	for len(hello) > 0 {
		n := min(len(hello), 16_000)
		text.Write([]byte{22, 3, 1, byte(n >> 8), byte(n & 255)})
		text.Write(hello[:n])
		hello = hello[n:]
	}
	a.each(ctx, 9000, func(ctx context.Context, i int) error {
		return a.stay(ctx, a.secure, i, text.String(), 0, "")
	})
}
