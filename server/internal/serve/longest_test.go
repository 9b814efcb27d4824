// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// TestLongestRequest: a request over the bound is answered, counted, and charged as one that
// the upstream may still work on: its slot stays taken. A reload changes the bound.
func TestLongestRequest(t *testing.T) {
	t.Parallel()
	up := newStubborn(t, answering(http.StatusOK))
	file := func(longest string) string {
		return fmt.Sprintf("upstream: {url: %q%s}\nrules: [{name: a, by: header.X-User, limits: 5/min sliding-log, in_flight: {cap: 1, ttl: 1m}}]\n", up.url, longest)
	}
	s := servetest.Start(t, file(", longest_request: 2s"), servetest.Stopped)
	cut := func() float64 { return s.Metrics(t)[`sluice_cut_off_total{bound="longest_request"}`] }
	if got := s.Get(t, "/", "X-User", "ada"); got.Status != http.StatusGatewayTimeout || !strings.Contains(got.Body, "longer than this gateway allows") || cut() != 1 {
		t.Errorf("got %d %q, counted %v; want 504", got.Status, got.Body, cut())
	}
	s.Want(t, http.StatusTooManyRequests, "/", "X-User", "ada")
	s.ChangeTo(t, file(", longest_request: 3s"))
	got := s.Get(t, "/", "X-User", "bob")
	if got.Status != http.StatusGatewayTimeout || !strings.Contains(got.Body, "longer than this gateway allows") || cut() != 2 {
		t.Errorf("another bound: got %d %q, counted %v; want 504", got.Status, got.Body, cut())
	}
	if left := strings.Split(strings.Join(got.Header.Values("Ratelimit"), ""), ";"); len(left) < 2 || left[1] != "r=4" {
		t.Errorf("charged: %q", left)
	}
	s.ChangeTo(t, file(""))
	answered := make(chan int, 1)
	there := up.processed.Load()
	go func() { answered <- s.Get(t, "/", "X-User", "eve").Status }()
	testkit.Until(t, "the upstream to have it", func() bool { return up.processed.Load() > there })
	up.release()
	if got := <-answered; got != http.StatusOK || cut() != 2 {
		t.Errorf("without a bound: got %d, counted %v", got, cut())
	}
}
