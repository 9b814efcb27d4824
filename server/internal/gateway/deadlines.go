// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"net/http"
	"time"

	"github.com/sluicegate/sluice/internal/exchange"
	"github.com/sluicegate/sluice/internal/wire"
)

// WithLeastRate returns a handler that closes stalled connections: those of a client that for
// d sends no byte of its request's body, or takes none of the response. A body may take any
// time while it progresses, and a handler may be silent: unlike the timeouts of an
// [http.Server], this suits streams. It must wrap every other handler, in a server without
// ReadTimeout and WriteTimeout. Connections that switch protocol have no bound. A server of
// HTTP/2 also needs a WriteByteTimeout: a client that reads nothing delays the frame that ends
// a stream, too.
//
// Bytes returns the least rate of bodies, in bytes a second, and is called for each request. A
// body being read may be waited for 10 s, and longer, up to d, by the time that the bytes
// received take at that rate. A slower one is answered with 408. Zero is no bound. Time in
// which the body is not read does not count, and gRPC, whose bodies are messages, has no
// bound. Slow is called for each body cut off for its rate, by any goroutine; it must be
// quick, and is required unless bytes returns 0.
func WithLeastRate(next http.Handler, d time.Duration, bytes func() int64, slow func()) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x, shared := exchange.Begin(w, r)
		r = x.Watch(r)
		x.Stall(d, r)
		if x.Body() != nil && !(r.ProtoMajor > 1 && wire.RPC(r.Header)) {
			if least := bytes(); least > 0 {
				x.LeastRate(least, slow)
			}
		}
		defer x.Finish(w)
		next.ServeHTTP(shared, r)
		if body := x.Body(); body != nil && !body.Ended() && x.Status() != http.StatusSwitchingProtocols {
			answeredEarly(r)
		}
	})
}
