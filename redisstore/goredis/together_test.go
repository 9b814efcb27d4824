// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package goredis_test

import (
	"fmt"
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
	const callers, takes = 48, 20
	server := redistest.Start(t, redistest.Redis(t))
	s := testkit.Closed(t, open(t, newSingle(server.Addr), redisstore.Options{Timeout: testkit.Ceiling}))
	texts := []string{"1000/366day", "1000/366day fixed-window", "1000/366day sliding-counter"}
	for _, text := range texts {
		lim := testkit.Limiter(t, s, "together", text)
		var wg sync.WaitGroup
		for g := range callers {
			wg.Go(func() {
				for i := int64(1); i <= takes; i++ {
					key := fmt.Sprint("user", g)
					d, err := lim.Take(t.Context(), key, 1)
					if err != nil || !d.Allowed || d.Remaining != 1000-i {
						t.Errorf("take %d of %s: got %+v, %v; want %d remaining", i, key, d, err, 1000-i)
						return
					}
				}
			})
		}
		wg.Wait()
	}
	all := len(texts) * callers * takes
	if n := redistest.ScriptCalls(t, server.Client(t)); n > all*9/10 {
		t.Errorf("got %d calls for %d takes, want them to share calls", n, all)
	}
}
