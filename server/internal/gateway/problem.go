// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"

	"github.com/sluicegate/sluice/internal/exchange"
	"github.com/sluicegate/sluice/internal/wire"
)

// statusClientGone is the status that nginx logs for a client that left. Only the handlers
// around see it: they must not take it for a failure of the upstream.
const statusClientGone = 499

// fail answers a request that was not passed on, or whose response failed.
func (g *Gateway) fail(w http.ResponseWriter, r *http.Request, err error) {
	x := exchange.Of(w)
	x.Failed = true
	body := x.Body()
	broken := body != nil && body.Err() != nil
	if noted := exchange.Observed(w); noted != nil {
		noted.Err = err
		if broken { // an error of the client, not of the upstream
			noted.Err = fmt.Errorf("%w, as the client's body: %w", context.Canceled, body.Err())
		}
	}
	// The upstream may have read enough of the request to act on it. A request whose
	// connection was refused or not made in time was not sent: otherwise an upstream that is
	// down would count against all clients.
	if x.Sent() && !notDialled(err) {
		wire.NotifyUnseen(w)
		if broken || r.Context().Err() != nil || gaveUp(err) {
			wire.NotifyRunning(w) // the gateway gave up the exchange
		}
	}
	if tookTooLong(r.Context()) {
		failLong(w, x.Sent() && !notDialled(err))
		return
	}
	if broken {
		failBody(w, body.Err())
		return
	}
	switch {
	case errors.Is(context.Cause(r.Context()), http.ErrServerClosed):
		writeProblem(w, http.StatusServiceUnavailable, "the gateway is shutting down")
	case errors.Is(r.Context().Err(), context.Canceled):
		w.WriteHeader(statusClientGone)
	case errors.Is(err, errFull):
		g.log.Warn(r.Context(), "no connection to the upstream: as many are open as the clients and file descriptors of this process allow; raise ulimit -n (LimitNOFILE=), or bound what clients open and have in flight", err)
		writeExhausted(w)
	case exhausted(err) != "":
		g.log.Error(r.Context(), exhausted(err), err)
		writeExhausted(w)
	case isTimeout(err):
		g.log.Warn(r.Context(), "upstream took too long", err)
		writeProblem(w, http.StatusGatewayTimeout, "the upstream took too long to answer")
	default:
		g.log.Warn(r.Context(), "upstream did not answer", err)
		writeProblem(w, http.StatusBadGateway, "the upstream did not answer; the request may be sent again if it is safe to")
	}
}

// failLong answers a request that took too long before the upstream answered.
func failLong(w http.ResponseWriter, sent bool) {
	const detail = "the request took longer than this gateway allows"
	if sent {
		writeProblem(w, http.StatusGatewayTimeout, detail)
		return
	}
	writeProblem(w, http.StatusServiceUnavailable, detail+"; it was not sent to the upstream")
}

func writeExhausted(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "1")
	writeProblem(w, http.StatusServiceUnavailable, "this gateway has no connections left for the upstream; the request was not sent")
}

// notDialled reports whether an exchange failed because no connection was made.
func notDialled(err error) bool {
	var dial *net.OpError
	return errors.As(err, &dial) && dial.Op == "dial"
}

func failBody(w http.ResponseWriter, err error) {
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		writeProblem(w, http.StatusRequestEntityTooLarge, "the request's body is too large")
	case isTimeout(err):
		writeProblem(w, http.StatusRequestTimeout, "the request's body took too long to arrive")
	default:
		writeProblem(w, http.StatusBadRequest, "the request's body cannot be read")
	}
}

// exhausted returns which resource of the process or system a connection to an upstream
// lacked, and the remedy; "" for other errors.
func exhausted(err error) string {
	switch {
	case lacks(err, syscall.EMFILE):
		return "no connection to the upstream: this process has no file descriptors left; raise ulimit -n (LimitNOFILE=), or lower max_connections"
	case lacks(err, syscall.ENFILE):
		return "no connection to the upstream: this system has no file descriptors left; raise fs.file-max"
	case lacks(err, syscall.EADDRNOTAVAIL):
		return "no connection to the upstream: this system has no local ports left; raise net.ipv4.ip_local_port_range, or check the upstream's address"
	}
	return ""
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}

// writeProblem answers with a problem document of RFC 9457. It must not contain the upstream's
// address, which is for the log only.
func writeProblem(w http.ResponseWriter, status int, detail string) {
	doc, err := json.Marshal(struct {
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
	}{"about:blank", http.StatusText(status), status, detail})
	if err != nil { // strings and a number can always be marshaled
		w.WriteHeader(status)
		return
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	if _, err := w.Write(append(doc, '\n')); err != nil {
		return // the client is gone
	}
}
