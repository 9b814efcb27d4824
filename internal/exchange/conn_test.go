// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package exchange_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice/internal/exchange"
)

// deadlines is a writer that keeps the deadlines of its writes.
type deadlines struct {
	http.ResponseWriter
	set []time.Time
}

func (d *deadlines) SetWriteDeadline(t time.Time) error {
	d.set = append(d.set, t)
	return nil
}

// TestConn: exchanges of one connection of HTTP/1 set the deadline of writes once in a
// sixteenth of it, and anew when one of them was cut off.
func TestConn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const stall = 16 * time.Second
		w := &deadlines{ResponseWriter: httptest.NewRecorder()}
		serve := func(ctx context.Context, major, want int, cut bool) {
			t.Helper()
			r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
			r.ProtoMajor = major
			before := len(w.set)
			x, next := exchange.Begin(w, r)
			x.Stall(stall, r)
			if _, err := next.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
			x.Finish()
			if got := len(w.set) - before; got != want {
				t.Errorf("the deadline was set %d times, want %d", got, want)
			}
			if want == 1 && !w.set[before].Equal(time.Now().Add(stall+stall/16)) {
				t.Errorf("the deadline is in %v", time.Until(w.set[before]))
			}
			if cut {
				exchange.CutResponse(next)
			}
		}
		one := exchange.WithConn(t.Context())
		serve(one, 1, 1, false)
		serve(one, 1, 0, false)
		time.Sleep(stall / 16)
		serve(one, 1, 1, false)
		serve(one, 1, 0, true) // when nothing is left to be sent
		serve(one, 1, 1, false)
		serve(exchange.WithConn(t.Context()), 1, 1, false) // another connection
		serve(t.Context(), 1, 1, false)                    // and of a server that has none
		serve(one, 1, 0, false)
		serve(one, 2, 3, false) // a stream: set, and taken away when it is silent
	})
}
