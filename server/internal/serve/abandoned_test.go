// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"fmt"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/serve"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// TestHangUpsGoOn: of the requests of clients that hang up, no more are processed than a limit
// on failures allows, and they are settled by their final responses.
func TestHangUpsGoOn(t *testing.T) {
	t.Parallel()
	clients := testkit.Steps(10, 40)
	for _, h2 := range []bool{false, true} {
		for _, hold := range []bool{false, true} {
			for _, status := range []int{http.StatusUnauthorized, http.StatusOK} {
				t.Run(fmt.Sprintf("HTTP/2 %v, hold %v, status %d", h2, hold, status), func(t *testing.T) {
					up := newStubborn(t, answering(status))
					s := servetest.Start(t, fmt.Sprintf("upstream: %q\nrules: [{name: login, by: ip, limits: 5/15min sliding-log, when: {response: [401, 403]%s}}]\n", up.url, map[bool]string{true: ", charge: first"}[hold]), servetest.Stopped)
					client := speaking(t, h2)
					left := 0
					for range clients {
						if got := hangUp(t, s, client, up.there); got == 0 {
							left++
							abandoned(t, s, left)
						} else if got != http.StatusTooManyRequests {
							t.Errorf("status %d, want 429", got)
						}
					}
					if got := up.processed.Load(); got != 5 {
						t.Errorf("%d clients hung up, %d were processed: want 5", clients, got)
					}
					up.release()
					settled(t, s)
					want := map[int]int{http.StatusUnauthorized: http.StatusTooManyRequests, http.StatusOK: http.StatusOK}[status]
					if got := s.Get(t, "/login").Status; got != want {
						t.Errorf("behind hang-ups that were answered %d: status %d, want %d", status, got, want)
					}
					if got := abandoned(t, s, 5); got["seen"] != 5 {
						t.Errorf("their outcomes: %v, want 5 seen", got)
					}
				})
			}
		}
	}
}

// TestHangUpsInFlight: whatever clients abandon, the upstream never has more requests at once
// than the limit in flight. A slot is freed when the upstream is done with a request or, if
// that remains unknown, when it expires.
func TestHangUpsInFlight(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name       string
		more       string
		unfinished bool
		want       string // the outcome of two that are passed on
		freed      int    // slots, once the upstream is done
	}{
		{"sent whole", "", false, "map[full:0 lost:0 seen:2 unsent:0 waiting:0]", 2},
		{"last byte missing", "", true, "map[full:0 lost:0 seen:0 unsent:2 waiting:0]", 0},
		{"too many", "abandoned: 1\n", false, "map[full:1 lost:0 seen:1 unsent:0 waiting:0]", 1},
	} {
		for _, h2 := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, HTTP/2 %v", c.name, h2), func(t *testing.T) {
				up := newStubborn(t, answering(http.StatusOK))
				clock := testkit.ClockAt(servetest.FixedClock())
				s := servetest.Start(t, fmt.Sprintf("%supstream: %q\nrules: [{name: a, by: ip, in_flight: {cap: 2, ttl: 1h}}]\n", c.more, up.url), func(o *serve.Options) { o.Now = clock.Now })
				client := speaking(t, h2)
				left := 0
				clients := testkit.Steps(5, 40)
				for range clients {
					var got int
					if c.unfinished {
						got = withhold(t, s, client, up.there)
					} else {
						got = hangUp(t, s, client, up.there)
					}
					if got == 0 {
						left++
						abandoned(t, s, left)
					} else if got != http.StatusTooManyRequests {
						t.Errorf("status %d, want 429", got)
					}
				}
				if processed, most := up.processed.Load(), up.most.Load(); processed != 2 || most != 2 {
					t.Errorf("%d clients hung up, %d were processed, %d at once: want 2", clients, processed, most)
				}
				up.release()
				settled(t, s)
				if got := fmt.Sprint(abandoned(t, s, 2)); got != c.want {
					t.Errorf("their outcomes: %s, want %s", got, c.want)
				}
				if got := s.Get(t, "/").Status == http.StatusOK; got != (c.freed > 0) {
					t.Errorf("when the upstream is done: passes %v, want %d slots free", got, c.freed)
				}
				clock.Advance(time.Hour)
				if got := s.Get(t, "/").Status; got != http.StatusOK {
					t.Errorf("when the slots have expired: status %d, want 200", got)
				}
			})
		}
	}
}

// TestGivenUpInFlight: a slot stays taken after the gateway gave up the upstream, even if the
// client was still waiting.
func TestGivenUpInFlight(t *testing.T) {
	t.Parallel()
	up := newStubborn(t, answering(http.StatusOK))
	clock := testkit.ClockAt(servetest.FixedClock())
	// Requests must arrive within the timeout.
	s := servetest.Start(t, fmt.Sprintf("upstream: {url: %q, timeout: 3s}\nrules: [{name: a, by: ip, in_flight: {cap: 1, ttl: 1h}}]\n", up.url), func(o *serve.Options) { o.Now = clock.Now })
	for _, want := range []int{http.StatusGatewayTimeout, http.StatusTooManyRequests} {
		if got := s.Get(t, "/").Status; got != want {
			t.Errorf("status %d, want %d", got, want)
		}
	}
	<-up.there
	clock.Advance(time.Hour)
	if got := hangUp(t, s, speaking(t, false), up.there); got != 0 {
		t.Fatalf("status %d before the client left", got)
	}
	abandoned(t, s, 1)
	settled(t, s)
	if got := s.Get(t, "/").Status; got != http.StatusTooManyRequests {
		t.Errorf("behind one that hung up and was given up: status %d, want 429", got)
	}
	if got := up.most.Load(); got != 2 { // the first has not ended
		t.Errorf("%d at once, want 2", got)
	}
}

// TestResetsOnOneConnection: many reset streams leave their connection usable for others,
// although the upstream works on all of them.
func TestResetsOnOneConnection(t *testing.T) {
	t.Parallel()
	up := newStubborn(t, answering(http.StatusUnauthorized))
	quick := servetest.Backend(t, answering(http.StatusOK))
	s := servetest.Start(t, fmt.Sprintf(`
upstream:
  - {url: %q, path: /login}
  - %s
rules: [{name: login, by: header.X-User, limits: 5/15min sliding-log, when: {response: 401, charge: first}, match: {path: /login}}]
`, up.url, quick), servetest.Stopped)
	client := speaking(t, true)
	resets := testkit.Steps(100, 1000)
	for i := range resets {
		if got := hangUp(t, s, client, up.there, "X-User", fmt.Sprint(i/5)); got != 0 {
			t.Fatalf("reset %d: status %d", i, got)
		}
	}
	if got := abandoned(t, s, resets); got["waiting"] != float64(resets) {
		t.Errorf("their outcomes: %v, want that all are waited for", got)
	}
	for range resets / 3 {
		fresh := false
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) { fresh = !c.Reused }})
		req := servetest.Request(ctx, t, http.MethodGet, s.URL+"/quick", nil)
		if a := servetest.Do(t, client, req); a.Status != http.StatusOK || fresh {
			t.Fatalf("beside the resets: status %d, on another connection %v; want 200, false", a.Status, fresh)
		}
	}
	up.release()
	settled(t, s)
	if got := abandoned(t, s, resets); got["seen"] != float64(resets) {
		t.Errorf("their outcomes: %v, want that all were settled", got)
	}
}

// TestShareOfAKey: neither one key nor clients that share a budget can take all places.
func TestShareOfAKey(t *testing.T) {
	t.Parallel()
	for _, by := range []string{"by: header.X-User, ", "by: [], "} {
		up := newStubborn(t, answering(http.StatusUnauthorized))
		by = strings.TrimPrefix(by, "by: [], ")
		s := servetest.Start(t, fmt.Sprintf("abandoned: 30\nupstream: %q\nrules: [{name: login, %slimits: 1000/h, when: {response: 401}}]\n", up.url, by), servetest.Stopped)
		client := speaking(t, true)
		for range 5 {
			hangUp(t, s, client, up.there, "X-User", "eve")
		}
		got := abandoned(t, s, 5)
		if got["waiting"] != 3 || got["full"] != 2 {
			t.Errorf("%q: five of one: %v, want 3 and 2", by, got)
		}
		hangUp(t, s, client, up.there, "X-User", "ada")
		want := map[bool]float64{true: 3, false: 4}[by == ""]
		if got = abandoned(t, s, 6); got["waiting"] != want {
			t.Errorf("%q: and one of another: %v, want %v", by, got, want)
		}
		up.release()
		settled(t, s)
	}
}

// TestDrainWaitsForAbandoned: requests without a client are settled before the end, within the
// drain time.
func TestDrainWaitsForAbandoned(t *testing.T) {
	t.Parallel()
	const yaml = "upstream: %q\nrules: [{name: login, by: ip, limits: 5/15min, when: {response: 401}}]\n"
	t.Run("to its end", func(t *testing.T) {
		up := newStubborn(t, answering(http.StatusUnauthorized))
		s := servetest.Start(t, fmt.Sprintf(yaml, up.url), func(o *serve.Options) { o.Drain = time.Minute })
		hangUp(t, s, speaking(t, false), up.there)
		abandoned(t, s, 1)
		s.Stop()
		untilNotReady(t, s)
		if got := s.Metrics(t); got["sluice_abandoned"] != 1 {
			t.Errorf("while it drains: %v abandoned, want 1", got["sluice_abandoned"])
		}
		up.release()
		s.End(t)
		if strings.Contains(s.Logs.String(), "cut off") {
			t.Errorf("logged: %s", s.Logs)
		}
	})
	t.Run("in vain", func(t *testing.T) {
		up := newStubborn(t, answering(http.StatusUnauthorized))
		s := servetest.Start(t, fmt.Sprintf(yaml, up.url), func(o *serve.Options) { o.Drain = time.Millisecond })
		hangUp(t, s, speaking(t, true), up.there)
		abandoned(t, s, 1)
		s.End(t)
		if logs := s.Logs.String(); !strings.Contains(logs, "requests without a client are cut off") || strings.Contains(logs, "do not end") {
			t.Errorf("logged: %s", logs)
		}
	})
}

// TestAbandonedBytes: a response that no client takes costs no bytes; a cost in a header field
// is charged in full.
func TestAbandonedBytes(t *testing.T) {
	t.Parallel()
	up := newStubborn(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Cost", "9")
		if _, err := w.Write(make([]byte, 900)); err != nil {
			t.Error(err)
		}
	})
	s := servetest.Start(t, fmt.Sprintf(`
upstream: %q
rules:
  - {name: bytes, by: ip, limits: 1000B/h sliding-log debt 1000B, cost: response-bytes, match: {path: /login}}
  - {name: named, by: ip, limits: 10/h sliding-log debt 10, cost: {response_header: X-Cost, most: 50}, match: {path: /login}}
`, up.url), servetest.Stopped)
	hangUp(t, s, speaking(t, false), up.there)
	abandoned(t, s, 1)
	up.release()
	settled(t, s)
	var got []string
	for i := range 3 {
		a := s.Get(t, "/login")
		got = append(got, fmt.Sprint(a.Status))
		if i == 2 {
			got = append(got, a.Header.Get("RateLimit"))
		}
	}
	// 0 of 1000 bytes and 9 of 10 first, then 900 and 18.
	if want := []string{"200", "429", "429"}; !slices.Equal(got[:3], want) || !strings.Contains(got[3], "named") {
		t.Errorf("got %q, want %q by the rule named", got, want)
	}
}
