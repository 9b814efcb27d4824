// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice/failure"
	"github.com/sluicegate/sluice/internal/redistest"
)

// TestInvariant17 (concurrency): what many goroutines of several nodes are
// admitted at once is what one queue would be: the quota, neither more nor less.
func TestInvariant17(t *testing.T) {
	const nodes, goroutines, each = 4, 16, 25 // 1600 takes of 300 units
	for _, c := range []struct {
		name string
		url  func(t *testing.T) string
	}{
		{"single", func(t *testing.T) string { return "redis://" + redistest.Start(t, redistest.Redis(t)).Addr }},
		{"cluster", func(t *testing.T) string {
			return clusterURL(redistest.StartCluster(t, redistest.Redis(t), 3, false))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			url := c.url(t)
			var admitted, denied atomic.Int64
			var group sync.WaitGroup
			for range nodes {
				r := newRig(t, url, failure.Closed, 10*time.Second)
				defer r.close(t)
				for range goroutines {
					group.Go(func() {
						for range each {
							switch d, err := r.hot.Take(t.Context(), "k", 1); {
							case err != nil:
								t.Error(err)
							case d.Allowed:
								admitted.Add(1)
							default:
								denied.Add(1)
							}
						}
					})
				}
			}
			group.Wait()
			if a, d := admitted.Load(), denied.Load(); a != quota || a+d != nodes*goroutines*each {
				t.Errorf("%d admitted, %d denied; want %d and the others", a, d, quota)
			}
		})
	}
}
