// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package ginlimit limits the requests to handlers of gin by the rules of a
// [httplimit.Middleware].
//
//	mw, err := httplimit.Limit(store, "api", policy.IP(), sluice.PerMinute(100))
//	if err != nil { … }
//	r := gin.Default()
//	r.Use(ginlimit.New(mw))
package ginlimit

import (
	"bufio"
	"net"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/sluicegate/sluice/adapters/internal/watch"
	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/policy"
)

// New returns a handler that passes allowed requests on, and answers all others and aborts
// their chain. It blocks while a request is delayed. It is safe for concurrent use; handlers of
// one mw share its budgets.
//
// A request is settled when the handlers behind this one have returned, by the status and the
// bytes that they wrote, including those on a hijacked connection. If they write nothing, the
// status that they have set counts. A request counts under every When if its response cannot
// be known: its handler panicked, its client left, or its handler recorded an error with
// [gin.Context.Error], which handlers in front of this one may answer; and if the handler
// wrote a 5xx after the client had left. Bytes that gin or handlers in front write afterwards,
// such as the text of a 404, are not counted.
//
// The client's address is the peer's, or the one from the proxies in [httplimit.Options]
// Trusted. SetTrustedProxies and ClientIP of gin are not used: by default gin trusts the
// X-Forwarded-For of every peer.
//
// Rules that shape slow nothing down.
func New(mw *httplimit.Middleware) gin.HandlerFunc {
	return func(c *gin.Context) {
		q := mw.Decide(c.Request)
		if !q.Allowed() {
			c.Abort()
			q.Refuse(c.Writer)
			return
		}
		q.SetFields(c.Writer.Header())
		w := &writer{ResponseWriter: c.Writer}
		c.Writer, c.Request = w, w.Request(q.HTTP())
		returned := false
		defer func() { q.Settle(w.response(c, returned)) }()
		c.Next()
		returned = true
	}
}

// writer counts the bytes of the handlers behind this one.
type writer struct {
	gin.ResponseWriter
	watch.Traffic
	silent bool // hijacked before there was a status
}

func (w *writer) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	w.Wrote(n)
	return n, err
}

func (w *writer) WriteString(s string) (int, error) {
	n, err := w.ResponseWriter.WriteString(s)
	w.Wrote(n)
	return n, err
}

// Hijack takes over the connection. Its bytes are counted.
func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	w.silent = !w.Written()
	return w.Hijacked(w.ResponseWriter.Hijack())
}

// Unwrap returns the underlying writer, for [http.ResponseController].
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// response returns the outcome of the request of c.
func (w *writer) response(c *gin.Context, returned bool) policy.Response {
	status := 0
	if w.Written() && !w.silent {
		status = w.Status()
	}
	resp := w.Response(status, returned)
	if !w.Written() && returned {
		resp.Status = w.Status() // gin sends it when all handlers have returned
		resp.Unseen = resp.Unseen || len(c.Errors) > 0
	}
	resp.Header = func(name string) []string { return w.Header()[name] }
	return resp
}
