// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package exchange

import (
	"errors"
	"net/http"
	"time"
)

// errCut is the error of a write to a cut-off response.
var errCut = errors.New("exchange: the response was cut off")

// past is a deadline in the past.
var past = time.Unix(1, 0)

// Came returns when the request of w arrived, as noted by the outermost handler that bounds
// its time, or the zero time.
func Came(w http.ResponseWriter) (came time.Time) {
	for x := range around(w) {
		if !x.came.IsZero() {
			came = x.came
		}
	}
	return came
}

// CutBody ends the request's body unless it has ended: reads of it no longer wait for the
// client. It may be called by any goroutine while the handler runs.
func CutBody(w http.ResponseWriter) {
	for x := range around(w) {
		x.stall.cutBody()
	}
}

// CutResponse ends the response: writes no longer wait for the client, and nothing more is
// sent. It may be called by any goroutine while the handler runs.
func CutResponse(w http.ResponseWriter) {
	for x := range around(w) {
		x.stall.cut.Store(true)
	}
	_ = http.NewResponseController(w).SetWriteDeadline(past) // an error means that the connection is gone
}

func (s *stall) cutBody() {
	if !s.reads || s.x.body.Ended() {
		return // after its end the server watches for the client's leaving
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	_ = s.x.control().SetReadDeadline(past) // an error means that the connection is gone
}
