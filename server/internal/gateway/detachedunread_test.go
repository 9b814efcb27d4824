// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package gateway_test

import (
	"bytes"
	"net/http"
	"testing"
	"time"

	"github.com/sluicegate/sluice/server/internal/gateway"
)

// TestUnreadByTheUpstream: the wait for an HTTP/2 upstream that neither takes the end of a
// request, read to its end, nor answers is bounded, though the time for its response has not
// begun.
func TestUnreadByTheUpstream(t *testing.T) {
	const window = 1 << 20 // bytes that net/http takes of an unread body
	release, there, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	upstream := h2cFront(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(there)
		<-release
	}))
	t.Cleanup(func() { close(release) })
	pool := gateway.NewAbandoned(1)
	o := startOutlived(t, "h2c://"+upstream, gateway.Options{Abandoned: pool, ResponseTimeout: 300 * time.Millisecond}, func() {})
	go func() {
		defer close(ended)
		body, tick := <-o.bodies, time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for !body.Ended() && t.Context().Err() == nil {
			<-tick.C
		}
	}()
	// The bytes read at once straddle the window.
	if !o.leave(t, http.MethodPost, ended, &stepped{first: bytes.NewReader(make([]byte, window-1000)), then: there, rest: bytes.NewReader(make([]byte, 2000))}) {
		t.Fatal("does not go on")
	}
	if got := <-o.settled; !got.Unseen || !got.Running {
		t.Errorf("settled by %+v, want unseen and running", got)
	}
	untilNone(t, pool)
}

// stepped is a body whose rest comes after an event.
type stepped struct {
	first, rest *bytes.Reader
	then        <-chan struct{}
}

func (b *stepped) Read(p []byte) (int, error) {
	if b.first.Len() > 0 {
		return b.first.Read(p)
	}
	<-b.then
	return b.rest.Read(p)
}
