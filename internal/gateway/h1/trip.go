// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package h1

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
)

// trip is one request and its response on a connection, and the body of that.
type trip struct {
	of   *Transport
	conn *conn
	ctx  context.Context //nolint:containedctx // what ends it is its own
	stop func() bool
	body io.ReadCloser
	cut  bool  // the request was not written whole
	keep bool  // the connection, if the body is read to its end
	last error // of the body: its end, or why it has none
	done bool  // conn.mu
}

var errBodyClosed = errors.New("h1: read of a body that was closed")

// begin has the exchange end with its context.
func (x *trip) begin(header int64) {
	x.conn.begin(header)
	if x.ctx.Done() != nil {
		x.stop = context.AfterFunc(x.ctx, x.cancel)
	}
}

// cancel breaks the exchange off, unless it has ended. It closes the connection, as there
// may be nobody that reads the body.
func (x *trip) cancel() {
	x.conn.mu.Lock()
	defer x.conn.mu.Unlock()
	if !x.done {
		x.conn.breakOff()
	}
}

// end lets go of the connection, which is kept if nothing is left on it of this
// exchange. It is for the first call.
func (x *trip) end(keep bool) {
	c := x.conn
	c.mu.Lock()
	done, over := x.done, c.over
	x.done = true
	c.mu.Unlock()
	if done {
		return
	}
	if x.stop != nil {
		x.stop()
	}
	if !keep || over || !c.clean() || c.peek == nil {
		c.close()
		return
	}
	c.used = true
	x.of.put(c)
}

// cause returns why an exchange failed: that its context ended, if it did.
func (x *trip) cause(err error) error {
	if x.ctx.Err() != nil {
		return context.Cause(x.ctx)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("h1: the upstream took too long: %w", err)
	}
	return err
}

// Read reads the body of the response.
func (x *trip) Read(p []byte) (int, error) {
	if x.last != nil {
		return 0, x.last
	}
	if x.ended() {
		return 0, errBodyClosed
	}
	n, err := x.body.Read(p)
	switch {
	case err == nil:
	case errors.Is(err, io.EOF):
		x.last = err
		x.end(x.keep)
	default:
		err = x.cause(err)
		x.last = err
		x.end(false)
	}
	return n, err
}

// Ready reports whether something of the body is there. It is for the goroutine that
// reads it, while it does.
func (x *trip) Ready() bool { return x.last == nil && x.conn.in.Buffered() > 0 }

func (x *trip) ended() bool {
	x.conn.mu.Lock()
	defer x.conn.mu.Unlock()
	return x.done
}

// Close ends the exchange. A body that was not read to its end takes the connection
// with it: reading on could take any time.
func (x *trip) Close() error {
	x.end(false)
	return nil
}
