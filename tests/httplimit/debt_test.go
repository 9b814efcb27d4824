// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
)

// TestResponsesArePaid: the excess of a response is paid before the next one. Over 100 windows
// a client gets a quota a window, and as much as was in flight when the units ran out; it is
// never denied for longer than its debt.
func TestResponsesArePaid(t *testing.T) {
	const quota, window, windows = 1000, time.Minute, 100
	for _, algorithm := range []string{"", " interval-refill", " leaky-bucket burst 1000 nodelay", " sliding-counter", " sliding-counter strict", " sliding-counter sub-windows 6"} {
		for _, size := range []int64{quota / 10, 2 * quota, 10 * quota} {
			for _, atOnce := range []int{1, 8} {
				t.Run(fmt.Sprintf("%dB/min%s, %d at once of %d", quota, algorithm, atOnce, size), func(t *testing.T) {
					now := time.Date(2026, 1, 2, 10, 0, 0, 0, time.UTC)
					limit, err := httplimit.Limit(memstore.New(memstore.Options{Now: func() time.Time { return now }}), "files",
						policy.IP(), sluice.MustParseLimit(fmt.Sprintf("%dB/min%s", quota, algorithm)))
					if err != nil {
						t.Fatal(err)
					}
					delivered, sets := int64(0), 0
					for end := now.Add(windows * window); now.Before(end); {
						var running []*httplimit.Request
						wait := time.Duration(0)
						for range atOnce {
							q := limit.Decide(httptest.NewRequest(http.MethodGet, "/", nil))
							if q.Allowed() {
								running = append(running, q)
								continue
							}
							w := httptest.NewRecorder()
							q.Refuse(w)
							seconds, err := strconv.Atoi(w.Header().Get("Retry-After"))
							if err != nil {
								t.Fatal(err)
							}
							wait = time.Duration(seconds) * time.Second
						}
						if sets++; len(running) == 0 {
							sets--
						}
						for _, q := range running {
							delivered += size
							q.Settle(policy.Response{Status: http.StatusOK, Written: size})
						}
						if wait > 11*window+window/quota+time.Second { // and a unit, rounded up
							t.Fatalf("kept out for %v", wait)
						}
						now = now.Add(max(wait, time.Millisecond))
					}
					most := int64(windows*quota*5/4 + quota)
					if atOnce > 1 {
						most += int64(sets*atOnce) * size
					}
					if delivered > most {
						t.Errorf("%d quotas in %d windows, want at most %d", delivered/quota, windows, most/quota)
					}
					if delivered < windows*quota/2 {
						t.Errorf("%d quotas in %d windows: it is kept out for too long", delivered/quota, windows)
					}
				})
			}
		}
	}
}
