// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package gateway_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/exchange"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/gateway"
)

// TestSoak: whatever clients and an upstream do, no client gets another's response, and all
// places and goroutines are freed.
func TestSoak(t *testing.T) {
	for name, opts := range map[string]gateway.Options{
		"unbounded": {}, "bounded": {LongestRequest: testkit.Ceiling},
	} {
		t.Run(name, func(t *testing.T) { soak(t, opts) })
	}
}

func soak(t *testing.T, opts gateway.Options) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	var mixed, fine, bad, settled atomic.Int64
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close() //nolint:errcheck // the test is over
				in := bufio.NewReader(c)
				for {
					r, err := http.ReadRequest(in)
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, r.Body)
					id := r.URL.Path
					body := id + strings.Repeat("x", rand.IntN(40000)) + id
					if r.Method == http.MethodHead {
						body = ""
					}
					cl := fmt.Sprintf("HTTP/1.1 200 OK\r\nX-Id: %s\r\nContent-Length: %d\r\n\r\n%s", id, len(body), body)
					switch rand.IntN(9) {
					case 0:
						return
					case 1:
						_, _ = io.WriteString(c, cl[:len(cl)-len(body)/2])
						time.Sleep(time.Duration(rand.IntN(10)) * time.Millisecond)
						return
					case 2:
						for range rand.IntN(6) {
							_, _ = io.WriteString(c, "HTTP/1.1 103 Early Hints\r\nLink: "+id+"\r\n\r\n")
						}
						_, _ = io.WriteString(c, cl)
					case 3:
						time.Sleep(time.Duration(rand.IntN(10)) * time.Millisecond)
						_, _ = io.WriteString(c, cl)
					case 4:
						k := rand.IntN(len(cl))
						_, _ = io.WriteString(c, cl[:k])
						time.Sleep(time.Duration(rand.IntN(1000)) * time.Microsecond)
						_, _ = io.WriteString(c, cl[k:])
					case 5:
						_, _ = io.WriteString(c, cl)
						return
					default:
						_, _ = io.WriteString(c, cl)
					}
				}
			}()
		}
	}()
	places := gateway.NewConnections(1000, nil)
	before := runtime.NumGoroutine()
	opts.Dial, opts.Log, opts.ResponseTimeout = places.Dial, slog.New(slog.DiscardHandler), testkit.Ceiling
	g, err := gateway.New("http://"+l.Addr().String(), opts)
	check(t, err)
	handler := gateway.WithDeadlines(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "settle") {
			x, w := exchange.Count(w, r)
			x.Settlement = &exchange.Settlement{Presume: func() {}, Keys: slices.Values([]string{r.URL.Path}), Settle: func(exchange.Outcome) { settled.Add(1) }}
			g.ServeHTTP(w, x.Watch(r))
			return
		}
		g.ServeHTTP(w, r)
	}), time.Minute)
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = nil
	server.Start()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	var all sync.WaitGroup
	for n := range 32 {
		all.Go(func() {
			for i := range testkit.Steps(60, 1000) {
				id := fmt.Sprintf("/%d-%d/%s/", n, i, []string{"plain", "settle"}[rand.IntN(2)])
				ctx, cancel := context.WithCancel(t.Context())
				if rand.IntN(2) == 0 {
					time.AfterFunc(time.Duration(rand.IntN(3000))*time.Microsecond, cancel)
				}
				var body io.Reader
				method := []string{"GET", "HEAD", "POST", "PUT"}[rand.IntN(4)]
				if method == "PUT" {
					body = strings.NewReader("body")
				}
				r, _ := http.NewRequestWithContext(ctx, method, server.URL+id, body)
				resp, err := client.Do(r)
				if err == nil {
					got, err := io.ReadAll(resp.Body)
					_ = resp.Body.Close()
					switch {
					case resp.StatusCode != http.StatusOK:
						bad.Add(1)
					case resp.Header.Get("X-Id") != id, err == nil && method != "HEAD" && (!strings.HasPrefix(string(got), id) || !strings.HasSuffix(string(got), id)):
						mixed.Add(1)
					default:
						fine.Add(1)
					}
				}
				cancel()
			}
		})
	}
	all.Wait()
	client.CloseIdleConnections()
	testkit.Until(t, "all places to be free", func() bool {
		g.Close()
		return places.Stats().Open == 0
	})
	t.Logf("fine %d bad %d settled %d stats %+v", fine.Load(), bad.Load(), settled.Load(), places.Stats())
	if mixed.Load() > 0 {
		t.Errorf("%d responses are another's", mixed.Load())
	}
	server.Close()
	_ = l.Close()
	testkit.Until(t, "all goroutines to end", func() bool { return runtime.NumGoroutine() <= before+1 })
}
