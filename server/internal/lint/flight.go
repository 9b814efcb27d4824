// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"cmp"
	"fmt"
	"time"

	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/policy"
)

// longForAll is the longest ttl accepted for a slot shared by all clients.
const longForAll = time.Minute

// occupied warns of limits in flight that one client can use up for all by requests that it
// breaks off: their end is unknown.
func occupied(r *policy.Rule) (texts []string) {
	for i := range r.Levels {
		l := &r.Levels[i]
		if l.InFlight == nil || len(l.By) > 0 || r.Shadow {
			continue
		}
		if ttl := cmp.Or(l.InFlight.TTL, bounds.DefaultLease); ttl > longForAll {
			texts = append(texts, fmt.Sprintf("in_flight is one for all, and a client that breaks off an upload has taken a slot of it for %v; use a ttl near the longest request, %v at most, or by: ip",
				ttl, longForAll))
		}
	}
	return texts
}
