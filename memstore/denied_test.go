// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore_test

import (
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
)

// TestNothingIsLeftOfWhatOthersTook: if another take spends all units of a window while a
// take decides, the denial has no units remaining.
func TestNothingIsLeftOfWhatOthersTook(t *testing.T) {
	keys := testkit.Steps(20_000, 300_000)
	l := testkit.Limiter(t, memstore.New(memstore.Options{MaxKeys: 2 * keys}), "scope", "10/day fixed-window")
	var there atomic.Int64
	var group sync.WaitGroup
	for _, rest := range []int64{1, 9} { // of 10, of which one is taken
		group.Go(func() {
			for i := range int64(keys) {
				key := strconv.FormatInt(i, 10)
				if rest == 1 {
					if _, err := l.Take(t.Context(), key, 1); err != nil {
						t.Error(err)
					}
				}
				for there.Add(1); there.Load() < 2*(i+1); { // both at once
					runtime.Gosched()
				}
				d, err := l.Take(t.Context(), key, rest)
				if err != nil || !d.Allowed && rest == 1 && d.Remaining != 0 {
					t.Errorf("of %d: %+v, %v", rest, d, err)
				}
			}
		})
	}
	group.Wait()
}
