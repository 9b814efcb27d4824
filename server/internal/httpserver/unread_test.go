// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httpserver

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// endless is an endless body that counts the bytes read of it.
type endless struct{ read atomic.Int64 }

func (b *endless) Read(p []byte) (int, error) {
	b.read.Add(int64(len(p)))
	return len(p), nil
}

func (b *endless) Close() error { return nil }

// TestUnread: the unread bytes of bodies on an HTTP/2 connection are bounded, with one stream
// or several.
func TestUnread(t *testing.T) {
	for _, streams := range []int{1, 5} {
		synctest.Test(t, func(t *testing.T) {
			handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
			ours, o := overPipe(t, handler)
			var protocols http.Protocols
			protocols.SetUnencryptedHTTP2(true)
			transport := &http.Transport{Protocols: &protocols, DialContext: func(context.Context, string, string) (net.Conn, error) { return ours, nil }}
			ctx, leave := context.WithCancel(t.Context())
			bodies := make([]endless, streams)
			for i := range bodies {
				r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://front.example/", &bodies[i])
				if err != nil {
					t.Fatal(err)
				}
				go func() {
					if resp, err := transport.RoundTrip(r); err == nil {
						t.Errorf("got %d", resp.StatusCode)
						_ = resp.Body.Close()
					}
				}()
				synctest.Wait() // all use one connection
			}
			sent := int64(0)
			for i := range bodies {
				sent += bodies[i].read.Load()
			}
			const ahead = 64 << 10 // a client reads as much of its body before it may send it
			if most := int64(maxUnread + streams*ahead); sent < maxUnread || sent > most {
				t.Errorf("%d streams: %d bytes were sent, want %d to %d", streams, sent, maxUnread, most)
			}
			leave()
			synctest.Wait()
			transport.CloseIdleConnections()
			if err := o.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
