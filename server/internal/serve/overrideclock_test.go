// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
)

// TestOverrideExpiresByStoresClock: requests are under an override until it expires by the
// clock of the shared store, though it has long expired by the node's, and no longer, as soon
// as the store's clock has moved.
func TestOverrideExpiresByStoresClock(t *testing.T) {
	t.Parallel()
	redis := redistest.StartClocked(t, redistest.Redis(t), -2*time.Hour)
	a := node(t, redis.URL())
	limited := func(quota int) {
		t.Helper()
		testkit.Until(t, fmt.Sprintf("a limit of %d", quota), func() bool {
			policy := a.Get(t, "/", "X-User", "ada").Header.Get("RateLimit-Policy")
			return strings.Contains(policy, fmt.Sprintf(";q=%d;", quota))
		})
	}
	expires := time.Now().Add(-time.Hour)
	// The node refuses the change until it has heard the time of the store.
	untilTold(t, a, fmt.Sprintf(`, "limits": ["100/h"], "expires": %q`, expires.UTC().Format(time.RFC3339Nano)))
	limited(100)
	allFull(t, 100, a)
	redis.SetAhead(t, 0)
	limited(3)
	allFull(t, 3, a)
}
