// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package fiberlimit limits the requests to handlers of fiber by the rules of a
// [httplimit.Middleware].
//
//	mw, err := httplimit.Limit(store, "api", httplimit.ByIP(), sluice.PerMinute(100))
//	if err != nil { … }
//	app := fiber.New()
//	app.Use(fiberlimit.New(mw))
package fiberlimit

import (
	"net/http"
	"slices"

	"github.com/gofiber/fiber/v3"
	"github.com/valyala/fasthttp"

	"github.com/sluicegate/sluice/httplimit"
)

// New returns a handler that passes on what the limits allow and answers the rest.
// It blocks as long as a request is delayed. It is safe for concurrent use, and
// mw may serve any number of them, which then share its budgets. It panics if the
// version of fasthttp keeps the streams of bodies in another way than it knows.
//
// A request is settled when the handlers behind this one have returned, or when the
// stream that they answer with has ended, by the status and the bytes that are
// sent. An error that they return is handed to the ErrorHandler of fiber at once, as
// that decides the status, and goes no further: what turns errors into others belongs
// behind this handler. Handlers that panicked, or ran out of the time that
// fiber's timeout gives them, count whatever a rule waits for. A hijacked
// connection keeps its slot in flight until its handler has returned; the bytes that
// pass over it are not counted.
//
// Rules see a path as fiber does that looks for its route: in lower case, unless the
// app is CaseSensitive, and without slashes at its end, unless it has StrictRouting.
// The functions of [httplimit.Options] get a request of copies without a body.
//
// A client is the peer, or the address that the proxies in [httplimit.Options] Trusted
// name. TrustProxy and ProxyHeader of fiber play no part. fasthttp does not report
// that a client has left: its request runs on and counts, and one that is delayed
// keeps its place until its turn.
//
// Rules that shape slow nothing down.
func New(mw *httplimit.Middleware) fiber.Handler {
	mustKnowStreams()
	return func(c fiber.Ctx) error {
		r, err := request(c)
		if err != nil {
			return fiber.ErrBadRequest // others read its target in other ways
		}
		q := mw.Decide(r)
		w := newWriter(c.Response())
		if !q.Allowed() {
			q.Refuse(w)
			return nil
		}
		q.SetFields(w.Header())
		w.commit()
		hide(c, r, q.HTTP())
		x := newExchange(c.RequestCtx(), q)
		returned := false
		defer func() {
			if !returned {
				x.settle(httplimit.Response{Status: http.StatusInternalServerError, Unseen: true})
			}
		}()
		err = c.Next()
		late := c.IsAbandoned() || c.RequestCtx().LastTimeoutErrorResponse() != nil
		if err != nil && !late {
			err = answer(c, err)
		}
		returned = true
		if late { // the handlers may be running still, and c is theirs
			x.settle(httplimit.Response{Status: http.StatusRequestTimeout, Unseen: true})
		} else {
			x.end(c.RequestCtx())
		}
		return err
	}
}

// answer has fiber answer an error.
func answer(c fiber.Ctx, err error) error {
	if c.App().ErrorHandler(c, err) != nil {
		return c.SendStatus(http.StatusInternalServerError) // as fiber does
	}
	return nil
}

// writer is the writer of an answer.
type writer struct {
	resp    *fasthttp.Response
	before  http.Header
	header  http.Header
	started bool
}

func newWriter(resp *fasthttp.Response) *writer {
	before := fields(&resp.Header)
	return &writer{resp: resp, before: before, header: before.Clone()}
}

// fields returns a copy of the fields of a response.
func fields(h *fasthttp.ResponseHeader) http.Header {
	copied := make(http.Header)
	for name, value := range h.All() {
		copied.Add(string(name), string(value))
	}
	return copied
}

func (w *writer) Header() http.Header { return w.header }

func (w *writer) WriteHeader(status int) {
	w.started = true
	w.resp.ResetBody()
	w.resp.SetStatusCode(status)
	w.commit()
}

func (w *writer) Write(p []byte) (int, error) {
	if !w.started {
		w.WriteHeader(http.StatusOK)
	}
	w.resp.AppendBody(p)
	return len(p), nil
}

// commit writes the fields that have changed.
func (w *writer) commit() {
	for name := range w.before {
		if _, ok := w.header[name]; !ok {
			w.resp.Header.Del(name)
		}
	}
	for name, values := range w.header {
		if before, ok := w.before[name]; ok {
			if slices.Equal(before, values) {
				continue
			}
			w.resp.Header.Del(name)
		}
		for _, value := range values {
			w.resp.Header.Add(name, value)
		}
	}
}
