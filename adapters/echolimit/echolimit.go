// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package echolimit limits the requests to handlers of echo by the rules of a
// [httplimit.Middleware].
//
//	mw, err := httplimit.Limit(store, "api", httplimit.ByIP(), sluice.PerMinute(100))
//	if err != nil { … }
//	e := echo.New()
//	e.Use(echolimit.New(mw))
package echolimit

import (
	"github.com/labstack/echo/v5"

	"github.com/sluicegate/sluice/adapters/internal/watch"
	"github.com/sluicegate/sluice/httplimit"
)

// New returns a middleware that passes on what the limits allow and answers the
// rest. It blocks as long as a request is delayed. It is safe for concurrent use,
// and mw may serve any number of them, which then share its budgets.
//
// A request is settled when the handlers behind this middleware have returned, by
// the status and the bytes that they wrote; a connection that they have hijacked
// included. An error that they return is handed to the HTTPErrorHandler of echo at
// once, as that decides the status, and then passed on: as behind echo's own
// RequestLogger, an error handler leaves a response alone that is committed, and
// what turns errors into others belongs behind this middleware. Handlers that
// panicked, or whose client left, before they wrote anything count whatever a rule
// waits for, as does a 5xx that was written when the client had left.
//
// A client is the peer, or the address that the proxies in [httplimit.Options] Trusted
// name. The IPExtractor and RealIP of echo play no part.
//
// Rules that shape slow nothing down.
func New(mw *httplimit.Middleware) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error {
			q := mw.Decide(c.Request())
			below := c.Response()
			if !q.Allowed() {
				q.Refuse(below)
				return nil
			}
			q.SetFields(below.Header())
			x := &exchange{Writer: watch.Writer{ResponseWriter: below}}
			c.SetResponse(x)
			c.SetRequest(x.Request(q.HTTP()))
			defer func() {
				c.SetResponse(below)
				q.Settle(x.response())
			}()
			return x.run(c, next)
		}
	}
}

// exchange is a request and its response.
type exchange struct {
	watch.Writer
	returned bool
	unseen   bool // an error was answered that may come of the client's leave
}

func (x *exchange) run(c *echo.Context, next echo.HandlerFunc) error {
	err := next(c)
	if err != nil {
		x.unseen = x.written() == 0 && x.Left()
		c.Echo().HTTPErrorHandler(c, err)
	}
	x.returned = true
	return err
}

// written returns the status that was written, also by a handler that went around x; 0
// if none was.
func (x *exchange) written() int {
	resp, err := echo.UnwrapResponse(x)
	if x.Status() == 0 && err == nil && resp.Committed {
		return resp.Status
	}
	return x.Status()
}

// response returns what is known of the response.
func (x *exchange) response() httplimit.Response {
	resp := x.Response(x.written(), x.returned)
	resp.Unseen = resp.Unseen || x.unseen
	resp.Header = func(name string) []string { return x.Header()[name] }
	return resp
}
