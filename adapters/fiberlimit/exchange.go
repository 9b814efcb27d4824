// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package fiberlimit

import (
	"io"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/valyala/fasthttp"

	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/policy"
)

// exchange is a request that was passed on. It keeps no buffers of fasthttp, which may be reused
// before it is settled.
type exchange struct {
	q       *httplimit.Request
	settled sync.Once
	known   int64   // bytes of a request body that is no stream
	upload  *stream // nil without a stream
}

func newExchange(ctx *fasthttp.RequestCtx, q *httplimit.Request) *exchange {
	x := &exchange{q: q}
	if body := requestStream(&ctx.Request); *body != nil {
		x.upload = &stream{Reader: *body}
		*body = x.upload
	} else {
		x.known = length(ctx)
	}
	return x
}

// settle settles the request, once.
func (x *exchange) settle(resp policy.Response) {
	x.settled.Do(func() {
		resp.Read = x.known
		if x.upload != nil {
			resp.Read = x.upload.passed.Load()
		}
		x.q.Settle(resp)
	})
}

// end settles a request whose handlers have returned, now or when its response has been sent.
func (x *exchange) end(ctx *fasthttp.RequestCtx) {
	header := fields(&ctx.Response.Header)
	resp := policy.Response{
		Status: ctx.Response.StatusCode(),
		Header: func(name string) []string { return header[name] },
	}
	switch body := responseStream(&ctx.Response); {
	case ctx.Hijacked():
		resp.Status = http.StatusSwitchingProtocols
		x.hijacked(ctx, resp)
	case *body != nil:
		if limited, ok := (*body).(*io.LimitedReader); ok && ctx.Response.Header.ContentLength() < 0 {
			ctx.Response.Header.SetContentLength(int(limited.N)) // fasthttp knows the length of no other stream
		}
		s := &stream{Reader: *body}
		s.ended = func() {
			resp.Written = s.passed.Load()
			x.settle(resp)
		}
		*body = s
	default:
		if !ctx.IsHead() && !ctx.Response.SkipBody {
			resp.Written = int64(len(ctx.Response.Body()))
		}
		x.settle(resp)
	}
}

// hijacked settles the request when the handler of its connection has returned: then fasthttp
// closes the values of ctx. If the client leaves before that handler begins, fasthttp only
// drops ctx.
func (x *exchange) hijacked(ctx *fasthttp.RequestCtx, resp policy.Response) {
	if x.upload != nil {
		x.known, x.upload = x.upload.passed.Load(), nil // the stream refers to ctx
	}
	forgotten := runtime.AddCleanup(ctx, func(x *exchange) { go x.settle(resp) }, x)
	ctx.SetUserValue(x, closer(func() {
		forgotten.Stop()
		x.settle(resp)
	}))
}

type closer func()

func (c closer) Close() error {
	c()
	return nil
}

// stream is a body whose bytes are counted.
type stream struct {
	io.Reader
	passed atomic.Int64
	ended  func() // called at its end, perhaps more than once; may be nil
}

func (s *stream) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	s.passed.Add(int64(n))
	if err != nil {
		s.end()
	}
	return n, err
}

// WriteTo keeps fasthttp's fast paths for files.
func (s *stream) WriteTo(w io.Writer) (int64, error) {
	n, err := io.Copy(w, s.Reader)
	s.passed.Add(n)
	return n, err
}

// Close is called by fasthttp when the body was sent, or the client has left.
func (s *stream) Close() error {
	defer s.end()
	if c, ok := s.Reader.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

func (s *stream) end() {
	if s.ended != nil {
		s.ended()
	}
}
