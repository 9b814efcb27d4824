// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"net/http"
	"time"

	"github.com/sluicegate/sluice/internal/exchange"
	"github.com/sluicegate/sluice/internal/wire"
)

// WithDeadlines returns a handler that closes connections which stand still: a
// client that sends no further byte of its request's body for d, or takes none
// of the response. A body may take as
// long as it likes so long as it moves, and a handler that has nothing to write
// may be silent: other than the timeouts of an [http.Server] this suits streams.
// It belongs around every other handler, in a server without a ReadTimeout and
// a WriteTimeout of its own. Connections that switch protocol are left alone. A server of
// HTTP/2 needs a WriteByteTimeout as well: a client that reads nothing more of its
// connection delays the frame by which a stream is ended, too.
func WithDeadlines(next http.Handler, d time.Duration) http.Handler {
	return WithLeastRate(next, d, func() int64 { return 0 }, nil)
}

// WithLeastRate is WithDeadlines with a bound on how slowly a body may come, asked
// for each request: while it is being read it may be waited for 10 s, and longer, up
// to d, by as much as what has come takes at so many bytes a second. What is slower
// is answered with 408. Zero is no bound. Time in which the body is not read does
// not count, and gRPC is left alone, whose bodies are messages as they come. Slow is
// called for each body that is cut off for its rate, by any goroutine; it must be
// quick, and is needed unless bytes returns 0.
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
