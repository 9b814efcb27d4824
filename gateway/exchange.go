// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"sync/atomic"

	"github.com/sluicegate/sluice/internal/wire"
)

// exchange is one request and its response on their way through. It keeps what
// ReverseProxy loses: whose fault a broken body was, and the fields that
// handlers around the Gateway have set.
type exchange struct {
	http.ResponseWriter
	request  *http.Request
	around   []field
	few      [8]field // memory of around
	informed bool     // an informational response was passed on
	began    bool     // the response has
	whole    bool     // and it was passed on to its end
	body     *body    // nil if the request has none
	trace    httptrace.ClientTrace
	sent     atomic.Bool // there was a connection for the request
	failed   bool        // the response is the Gateway's own
}

// field is a header field.
type field struct {
	name   string
	values []string
}

func newExchange(w http.ResponseWriter, r *http.Request) *exchange {
	x := &exchange{ResponseWriter: w, request: r}
	x.around = x.few[:0]
	for name, values := range w.Header() {
		x.around = append(x.around, field{name, slices.Clip(values)})
	}
	x.trace.GotConn = func(httptrace.GotConnInfo) { x.sent.Store(true) }
	x.request = r.WithContext(httptrace.WithClientTrace(r.Context(), &x.trace)) // a copy: the caller's keeps its Body
	if r.Body != nil && r.Body != http.NoBody {
		x.body = &body{ReadCloser: r.Body}
		x.request.Body = x.body
	}
	return x
}

// unseen tells the handlers around that a request has failed of which the
// upstream may have read enough to act on it. One that found no connection, as
// that was refused or not made in time, was not sent: else an upstream that is
// down would count against all clients.
func (x *exchange) unseen(err error) {
	x.failed = true
	var dial *net.OpError
	if x.sent.Load() && !(errors.As(err, &dial) && dial.Op == "dial") {
		wire.TellUnseen(x.ResponseWriter)
	}
}

// Unwrap lets [http.ResponseController] through.
func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

// Hijack keeps what the client has sent along with its request to switch
// protocol, which ReverseProxy would not pass on.
func (x *exchange) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return wire.Hijack(x.ResponseWriter)
}

// WriteHeader sets the fields again that ReverseProxy clears when it has passed
// on an informational response. A response that comes before the end of the
// request's body is the last on its connection: net/http cannot serve another
// one behind a body that was left half read while streaming both ways.
func (x *exchange) WriteHeader(status int) {
	if status < http.StatusOK {
		x.informed = true
	} else {
		x.began = true
		if status == http.StatusGatewayTimeout && !x.failed {
			wire.TellUnseen(x.ResponseWriter) // the upstream has not seen one either
		}
		h := x.Header()
		if x.informed {
			for _, f := range x.around {
				if _, ok := h[f.name]; !ok {
					h[f.name] = f.values
				}
			}
		}
		if x.body != nil && !x.body.ended.Load() && x.request.ProtoMajor == 1 {
			h.Set("Connection", "close")
		}
	}
	x.ResponseWriter.WriteHeader(status)
}

// flushBroken sends what has come of a response that the upstream broke off, for
// which ReverseProxy panics: so the client knows that there was one.
func (x *exchange) flushBroken() {
	if x.began && !x.whole {
		// An error means that the client is gone, too.
		_ = http.NewResponseController(x.ResponseWriter).Flush()
	}
}

// body is a request's body that remembers how it ended.
type body struct {
	io.ReadCloser
	ended  atomic.Bool // whole
	failed atomic.Pointer[error]
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		b.ended.Store(true)
	}
	// ErrBodyReadAfterClose: the exchange was over already, whatever ended it.
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, http.ErrBodyReadAfterClose) {
		b.failed.CompareAndSwap(nil, &err)
	}
	return n, err
}

// bodyError returns what was wrong with the request's body, if anything was.
func (x *exchange) bodyError() error {
	if x.body != nil {
		if err := x.body.failed.Load(); err != nil {
			return *err
		}
	}
	return nil
}
