// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package exchange

import (
	"errors"
	"net/http"
	"time"
)

// errCut is the error of a write to a response that was cut off.
var errCut = errors.New("exchange: the response was cut off")

// past is a deadline that is over.
var past = time.Unix(1, 0)

// Came returns when the request of w came, as noted by the caller that bounds its time; the
// zero time if nobody has.
func Came(w http.ResponseWriter) (came time.Time) {
	for x := range around(w) {
		if !x.came.IsZero() {
			came = x.came
		}
	}
	return came
}

// CutBody ends the request's body, unless that has ended: what waits for the client
// to send more waits no longer. It may be called by any goroutine while the handler
// runs.
func CutBody(w http.ResponseWriter) {
	for x := range around(w) {
		x.stall.cutBody()
	}
}

// CutResponse ends the response: what waits for the client to take more waits no
// longer, and nothing more of it is sent. It may be called by any goroutine while
// the handler runs.
func CutResponse(w http.ResponseWriter) {
	for x := range around(w) {
		x.stall.cut.Store(true)
	}
	_ = http.NewResponseController(w).SetWriteDeadline(past) // an error means that the connection is gone
}

func (s *stall) cutBody() {
	if !s.reads || s.x.body.Ended() {
		return // behind its end the server watches whether the client is there
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	_ = s.x.control().SetReadDeadline(past) // an error means that the connection is gone
}
