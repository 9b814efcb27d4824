// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice/internal/exchange"
)

// longestHere bounds a request in these tests; standing bounds a stalled body, and a client
// that takes nothing.
const (
	longestHere = 5 * time.Minute
	standing    = time.Hour
)

// longRun is a gateway in memory with a bound on requests, and a client.
type longRun struct {
	client   *http.Transport
	cut      int           // requests that took too long
	upstream error         // of the last request that ended at the upstream
	held     time.Duration // delay before the gateway gets a request
	returned time.Time     // when the gateway returned last
	settled  []string      // what is known when a handler around the gateway returns
}

// runLong runs a test over each protocol of a request.
func runLong(t *testing.T, upstream http.HandlerFunc, test func(t *testing.T, l *longRun)) {
	t.Helper()
	for _, c := range []struct {
		name     string
		h2, kept bool
	}{{"HTTP1", false, false}, {"HTTP1 that outlives its client", false, true}, {"HTTP2", true, false}, {"HTTP2 that outlives its client", true, true}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &longRun{}
				up := overPipes(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					upstream(w, r)
					l.upstream = r.Context().Err()
				}))
				g, err := New("h2c://upstream.example", Options{
					ResponseTimeout: standing, LongestRequest: longestHere, OnLongest: func() { l.cut++ }, Dial: up.Dial, Log: slog.New(slog.DiscardHandler),
				})
				if err != nil {
					t.Fatal(err)
				}
				var handler http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					time.Sleep(l.held)
					defer func() { l.returned = time.Now() }()
					g.ServeHTTP(w, r)
				})
				if c.kept {
					handler = l.settling(handler)
				}
				front := overPipes(t, WithDeadlines(handler, standing))
				var protocols http.Protocols
				protocols.SetHTTP1(!c.h2)
				protocols.SetUnencryptedHTTP2(c.h2)
				l.client = &http.Transport{Protocols: &protocols, DialContext: front.Dial}
				test(t, l)
				l.client.CloseIdleConnections()
				g.Close()
				time.Sleep(2 * standing) // stalled requests end
			})
		})
	}
}

// settling is a handler that awaits the response.
func (l *longRun) settling(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x, w := exchange.Count(w, r)
		x.Settlement = &exchange.Settlement{
			Settle:  func(exchange.Outcome) { l.settled = append(l.settled, "taken over") },
			Presume: func() {}, Keys: slices.Values([]string{"k"}),
		}
		defer func() {
			if x.Settlement.Taken() {
				return
			}
			for name, so := range map[string]bool{"lost": x.Lost(), "running": x.Runs()} {
				if so {
					l.settled = append(l.settled, name)
				}
			}
		}()
		next.ServeHTTP(w, r)
	})
}

// ask sends a request and returns the status, the body and its error, and how long that took.
func (l *longRun) ask(t *testing.T, body io.Reader, header ...string) (status int, got string, took time.Duration, err error) {
	t.Helper()
	began := time.Now()
	defer synctest.Wait() // until the outcome of the rest is known
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://front.example/", body)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := l.client.RoundTrip(r)
	if err != nil {
		return 0, "", time.Since(began), err
	}
	text, err := io.ReadAll(resp.Body)
	took = time.Since(began)
	return resp.StatusCode, string(text), took, errors.Join(err, resp.Body.Close())
}

// trickle is a body of left bytes, one in a little more than a minute: none when a request is
// cut off, as its client could not write it then.
type trickle struct{ left int }

func (b *trickle) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.EOF
	}
	b.left--
	time.Sleep(time.Minute + time.Second)
	p[0] = 'x'
	return 1, nil
}

// TestLongestBefore: a request without a response at its bound is answered by the gateway,
// which cancels it at the upstream and records that the upstream may continue.
func TestLongestBefore(t *testing.T) {
	for _, c := range []struct {
		name string
		body io.Reader
	}{{"an upstream that thinks", http.NoBody}, {"a body that trickles", &trickle{1000}}} {
		t.Run(c.name, func(t *testing.T) {
			runLong(t, func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body) // an error means that it was cut off
				<-r.Context().Done()
			}, func(t *testing.T, l *longRun) {
				body := c.body
				if _, slow := body.(*trickle); slow {
					body = &trickle{1000}
				}
				status, got, took, err := l.ask(t, body)
				if status != http.StatusGatewayTimeout || !strings.Contains(got, "took longer than this gateway allows") || took != longestHere || err != nil {
					t.Errorf("got %d %q after %v, %v; want 504 after %v", status, got, took, err, longestHere)
				}
				synctest.Wait()
				if l.cut != 1 || !errors.Is(l.upstream, context.Canceled) {
					t.Errorf("counted %d, and the upstream's request ended with %v", l.cut, l.upstream)
				}
				slices.Sort(l.settled)
				if want := []string{"lost", "running"}; l.settled != nil && !slices.Equal(l.settled, want) {
					t.Errorf("known is %q, want %q", l.settled, want)
				}
			})
		})
	}
}

// TestLongestWithin: a response over the bound is broken off and does not look complete; one
// that the client does not take does not block the gateway.
func TestLongestWithin(t *testing.T) {
	runLong(t, func(w http.ResponseWriter, _ *http.Request) {
		for range 1000 {
			if _, err := io.WriteString(flushing{w}, "x"); err != nil {
				return
			}
			time.Sleep(time.Minute + time.Second)
		}
	}, func(t *testing.T, l *longRun) {
		status, got, took, err := l.ask(t, http.NoBody)
		if status != http.StatusOK || len(got) != 5 || took != longestHere || err == nil {
			t.Errorf("got %d %q after %v, %v; want 5 bytes and an error after %v", status, got, took, err, longestHere)
		}
		if l.cut != 1 {
			t.Errorf("counted %d, want 1", l.cut)
		}
	})
}

// TestLongestNotTaken: a client that takes almost nothing of a response is cut off.
func TestLongestNotTaken(t *testing.T) {
	runLong(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(flushing{w}, "x")
		time.Sleep(time.Second) // until ReverseProxy has flushed the header: a flush that waits for a lock is not idle to synctest
		for {
			if _, err := w.Write(make([]byte, 1<<16)); err != nil {
				return
			}
		}
	}, func(t *testing.T, l *longRun) {
		began := time.Now()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://front.example/", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := l.client.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		for range 4 * 60 { // a kilobyte a second
			if _, err := io.ReadFull(resp.Body, make([]byte, 1<<10)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		time.Sleep(longestHere)
		synctest.Wait()
		if took := l.returned.Sub(began); took != longestHere || l.cut != 1 {
			t.Errorf("it was held for %v, counted %d; want %v", took, l.cut, longestHere)
		}
		_, _ = io.Copy(io.Discard, resp.Body) // the bytes on their way
		_ = resp.Body.Close()
	})
}

// TestLongestFits: a request within its bound passes, and the bound does not affect the next
// request on the connection.
func TestLongestFits(t *testing.T) {
	runLong(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(flushing{w}, r.Body) // the client checks it
	}, func(t *testing.T, l *longRun) {
		for range 3 {
			status, got, _, err := l.ask(t, &trickle{4})
			if status != http.StatusOK || got != "xxxx" || err != nil || l.cut != 0 {
				t.Errorf("got %d %q, %v, counted %d", status, got, err, l.cut)
			}
		}
	})
}

// TestLongestStreams: only the upstream decides that a response is a stream, which has no
// bound.
func TestLongestStreams(t *testing.T) {
	for _, c := range []struct {
		name, sent, answered string
		h1, h2               bool // passes
	}{
		{"events", "text/plain", "text/event-stream; charset=utf-8", true, true},
		{"gRPC", "application/grpc", "application/grpc+proto", false, true},
		{"events that only the client speaks of", "text/event-stream", "text/plain", false, false},
		{"gRPC that only the client speaks of", "application/grpc", "text/plain", false, false},
		{"gRPC-Web", "application/grpc-web", "application/grpc-web", false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			runLong(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", c.answered)
				if strings.HasPrefix(r.Header.Get("X-Ends"), "with") { // a stream of the client only
					_, _ = io.Copy(io.Discard, r.Body)
				}
				_, _ = io.Copy(flushing{w}, r.Body)
			}, func(t *testing.T, l *longRun) {
				passes := c.h1
				if l.client.Protocols.UnencryptedHTTP2() {
					passes = c.h2
				}
				_, got, _, err := l.ask(t, &trickle{20}, "Content-Type", c.sent)
				if passed := got == strings.Repeat("x", 20) && err == nil; passed != passes || (l.cut == 0) != passes {
					t.Errorf("got %q, %v, counted %d; passes %v", got, err, l.cut, passes)
				}
			})
		})
	}
}

// TestLongestHeld: an earlier delay counts towards the bound, and a request without time left
// is not sent.
func TestLongestHeld(t *testing.T) {
	reached := 0
	runLong(t, func(_ http.ResponseWriter, r *http.Request) {
		reached++
		<-r.Context().Done()
	}, func(t *testing.T, l *longRun) {
		reached = 0
		l.held = longestHere - time.Second
		if status, _, took, err := l.ask(t, http.NoBody); status != http.StatusGatewayTimeout || took != longestHere || err != nil {
			t.Errorf("held for most of it: got %d after %v, %v", status, took, err)
		}
		l.held, l.settled = longestHere, nil
		status, got, _, err := l.ask(t, http.NoBody)
		if status != http.StatusServiceUnavailable || !strings.Contains(got, "it was not sent") || err != nil {
			t.Errorf("held for longer: got %d %q, %v; want 503 that says so", status, got, err)
		}
		if reached != 1 || l.cut != 2 || l.settled != nil {
			t.Errorf("%d reached the upstream, counted %d, known is %q", reached, l.cut, l.settled)
		}
	})
}

// TestLongestOfTheGone: a request that continues without its client has the same bound.
func TestLongestOfTheGone(t *testing.T) {
	var ended time.Time
	runLong(t, func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		ended = time.Now()
	}, func(t *testing.T, l *longRun) {
		began := time.Now()
		ctx, leave := context.WithTimeout(t.Context(), time.Minute)
		defer leave()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://front.example/", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if resp, err := l.client.RoundTrip(r); err == nil {
			t.Errorf("got %d", resp.StatusCode)
			_ = resp.Body.Close()
		}
		time.Sleep(longestHere)
		synctest.Wait()
		want, cut := time.Minute, 0 // it ends with the client
		if l.settled != nil {       // unless a handler awaits it
			want, cut = longestHere, 1
		}
		if took := ended.Sub(began); took != want || l.cut != cut {
			t.Errorf("ended after %v, counted %d; want %v and %d; known is %q", took, l.cut, want, cut, l.settled)
		}
	})
}

// stopShort sends an HTTP/1 request whose body never ends, and returns all answers until the
// connection is closed, and the time that took.
func (l *longRun) stopShort(t *testing.T) (answer string, took time.Duration) {
	t.Helper()
	began := time.Now()
	conn, err := l.client.DialContext(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nx"); err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(conn)
	took = time.Since(began)
	if err := errors.Join(err, conn.Close()); err != nil {
		t.Error(err)
	}
	return string(all), took
}

// TestLongestLetsGo: a client that sends no more of its body does not keep the connection
// open, either.
func TestLongestLetsGo(t *testing.T) {
	runLong(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // an error means that it was cut off
	}, func(t *testing.T, l *longRun) {
		if !l.client.Protocols.HTTP1() {
			return
		}
		if got, took := l.stopShort(t); took >= longestHere+time.Minute || !strings.HasPrefix(got, "HTTP/1.1 504 ") {
			t.Errorf("got %q after %v; want 504 and the end soon after %v", got, took, longestHere)
		}
	})
}

// TestEarlyAnswerLetsGo: an upstream that answers before it has read the body does not leave
// the connection open when the client sends no more: net/http removes the deadline if the body
// is being read when a handler returns.
func TestEarlyAnswerLetsGo(t *testing.T) {
	runLong(t, func(http.ResponseWriter, *http.Request) {}, func(t *testing.T, l *longRun) {
		if !l.client.Protocols.HTTP1() {
			return
		}
		if got, took := l.stopShort(t); took > 2*standing || !strings.HasPrefix(got, "HTTP/1.1 200 ") {
			t.Errorf("got %q after %v; want 200 and the end", got, took)
		}
	})
}
