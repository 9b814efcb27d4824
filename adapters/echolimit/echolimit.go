// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package echolimit limits the requests to handlers of echo by the rules of a
// [httplimit.Middleware].
//
//	mw, err := httplimit.Limit(store, "api", policy.IP(), sluice.PerMinute(100))
//	if err != nil { … }
//	e := echo.New()
//	e.Use(echolimit.New(mw))
package echolimit

import (
	"github.com/labstack/echo/v5"

	"github.com/sluicegate/sluice/adapters/internal/watch"
	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/policy"
)

// New returns a middleware that passes allowed requests on and answers all others. It
// blocks while a request is delayed. It is safe for concurrent use; middlewares of one mw share
// its budgets.
//
// A request is settled when the handlers behind this middleware have returned, by the status
// and the bytes that they wrote, including those on a hijacked connection. An error that they
// return is passed to echo's HTTPErrorHandler at once, as that sets the status, and then
// returned: as behind echo's RequestLogger, an error handler must not change a committed
// response, and middleware that converts errors belongs behind this one. A request counts
// under every When if its handlers panicked, or its client left, before they wrote anything,
// and if they wrote a 5xx after the client had left.
//
// The client's address is the peer's, or the one from the proxies in [httplimit.Options]
// Trusted. The IPExtractor and RealIP of echo are not used.
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
	unseen   bool // the answered error may come from the client's leave
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

// written returns the status that was written, even by a handler that bypassed x; 0 if none
// was.
func (x *exchange) written() int {
	resp, err := echo.UnwrapResponse(x)
	if x.Status() == 0 && err == nil && resp.Committed {
		return resp.Status
	}
	return x.Status()
}

// response returns the outcome of the request.
func (x *exchange) response() policy.Response {
	resp := x.Response(x.written(), x.returned)
	resp.Unseen = resp.Unseen || x.unseen
	resp.Header = func(name string) []string { return x.Header()[name] }
	return resp
}
