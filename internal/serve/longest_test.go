// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestLongestRequest: a request that takes longer than it may is answered, counted,
// and charged as one that the upstream may go on with: its slot stays. Another
// configuration changes the bound.
func TestLongestRequest(t *testing.T) {
	up := newStubborn(t, answering(http.StatusOK))
	file := func(longest string) string {
		return fmt.Sprintf("upstream: {url: %q%s}\nrules: [{name: a, by: header.X-User, limits: 5/min sliding-log, in_flight: {cap: 1, ttl: 1m}}]\n", up.url, longest)
	}
	s := start(t, file(", longest_request: 300ms"), stopped)
	cut := func() float64 { return s.metrics(t)[`sluice_cut_off_total{bound="longest_request"}`] }
	if got := s.get(t, "/", "X-User", "ada"); got.status != http.StatusGatewayTimeout || !strings.Contains(got.body, "longer than any may here") || cut() != 1 {
		t.Errorf("got %d %q, counted %v; want 504", got.status, got.body, cut())
	}
	if got := s.get(t, "/", "X-User", "ada"); got.status != http.StatusTooManyRequests {
		t.Errorf("while the upstream may go on: got %d, want 429", got.status)
	}
	s.changeTo(t, file(", longest_request: 400ms"))
	got := s.get(t, "/", "X-User", "bob")
	if got.status != http.StatusGatewayTimeout || !strings.Contains(got.body, "longer than any may here") || cut() != 2 {
		t.Errorf("another bound: got %d %q, counted %v; want 504", got.status, got.body, cut())
	}
	if left := strings.Split(strings.Join(got.header.Values("Ratelimit"), ""), ";"); len(left) < 2 || left[1] != "r=4" {
		t.Errorf("charged: %q", left)
	}
	s.changeTo(t, file(""))
	answered := make(chan int, 1)
	there := up.processed.Load()
	go func() { answered <- s.get(t, "/", "X-User", "eve").status }()
	until(t, "the upstream to have it", func() bool { return up.processed.Load() > there })
	up.release()
	if got := <-answered; got != http.StatusOK || cut() != 2 {
		t.Errorf("without a bound: got %d, counted %v", got, cut())
	}
}
