// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package fiberlimit limits the requests to handlers of fiber by the rules of a
// [httplimit.Middleware].
//
//	mw, err := httplimit.Limit(store, "api", policy.IP(), sluice.PerMinute(100))
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
	"github.com/sluicegate/sluice/policy"
)

// New returns a handler that passes allowed requests on and answers all others. It blocks while
// a request is delayed. It is safe for concurrent use; handlers of one mw share its budgets.
// It panics if the version of fasthttp stores the streams of bodies in unknown fields.
//
// A request is settled when the handlers behind this one have returned, or when the stream of
// their response has ended, by the status and the bytes that are sent. An error that they
// return is passed to fiber's ErrorHandler at once, as that sets the status, and not returned:
// handlers that convert errors belong behind this one. A request counts under every When if
// its handlers panicked, or exceeded fiber's timeout. A hijacked connection keeps its slot in
// flight until its handler has returned; its bytes are not counted.
//
// Rules see paths in the form of fiber's router: in lower case, unless the app is
// CaseSensitive, and without trailing slashes, unless it has StrictRouting. The functions of
// [httplimit.Options] get a copied request without a body.
//
// The client's address is the peer's, or the one from the proxies in [httplimit.Options]
// Trusted. TrustProxy and ProxyHeader of fiber are not used. fasthttp does not report that a
// client has left: its request runs on and counts, and a delayed one keeps its place.
//
// Rules that shape slow nothing down.
func New(mw *httplimit.Middleware) fiber.Handler {
	mustKnowStreams()
	return func(c fiber.Ctx) error {
		r, err := request(c)
		if err != nil {
			return fiber.ErrBadRequest // others read its target differently
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
				x.settle(policy.Response{Status: http.StatusInternalServerError, Unseen: true})
			}
		}()
		err = c.Next()
		late := c.IsAbandoned() || c.RequestCtx().LastTimeoutErrorResponse() != nil
		if err != nil && !late {
			err = answer(c, err)
		}
		returned = true
		if late { // the handlers may still run, and own c
			x.settle(policy.Response{Status: http.StatusRequestTimeout, Unseen: true})
		} else {
			x.end(c.RequestCtx())
		}
		return err
	}
}

// answer passes an error to fiber's ErrorHandler.
func answer(c fiber.Ctx, err error) error {
	if c.App().ErrorHandler(c, err) != nil {
		return c.SendStatus(http.StatusInternalServerError) // as fiber does
	}
	return nil
}

// writer is an http.ResponseWriter over a fasthttp response.
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

// commit writes the changed fields.
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
