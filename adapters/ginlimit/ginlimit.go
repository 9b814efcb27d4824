// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package ginlimit limits the requests to handlers of gin by the rules of a
// [httplimit.Middleware].
//
//	mw, err := httplimit.Limit(store, "api", httplimit.ByIP(), sluice.PerMinute(100))
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
)

// New returns a handler that passes on what the limits allow, and answers the rest
// and ends its chain. It blocks as long as a request is delayed. It is safe for
// concurrent use, and mw may serve any number of them, which then share its
// budgets.
//
// A request is settled when the handlers behind this one have returned, by the
// status and the bytes that they wrote; a connection that they have hijacked
// included. A handler that writes nothing is settled by the status that it has set, unless
// nobody can know the answer: because he panicked, his client left, or he recorded
// an error with [gin.Context.Error], which handlers in front of this one may
// answer. That counts whatever a rule waits for, as does a 5xx that was written
// when the client had left. Not counted is what gin or
// handlers in front write afterwards, such as the text of a 404.
//
// A client is the peer, or the address that the proxies in [httplimit.Options] Trusted
// name. SetTrustedProxies and ClientIP of gin play no part: by default gin trusts
// everybody's X-Forwarded-For.
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

// writer counts what the handlers behind it write.
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

// Hijack takes over the connection. What passes on it counts.
func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	w.silent = !w.Written()
	return w.Hijacked(w.ResponseWriter.Hijack())
}

// Unwrap lets [http.ResponseController] through.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// response returns what is known of the response to c.
func (w *writer) response(c *gin.Context, returned bool) httplimit.Response {
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
