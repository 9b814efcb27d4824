// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// TestLeaseOfProcesses: processes lease one limit from one server. One is killed and
// started again, one ends properly. The limit is kept, only the units that the killed one
// held are lost, and there are fewer calls of the server than decisions.
func TestLeaseOfProcesses(t *testing.T) {
	t.Parallel()
	const clients = 12
	quota := testkit.Steps(600, 2000)
	units := quota / 40
	server := redistest.Start(t, redistest.Redis(t))
	file := testkit.TempFile(t, "sluice.yaml", fmt.Sprintf(`
listen: 127.0.0.1:0
admin: off
store: {redis: {url: %q}}
rules:
  - {name: hot, limits: %d/day sliding-log, lease: {ttl: 1m, units: %d}, failure: closed}
`, server.URL(), quota, units))
	client := server.Client(t)
	var passed, answered atomic.Int64
	ask := func(n int, of ...*program) {
		var group sync.WaitGroup
		for c := range clients {
			group.Go(func() {
				for i := c; i < n; i += clients {
					switch a := servetest.Fetch(t, http.DefaultClient, of[i%len(of)].url+"/?userId=u"); a.Status {
					case http.StatusOK:
						passed.Add(1)
					case http.StatusTooManyRequests:
					case http.StatusServiceUnavailable: // on a machine that is busy
						continue
					default:
						t.Errorf("got %d %s", a.Status, a.Body)
					}
					answered.Add(1)
				}
			})
		}
		group.Wait()
	}
	a, b, c := startProgramWith(t, "--config", file), startProgramWith(t, "--config", file), startProgramWith(t, "--config", file)
	ask(quota/3, a, b, c)
	a.signal(t, syscall.SIGKILL)
	if err := a.Wait(); err == nil {
		t.Error("a process that was killed ended well")
	}
	a = startProgramWith(t, "--config", file)
	ask(quota/3, a, b, c)
	b.signal(t, syscall.SIGTERM)
	if err := b.Wait(); err != nil {
		t.Errorf("a process that was instructed to end: %v; logged %s", err, b.logs)
	}
	ask(quota, a, c)
	calls := redistest.Number(t, client, "EVAL", `local n = 0
for calls in redis.call("INFO", "commandstats"):gmatch("cmdstat_eval[sha]*:calls=(%d+)") do n = n + calls end
return n`, "0")
	t.Logf("%d of %d answers let through, %d store calls", passed.Load(), answered.Load(), calls)
	if n := int(passed.Load()); n > quota || n < quota-4*units {
		t.Errorf("%d let through, want at most %d, and most of them", n, quota)
	}
	if 2*calls > answered.Load() {
		t.Errorf("%d store calls for %d answers, want at most half as many", calls, answered.Load())
	}
}
