// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package limittest

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/policy"
)

// All runs all tests on an application: log-ins that fail in some ways, each with its status,
// hijacks whose bytes are counted or not, and clients that leave targets.
func All(t *testing.T, start Start, statuses map[string]int, counted bool, targets ...string) {
	t.Run("FailedLogins", func(t *testing.T) { FailedLogins(t, start, statuses) })
	t.Run("Hijacks", func(t *testing.T) { Hijacks(t, start, counted) })
	t.Run("ClientLeaves", func(t *testing.T) { ClientLeaves(t, start, targets...) })
	for name, test := range map[string]func(*testing.T, Start){
		"Bytes": Bytes, "Streams": Streams, "Panics": Panics, "ClientAddress": ClientAddress,
		"InFlight": InFlight, "Nothing": Nothing, "Answers": Answers, "Fields": Fields,
	} {
		t.Run(name, func(t *testing.T) { test(t, start) })
	}
}

// FailedLogins tests six log-ins that fail in each way, each with the status of its way. Three
// a minute may fail; later ones are answered 429. Successful requests are free.
func FailedLogins(t *testing.T, start Start, ways map[string]int) {
	for way, status := range ways {
		for _, hold := range []bool{false, true} {
			name := way
			if hold {
				name += ", held"
			}
			t.Run(name, func(t *testing.T) {
				s := Serve(t, start, httplimit.Options{Rules: []policy.Rule{Counting(t, "3/min", status, hold)}})
				for range 5 {
					if got := s.Get(t, "/bytes"); got != http.StatusOK {
						t.Fatalf("succeeds: got %d, want 200", got)
					}
				}
				var got []int
				for range 6 {
					got = append(got, s.Ask(t, http.MethodPost, "/login/"+way, http.NoBody).Status)
				}
				if want := []int{status, status, status, 429, 429, 429}; !slices.Equal(got, want) {
					t.Errorf("six log-ins are answered %v, want %v", got, want)
				}
			})
		}
	}
}

const (
	bytesLimit = "5000B/min"
	ownSize    = 1000 // bytes of /bytes and /stream
)

// Bytes tests that bytes count as they were sent and read, with a known length or without.
func Bytes(t *testing.T, start Start) {
	t.Run("responses", func(t *testing.T) {
		r := Rule(t, bytesLimit)
		r.Cost = policy.Cost{Of: policy.ResponseBytes}
		s := Serve(t, start, httplimit.Options{Rules: []policy.Rule{r}})
		if got := s.Ask(t, http.MethodGet, "/bytes", http.NoBody); len(got.Body) != ownSize {
			t.Fatalf("answered %d bytes, want %d", len(got.Body), ownSize)
		}
		s.Reach(t, bytesLimit, ownSize)
		s.Ask(t, http.MethodHead, "/bytes", http.NoBody)
		s.Reach(t, bytesLimit, ownSize)
		s.Release <- struct{}{}
		if got := s.Ask(t, http.MethodGet, "/stream", http.NoBody); len(got.Body) != ownSize {
			t.Fatalf("streamed %d bytes, want %d", len(got.Body), ownSize)
		}
		s.Reach(t, bytesLimit, 2*ownSize)
		for n := 3; n <= 5; n++ {
			s.Ask(t, http.MethodGet, "/bytes", http.NoBody)
			s.Reach(t, bytesLimit, int64(n)*ownSize)
		}
		if got := s.Get(t, "/bytes"); got != http.StatusTooManyRequests {
			t.Errorf("over the limit: got %d, want 429", got)
		}
	})
	t.Run("requests", func(t *testing.T) {
		r := Rule(t, bytesLimit)
		r.Cost = policy.Cost{Of: policy.RequestBytes}
		s := Serve(t, start, httplimit.Options{Rules: []policy.Rule{r}})
		s.Ask(t, http.MethodPost, "/upload", strings.NewReader(strings.Repeat("x", 2000)))
		s.Reach(t, bytesLimit, 2000)
		unknown := struct{ io.Reader }{strings.NewReader(strings.Repeat("x", 3000))}
		s.Ask(t, http.MethodPost, "/upload", unknown)
		s.Reach(t, bytesLimit, 5000)
		if got := s.Ask(t, http.MethodPost, "/upload", strings.NewReader("x")).Status; got != http.StatusTooManyRequests {
			t.Errorf("over the limit: got %d, want 429", got)
		}
	})
}

// Streams tests that a stream keeps its slot until it has ended.
func Streams(t *testing.T, start Start) {
	s := Serve(t, start, httplimit.Options{Rules: []policy.Rule{OneAtATime()}})
	resp, err := s.client.Get(s.URL + "/stream")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // it was read to its end
	if _, err := io.ReadFull(resp.Body, make([]byte, len(Chunk))); err != nil {
		t.Fatal(err)
	}
	if got := s.Get(t, "/bytes"); got != http.StatusTooManyRequests {
		t.Errorf("beside a stream: got %d, want 429", got)
	}
	s.Release <- struct{}{}
	if rest, err := io.ReadAll(resp.Body); err != nil || len(rest) != len(Chunk) {
		t.Errorf("read %d bytes more, %v, want %d", len(rest), err, len(Chunk))
	}
	s.Free(t)
}

// Free waits until a slot is free.
func (s *Site) Free(t *testing.T) {
	t.Helper()
	until(t, "a free slot, as nothing runs any more", func() bool { return s.Get(t, "/bytes") == http.StatusOK })
}

// Panics tests that panics count as failures and free their slots.
func Panics(t *testing.T, start Start) {
	s := Serve(t, start, httplimit.Options{Rules: []policy.Rule{Counting(t, "3/min", http.StatusInternalServerError, false), OneAtATime()}})
	var got []int
	for range 5 {
		got = append(got, s.Get(t, "/panic"))
	}
	if want := []int{500, 500, 500, 429, 429}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// InFlight tests that the rule's number of requests run at once, and no more.
func InFlight(t *testing.T, start Start) {
	s := Serve(t, start, httplimit.Options{Rules: []policy.Rule{OneAtATime()}})
	for range 2 {
		answered := make(chan int)
		go func() { answered <- s.Get(t, "/wait") }()
		<-s.Started
		if got := s.Get(t, "/wait"); got != http.StatusTooManyRequests {
			t.Errorf("beside one that runs: got %d, want 429", got)
		}
		s.Release <- struct{}{}
		if got := <-answered; got != http.StatusUnauthorized {
			t.Errorf("got %d, want 401", got)
		}
		s.Free(t)
	}
}

// ClientLeaves tests that a client that hangs up spends its try, at each target.
func ClientLeaves(t *testing.T, start Start, targets ...string) {
	for _, target := range targets {
		t.Run(target, func(t *testing.T) {
			s := Serve(t, start, httplimit.Options{Rules: []policy.Rule{Counting(t, "3/min", http.StatusUnauthorized, false)}})
			for n := range 3 {
				conn := s.Dial(t, "GET "+target+" HTTP/1.1\r\nHost: x\r\n\r\n")
				<-s.Started
				if err := conn.Close(); err != nil {
					t.Error(err)
				}
				s.Reach(t, "3/min", int64(n)+1)
			}
			if got := s.Get(t, target); got != http.StatusTooManyRequests {
				t.Errorf("after three hang-ups: got %d, want 429", got)
			}
		})
	}
}

// Nothing tests that an empty response counts as the 200 that its client gets.
func Nothing(t *testing.T, start Start) {
	s := Serve(t, start, httplimit.Options{Rules: []policy.Rule{Counting(t, "2/min", http.StatusOK, false)}})
	failures := Serve(t, start, httplimit.Options{Rules: []policy.Rule{Counting(t, "2/min", http.StatusUnauthorized, true)}})
	for _, want := range []int{200, 200, 429} {
		if got := s.Get(t, "/nothing"); got != want {
			t.Errorf("of successes: got %d, want %d", got, want)
		}
		if got := failures.Get(t, "/nothing"); got != http.StatusOK {
			t.Errorf("of failures: got %d, want 200", got)
		}
	}
}
