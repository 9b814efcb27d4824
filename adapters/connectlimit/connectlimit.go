// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package connectlimit limits the calls of handlers of Connect, whether their
// clients speak Connect, gRPC or gRPC-Web, by the rules of a
// [httplimit.Middleware].
//
//	mw, err := httplimit.Limit(store, "api", policy.IP(), sluice.PerMinute(100))
//	if err != nil { … }
//	mux.Handle(pingv1connect.NewPingServiceHandler(server))
//	http.ListenAndServe(addr, connectlimit.New(mw)(mux))
package connectlimit

import (
	"net/http"
	"strings"

	"connectrpc.com/connect"

	"github.com/sluicegate/sluice/adapters/internal/watch"
	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
)

// New returns a function that wraps a handler, or a whole mux: allowed calls are passed on and
// all others answered. It blocks while a call is delayed. It is safe for concurrent use;
// handlers of one mw share its budgets. The options are those of the handlers, for the errors.
//
// A call that is not passed on is answered with an error in the protocol of its client:
// resource_exhausted if a limit denies it, with google.rpc.QuotaFailure and
// google.rpc.RetryInfo; invalid_argument without a usable key, unauthenticated without a
// usable token, permission_denied from a network that is not admitted, unavailable if nothing
// could be decided, and canceled or deadline_exceeded if it ended before it was decided or
// could pass. The header fields are those of every other front. Refuse in [httplimit.Options]
// can only set header fields. Requests that are not calls are answered as by
// [httplimit.Middleware.Wrap].
//
// A call is settled when its handler has returned, by the bytes read and written and by its
// code, in every protocol: each code stands for an HTTP status, see [evaluate.RPCStatus]. A call
// counts under every When if its code is not known: its handler panicked, it failed after its
// client had left, the code is canceled or deadline_exceeded, or the end of its stream is
// compressed other than by gzip.
//
// The client's address is the peer's, or the one from the proxies in [httplimit.Options]
// Trusted. Rules that shape slow nothing down.
func New(mw *httplimit.Middleware, opts ...connect.HandlerOption) func(http.Handler) http.Handler {
	errs := connect.NewErrorWriter(opts...)
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			q := mw.Decide(r)
			if !q.Allowed() {
				refuse(errs, w, r, q)
				return
			}
			q.SetFields(w.Header())
			x := &exchange{Writer: watch.Writer{ResponseWriter: w}}
			returned := false
			defer func() { q.Settle(x.response(returned)) }()
			next.ServeHTTP(x, x.Request(q.HTTP()))
			returned = true
		})
	}
}

// exchange is a call and its response.
type exchange struct {
	watch.Writer
	frames frames
}

func (x *exchange) Write(p []byte) (int, error) {
	if x.Status() == 0 || x.Status() == http.StatusOK {
		x.frames.take(p, x.media())
	}
	return x.Writer.Write(p)
}

func (x *exchange) media() string { return x.Header().Get("Content-Type") }

// response returns the outcome of the call.
func (x *exchange) response(returned bool) policy.Response {
	resp := x.Response(x.Status(), returned)
	resp.Header = func(name string) []string { return x.Header()[name] }
	if media := x.media(); resp.Status == http.StatusOK && (strings.HasPrefix(media, grpcMedia) || strings.HasPrefix(media, streamMedia)) {
		code, known := x.code()
		resp.Status, resp.Unseen = evaluate.RPCStatus(uint32(code)), resp.Unseen || !known
	}
	if resp.Status == statusCanceled || resp.Status == http.StatusGatewayTimeout || resp.Status != http.StatusOK && x.Left() {
		resp.Unseen = true
	}
	return resp
}

// code returns the code of a call that is not in its status, 0 for success, and whether it is
// known.
func (x *exchange) code() (connect.Code, bool) {
	for _, name := range [...]string{"Grpc-Status", http.TrailerPrefix + "Grpc-Status"} {
		if values := x.Header()[name]; len(values) > 0 {
			return parse(values[0])
		}
	}
	return x.frames.code(x.Header())
}

const statusCanceled = 499 // net/http has no name for it
