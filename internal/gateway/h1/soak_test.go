// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package h1_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/gateway/h1"
	"github.com/sluicegate/sluice/internal/testkit"
)

// TestSoak: many clients that leave at any time, an upstream that breaks off at any place. No
// response is another's, no request that may not be is delivered twice, and nothing is left.
func TestSoak(t *testing.T) {
	before := runtime.NumGoroutine()
	var poisoned, mixed, twice, fine, failed atomic.Int64
	var seen sync.Map
	up := serveRaw(t, func(_ int, c net.Conn, r *http.Request) bool {
		id := r.URL.Path
		n, _ := seen.LoadOrStore(id, new(atomic.Int32))
		if n.(*atomic.Int32).Add(1) > 1 && r.Method == http.MethodPost {
			twice.Add(1)
		}
		body := id + strings.Repeat("x", rand.IntN(10000)) + id
		head := r.Method == http.MethodHead
		if head {
			body = ""
		}
		cl := fmt.Sprintf("%sX-Id: %s\r\nContent-Length: %d\r\n\r\n%s", ok, id, len(body), body)
		switch rand.IntN(14) {
		case 0: // close at once
			return false
		case 1: // half of the header
			send(c, cl[:10])
			return false
		case 2: // half of the body
			send(c, cl[:len(cl)-len(body)/2])
			return false
		case 3: // half of the body, then silence
			send(c, cl[:len(cl)-len(body)/2])
			time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
			return false
		case 4: // slow
			time.Sleep(time.Duration(rand.IntN(5)) * time.Millisecond)
			send(c, cl)
		case 5: // then closed
			send(c, cl)
			return false
		case 6: // then a reset
			send(c, cl)
			_ = c.(*net.TCPConn).SetLinger(0)
			return false
		case 7: // hints
			for range rand.IntN(5) {
				send(c, "HTTP/1.1 103 Early Hints\r\nX-Id: "+id+"\r\n\r\n")
			}
			send(c, cl)
		case 8: // chunks
			if head {
				send(c, cl)
				break
			}
			send(c, ok+"X-Id: "+id+"\r\nTransfer-Encoding: chunked\r\n\r\n")
			for len(body) > 0 {
				k := min(1+rand.IntN(3000), len(body))
				send(c, fmt.Sprintf("%x\r\n%s\r\n", k, body[:k]))
				body = body[k:]
			}
			send(c, "0\r\n\r\n")
		case 9: // in two parts
			k := rand.IntN(len(cl))
			send(c, cl[:k])
			time.Sleep(time.Duration(rand.IntN(1000)) * time.Microsecond)
			send(c, cl[k:])
		case 10: // more in the same segment
			send(c, cl+ok+"X-Id: poison\r\nContent-Length: 6\r\n\r\npoison")
		default:
			send(c, cl)
		}
		return true
	})
	var dialled, closed, hinted atomic.Int32
	transport := newTransport(t, up.URL, func(o *h1.Options) {
		o.MaxIdle = 8
		o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			time.Sleep(time.Duration(rand.IntN(500)) * time.Microsecond)
			c, err := new(net.Dialer).DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			dialled.Add(1)
			return &once{Conn: c, closed: &closed}, nil
		}
	})
	var all sync.WaitGroup
	for client := range 32 {
		all.Go(func() {
			for i := range testkit.Steps(100, 2000) {
				id := fmt.Sprintf("/%d-%d/", client, i)
				ctx, cancel := context.WithCancel(t.Context())
				ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{Got1xxResponse: func(_ int, h textproto.MIMEHeader) error {
					if h.Get("X-Id") != id {
						mixed.Add(1)
					}
					hinted.Add(1)
					return nil
				}})
				var timer *time.Timer
				if rand.IntN(3) == 0 {
					timer = time.AfterFunc(time.Duration(rand.IntN(2000))*time.Microsecond, cancel)
				}
				method := []string{http.MethodGet, http.MethodPost, http.MethodHead}[rand.IntN(3)]
				r := request(ctx, t, up.URL, method, id)
				resp, err := transport.RoundTrip(r)
				if err != nil {
					failed.Add(1)
				} else {
					switch got := resp.Header.Get("X-Id"); got {
					case id:
					case "poison":
						poisoned.Add(1)
					default:
						mixed.Add(1)
					}
					if rand.IntN(8) == 0 { // part of it
						_, _ = io.CopyN(io.Discard, resp.Body, int64(rand.IntN(3000)))
					} else {
						body, err := io.ReadAll(resp.Body)
						if err == nil && method != http.MethodHead && (!strings.HasPrefix(string(body), id) || !strings.HasSuffix(string(body), id)) {
							mixed.Add(1)
						}
						fine.Add(1)
					}
					if rand.IntN(10) == 0 {
						go cancel()
					}
					_ = resp.Body.Close()
				}
				if rand.IntN(500) == 0 {
					transport.CloseIdleConnections()
				}
				cancel()
				if timer != nil {
					timer.Stop()
				}
			}
		})
	}
	all.Wait()
	testkit.Until(t, "all connections but 8 to be closed", func() bool { return dialled.Load()-closed.Load() <= 8 })
	t.Logf("fine %d failed %d hints %d dialled %d idle %d", fine.Load(), failed.Load(), hinted.Load(), dialled.Load(), dialled.Load()-closed.Load())
	transport.CloseIdleConnections()
	testkit.Until(t, "all connections to be closed", func() bool { return dialled.Load() == closed.Load() })
	if poisoned.Load()+mixed.Load()+twice.Load() > 0 {
		t.Errorf("poisoned %d, mixed %d, twice %d", poisoned.Load(), mixed.Load(), twice.Load())
	}
	testkit.Until(t, "all goroutines to end", func() bool { return runtime.NumGoroutine() <= before+2 })
}

type once struct {
	net.Conn
	done   sync.Once
	closed *atomic.Int32
}

func (c *once) NetConn() net.Conn { return c.Conn }
func (c *once) Close() error {
	c.done.Do(func() { c.closed.Add(1) })
	return c.Conn.Close()
}
