// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package goredis_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/redisstore"
)

// TestTogether: takes of many keys at once share calls, and each has the decision of
// its own key.
func TestTogether(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Redis(t))
	client := newSingle(server.Addr)
	s := testkit.Closed(t, open(t, client, redisstore.Options{Timeout: testkit.Ceiling}))
	for _, text := range []string{"1000/day", "1000/day fixed-window", "1000/day sliding-counter"} {
		lim := testkit.Limiter(t, s, "together", text)
		var wg sync.WaitGroup
		for g := range 48 {
			wg.Go(func() {
				for i := int64(1); i <= 30; i++ {
					key := fmt.Sprint("user", g)
					d, err := lim.Take(t.Context(), key, 1)
					if err != nil || !d.Allowed || d.Remaining < 1000-i || d.Remaining > 1001-i {
						t.Errorf("take %d of %s: got %+v, %v; want %d remaining", i, key, d, err, 1000-i)
						return
					}
				}
			})
		}
		wg.Wait()
	}
	info, err := client.Info(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(info, "cmdstat_evalsha:calls=")
	n := 0
	if _, err := fmt.Sscan(strings.Split(text, ",")[0], &n); err != nil {
		t.Fatal(err)
	}
	if n > 3*48*30*9/10 {
		t.Errorf("got %d calls for %d takes, want them to share calls", n, 3*48*30)
	}
}
