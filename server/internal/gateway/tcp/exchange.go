// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice"
)

// largest is the size of a read, in bytes.
const largest = 32 << 10

var bufferPool = sync.Pool{New: func() any { return new([largest]byte) }}

var errIdle = errors.New("tcp: no byte moved for too long")

// exchange connects a client and the upstream.
type exchange struct {
	server           *Server
	addr             netip.Addr // of the client
	client, upstream net.Conn
	cut              context.CancelFunc
	moved            atomic.Int64 // when the last byte moved, in ns since 1970
	carrying         atomic.Int32 // directions with bytes in hand
}

func newExchange(s *Server, addr netip.Addr, client, upstream net.Conn, cut context.CancelFunc) *exchange {
	x := &exchange{server: s, addr: addr, client: client, upstream: upstream, cut: cut}
	x.touch()
	return x
}

// run blocks until both directions have ended.
func (x *exchange) run(ctx context.Context) {
	var up sync.WaitGroup
	up.Go(func() { x.pass(ctx, x.upstream, x.client, &x.server.received) })
	x.pass(ctx, x.client, x.upstream, &x.server.sent)
	up.Wait()
}

// pass copies one direction until its end. The end of src is passed on, and the other
// direction may continue. It may continue, too, if dst takes no more bytes, as those sent by
// dst before may still be on their way. Any other error ends both directions.
func (x *exchange) pass(ctx context.Context, dst, src net.Conn, count *atomic.Int64) {
	buf := bufferPool.Get().(*[largest]byte) //nolint:forcetypeassert // nothing else is ever put
	defer bufferPool.Put(buf)
	var p pace
	for {
		chunk := buf[:p.now(x)]
		n, err := x.read(src, chunk)
		if n > 0 {
			if werr := x.carry(ctx, dst, chunk[:n], &p, count); werr != nil {
				if !errors.Is(werr, errWrite) {
					x.fail(ctx, werr)
				}
				return
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			x.closeWrite(dst)
			return
		case err != nil:
			x.fail(ctx, err)
			return
		}
	}
}

// errWrite marks an error of writing.
var errWrite = errors.New("tcp: write")

// carry writes b in parts, each when it fits.
func (x *exchange) carry(ctx context.Context, dst net.Conn, b []byte, p *pace, count *atomic.Int64) error {
	x.carrying.Add(1)
	defer x.carrying.Add(-1)
	for len(b) > 0 {
		part := b[:min(len(b), p.now(x))] // less than was read, if the terms have changed since
		if err := p.wait(ctx, x.server, len(part)); err != nil {
			return err
		}
		if err := x.write(dst, part, count); err != nil {
			return err
		}
		b = b[len(part):]
	}
	return nil
}

func (x *exchange) write(dst net.Conn, b []byte, count *atomic.Int64) error {
	if err := dst.SetWriteDeadline(time.Now().Add(idleTimeout)); err != nil {
		return errors.Join(errWrite, err)
	}
	n, err := dst.Write(b)
	count.Add(int64(n))
	x.touch()
	if err != nil {
		return errors.Join(errWrite, err)
	}
	return nil
}

// read reads from src. It times out only if the other direction is idle, too.
func (x *exchange) read(src net.Conn, b []byte) (int, error) {
	for {
		end := time.Unix(0, x.moved.Load()).Add(idleTimeout)
		now := time.Now()
		if !end.After(now) {
			if x.carrying.Load() == 0 {
				return 0, errIdle
			}
			end = now.Add(idleTimeout)
		}
		if err := src.SetReadDeadline(end); err != nil {
			return 0, err
		}
		n, err := src.Read(b)
		if n > 0 {
			x.touch()
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		if n > 0 {
			return n, nil
		}
	}
}

func (x *exchange) touch() { x.moved.Store(time.Now().UnixNano()) }

// closeWrite closes the side to dst. A connection that cannot be half closed is closed.
func (x *exchange) closeWrite(dst net.Conn) {
	if half, ok := dst.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		return
	}
	dst.Close() //nolint:errcheck // its reader gets an error
}

// fail ends both directions. It does not log that a peer is gone or idle.
func (x *exchange) fail(ctx context.Context, err error) {
	if ctx.Err() == nil && errors.Is(err, errShape) {
		x.server.log.Warn(ctx, "connection given up", err)
	}
	x.cut()
}

var errShape = errors.New("tcp: bytes do not fit in time")

// chunkOf returns the most bytes to pass at once: those that the limits grant in a tenth of a
// second, so that the connections of a key take turns, but not so few that a chunk costs more
// to decide than to send.
func chunkOf(bytes *sluice.Plan) int {
	chunk := int64(largest)
	for t := range eachTerm(bytes) {
		tenth := int64(float64(t.Quota) * float64(100*time.Millisecond) / float64(t.Window))
		chunk = min(chunk, max(tenth, 1024), t.Full)
	}
	return int(chunk)
}

// pace is the rate of one direction.
type pace struct {
	terms *terms // the other fields are derived from these
	plan  *sluice.Plan
	key   string
	chunk int // most bytes at once
}

// now adopts the server's current terms and returns how many bytes may pass at once.
func (p *pace) now(x *exchange) int {
	if t := x.server.terms.Load(); t != p.terms {
		*p = pace{terms: t, plan: t.Bytes, key: t.Key(x.addr), chunk: t.chunk}
		if t.exempt(x.addr) {
			p.plan, p.chunk = nil, largest
		}
	}
	return p.chunk
}

// wait blocks until n bytes fit, in order of arrival.
func (p *pace) wait(ctx context.Context, s *Server, n int) error {
	if p.plan == nil {
		return nil
	}
	req := sluice.Request{
		Op: sluice.OpReserve, Charge: sluice.Charge{Plan: p.plan, Key: p.key, Cost: int64(n)}, MaxWait: maxDelay,
	}
	d, err := s.take(ctx, req)
	if of, ok := errors.AsType[*sluice.RequestError](err); ok && of.Field == "Cost" && n > 1 { // the chunk is above a node's share
		p.chunk = n / 2 // until the terms change
		if err = p.wait(ctx, s, n/2); err != nil {
			return err
		}
		return p.wait(ctx, s, n-n/2)
	}
	if err != nil {
		s.log.Warn(ctx, "bytes not decided", err)
		if p.terms.FailClosed {
			return fmt.Errorf("%w: %w", errShape, err)
		}
		return ctx.Err()
	}
	if !d.Allowed {
		return fmt.Errorf("%w: the limit %q grants none for %v", errShape, p.plan.Term(d.Binding).Name, d.RetryAfter)
	}
	err = sluice.Await(ctx, s.opts.Store, req, d)
	if err != nil && !errors.Is(ctx.Err(), err) {
		s.log.Warn(ctx, "bytes not refunded", err)
	}
	return err
}
