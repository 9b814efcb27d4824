// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// TestLongestOfASwitch: a connection that has switched protocol has no bound; an unanswered
// request for a switch has one.
func TestLongestOfASwitch(t *testing.T) {
	for _, switches := range []bool{true, false} {
		t.Run(fmt.Sprint(switches), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				up := overPipes(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if !switches {
						<-r.Context().Done()
						return
					}
					conn, rw, err := http.NewResponseController(w).Hijack()
					if err != nil {
						t.Error(err)
						return
					}
					_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
					_, _ = io.Copy(conn, rw) // the client checks it
					_ = conn.Close()
				}))
				cut := 0
				g, err := New("http://upstream.example", Options{
					ResponseTimeout: standing, LongestRequest: longestHere, OnLongest: func() { cut++ }, Dial: up.Dial, Log: slog.New(slog.DiscardHandler),
				})
				if err != nil {
					t.Fatal(err)
				}
				conn, err := overPipes(t, WithDeadlines(g, standing)).Dial(t.Context(), "", "")
				if err != nil {
					t.Fatal(err)
				}
				if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"); err != nil {
					t.Fatal(err)
				}
				answer := bufio.NewReader(conn)
				resp, err := http.ReadResponse(answer, nil)
				if err != nil {
					t.Fatal(err)
				}
				if want := map[bool]int{true: http.StatusSwitchingProtocols, false: http.StatusGatewayTimeout}[switches]; resp.StatusCode != want {
					t.Errorf("got %d, want %d", resp.StatusCode, want)
				}
				for range 3 {
					if !switches {
						break
					}
					time.Sleep(longestHere)
					got := make([]byte, 4)
					if _, err := io.WriteString(conn, "ping"); err != nil {
						t.Error(err)
					}
					if _, err := io.ReadFull(answer, got); err != nil || string(got) != "ping" {
						t.Errorf("got %q, %v", got, err)
					}
				}
				if (cut == 0) != switches {
					t.Errorf("counted %d", cut)
				}
				if err := errors.Join(resp.Body.Close(), conn.Close()); err != nil {
					t.Error(err)
				}
				synctest.Wait()
				g.Close()
			})
		})
	}
}
