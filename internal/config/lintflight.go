// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"fmt"
	"time"

	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/policy"
)

// longForAll is how long a slot that is everybody's may count without an end.
const longForAll = time.Minute

// occupied says which limits in flight of a rule one client can use up for all, by
// requests that it breaks off: nobody knows when these end.
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
