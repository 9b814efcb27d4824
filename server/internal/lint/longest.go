// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"slices"

	"github.com/sluicegate/sluice/config"
)

// tooLate warns of a rule that may delay a request for longer than the longest request of its
// upstream: the request would never be sent.
func tooLate(c *config.Config, i int) []string {
	r, example := &c.Policy.Rules()[i], c.Policy.Example(i)
	at := slices.IndexFunc(c.Upstreams, func(u config.Upstream) bool { return u.Takes(example.Host, example.Path) })
	if at < 0 || c.Upstreams[at].LongestRequest == 0 || r.MaxWait < c.Upstreams[at].LongestRequest {
		return nil
	}
	return []string{fmt.Sprintf("a request delayed by max_wait, %v, is not sent any more: the delay counts towards its upstream's longest_request of %v; use a shorter max_wait",
		r.MaxWait, c.Upstreams[at].LongestRequest)}
}
