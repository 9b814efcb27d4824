// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package evaluate_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
)

// TestPatientBesideLeavers: 20 clients reserve turns of one budget and leave. A client that
// waits for its turn beside them gets nearly as much as it gets alone.
func TestPatientBesideLeavers(t *testing.T) {
	for _, limit := range []string{"10/s burst 1", "10/s leaky-bucket burst 5", "10/s sliding-log"} {
		t.Run(limit, func(t *testing.T) {
			served := func(leavers int) (n int) {
				synctest.Test(t, func(t *testing.T) {
					l := newLine(t, evaluate.Options{MaxWait: 10 * time.Second}, one("api", nil, limit))
					ctx, end := context.WithTimeout(t.Context(), time.Minute)
					defer end()
					var all sync.WaitGroup
					for range leavers {
						all.Go(func() {
							for ctx.Err() == nil {
								short, leave := context.WithCancel(ctx)
								time.AfterFunc(3*time.Millisecond, leave)
								var c evaluate.Call
								if l.evaluator.Decide(short, user("ada"), &c); c.Verdict.Passes() {
									<-ctx.Done() // it has passed, and stays
								}
								leave()
								time.Sleep(20 * time.Millisecond)
							}
						})
					}
					time.Sleep(5 * time.Second) // until the lucky ones have passed
					for from := time.Now(); time.Since(from) < 50*time.Second; {
						var c evaluate.Call
						if l.evaluator.Decide(ctx, user("ada"), &c); c.Verdict.Passes() {
							n++
						}
						c.Settle(ctx, policy.Response{Status: 200})
					}
					end()
					all.Wait()
				})
				return n
			}
			alone := served(0)
			if beside := served(20); alone < 490 || beside*100 < alone*95 {
				t.Errorf("%d requests pass alone, %d beside 20 that leave", alone, beside)
			}
		})
	}
}
