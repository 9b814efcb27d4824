// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package exchange_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/exchange"
)

func post(t *testing.T, body string) *http.Request {
	t.Helper()
	return httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(body))
}

// TestShared: nested handlers share one Exchange, one writer, one body and one copy of the
// request.
func TestShared(t *testing.T) {
	came := post(t, "0123456789")
	body := came.Body
	outer, w := exchange.Begin(httptest.NewRecorder(), came)
	r := outer.Watch(came)
	inner, again := exchange.Begin(w, r)
	if inner != outer || again != w {
		t.Error("the inner handler has an Exchange or a writer of its own")
	}
	if got := inner.Watch(r); got != r || got.Body != io.ReadCloser(outer.Body()) {
		t.Error("the inner handler has made a copy, or a body, of its own")
	}
	if came.Body != body {
		t.Error("the caller's request has another body")
	}
	if got, err := io.ReadAll(r.Body); err != nil || string(got) != "0123456789" || inner.Read() != 10 || !outer.Body().Ended() {
		t.Errorf("read %q, %v, counted %d", got, err, inner.Read())
	}
}

// TestStatus: the Exchange knows the status that was sent, if any.
func TestStatus(t *testing.T) {
	for _, c := range []struct {
		name   string
		write  func(http.ResponseWriter)
		status int
		bytes  int64
		lost   bool
	}{
		{"nothing", func(http.ResponseWriter) {}, 0, 0, true},
		{"a status", func(w http.ResponseWriter) { w.WriteHeader(http.StatusUnauthorized) }, 401, 0, false},
		{"two", func(w http.ResponseWriter) { w.WriteHeader(http.StatusUnauthorized); w.WriteHeader(http.StatusOK) }, 401, 0, false},
		{"hints first", func(w http.ResponseWriter) { w.WriteHeader(http.StatusEarlyHints); w.WriteHeader(http.StatusNotFound) }, 404, 0, false},
		{"a body", func(w http.ResponseWriter) { _, _ = io.WriteString(w, "12345") }, 200, 5, false},
		{"copied", func(w http.ResponseWriter) { _, _ = io.Copy(w, strings.NewReader("12345")) }, 200, 5, false},
		{"unseen", func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusGatewayTimeout)
			w.(interface{ Unseen() }).Unseen()
		}, 504, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			x, w := exchange.Begin(httptest.NewRecorder(), post(t, ""))
			c.write(w)
			if x.Status() != c.status || x.Written() != c.bytes || x.Lost() != c.lost {
				t.Errorf("status %d, %d bytes, lost %v; want %+v", x.Status(), x.Written(), x.Lost(), c)
			}
		})
	}
	x, w := exchange.Begin(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodHead, "/", http.NoBody))
	if _, err := io.WriteString(w, "of no body"); err != nil || x.Written() != 0 {
		t.Errorf("HEAD: %d bytes, %v", x.Written(), err)
	}
}

// TestLimit: a body of the largest size passes, and one more byte is an error with the size.
func TestLimit(t *testing.T) {
	for _, size := range []int{0, 1, 9, 10, 11, 5000} {
		x, _ := exchange.Begin(httptest.NewRecorder(), post(t, ""))
		r := x.Watch(post(t, strings.Repeat("x", size)))
		if size == 0 {
			continue // not a body
		}
		x.Body().Limit(10)
		got, err := io.ReadAll(r.Body)
		tooLarge, is := errors.AsType[*http.MaxBytesError](err)
		if want := min(size, 10); len(got) != want || is != (size > 10) || is && tooLarge.Limit != 10 {
			t.Errorf("%d bytes: read %d, %v", size, len(got), err)
		}
		if (x.Body().Err() != nil) != (size > 10) {
			t.Errorf("%d bytes: the body's fault is %v", size, x.Body().Err())
		}
	}
}

// TestEnd: bytes read after End are not passed on.
func TestEnd(t *testing.T) {
	x, _ := exchange.Begin(httptest.NewRecorder(), post(t, ""))
	r := x.Watch(post(t, "0123456789"))
	if _, err := io.ReadFull(r.Body, make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	x.Body().End()
	if n, err := r.Body.Read(make([]byte, 4)); n != 0 || !errors.Is(err, http.ErrBodyReadAfterClose) {
		t.Errorf("read %d, %v", n, err)
	}
	if x.Body().Err() != nil {
		t.Errorf("the end is taken for a fault: %v", x.Body().Err())
	}
}

// TestSlow: bytes wait for every Pace, in parts of the smallest chunk, and bytes that a Pace
// refuses are not sent.
func TestSlow(t *testing.T) {
	var parts []int
	full := errors.New("its turn would not come")
	left := 12
	x, w := exchange.Begin(httptest.NewRecorder(), post(t, ""))
	x.Slow(&exchange.Pace{Chunk: 5, Take: func(n int) error { parts = append(parts, n); return nil }}, nil)
	x.Slow(&exchange.Pace{Chunk: 100, Take: func(n int) error {
		if left -= n; left < 0 {
			return full
		}
		return nil
	}}, nil)
	n, err := w.Write(make([]byte, 20))
	if n != 10 || !errors.Is(err, full) || !slices.Equal(parts, []int{5, 5, 5}) || x.Written() != 10 {
		t.Errorf("wrote %d, %v, in parts %v; counted %d", n, err, parts, x.Written())
	}
}

// TestFinishedServesAgain: an Exchange without users is reused, without its old state.
func TestFinishedServesAgain(t *testing.T) {
	get := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	for range 100 {
		below := httptest.NewRecorder()
		x, w := exchange.Begin(below, get)
		x.Stall(time.Minute, get)
		if x.Status() != 0 || x.Written() != 0 || x.Read() != 0 || x.Sent() || !x.Lost() || x.OnHeader != nil || x.Failed {
			t.Fatal("an Exchange has something of another one")
		}
		x.Unseen()
		x.Connected()
		x.Failed, x.OnHeader = true, func(int) {}
		w.Header()["A"] = []string{"b"}
		x.Keep([]string{"A"})
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(w, "12345")
		if got := below.Body.String(); got != "12345" || below.Code != http.StatusTooManyRequests {
			t.Fatalf("the answer is %d %q", below.Code, got)
		}
		x.Finish(below)
	}
}

// TestFinishedStays: an Exchange that may be used after the handlers is not reused.
func TestFinishedStays(t *testing.T) {
	get := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	for name, hold := range map[string]func(*exchange.Exchange, http.ResponseWriter){
		"with a body":          func(x *exchange.Exchange, _ http.ResponseWriter) { x.Watch(post(t, "a")) },
		"to be settled":        func(x *exchange.Exchange, _ http.ResponseWriter) { x.Settlement = &exchange.Settlement{} },
		"below another":        func(_ *exchange.Exchange, w http.ResponseWriter) { exchange.Count(w, get); exchange.Count(w, get) },
		"of a handler further": nil,
	} {
		below := httptest.NewRecorder()
		x, w := exchange.Begin(below, get)
		given := http.ResponseWriter(below)
		if hold != nil {
			hold(x, w)
		} else {
			given = w
		}
		x.Finish(given)
		if x.Unwrap() != http.ResponseWriter(below) {
			t.Errorf("%s: it was given to another request", name)
		}
	}
}
