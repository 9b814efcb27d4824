// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/sluicegate/sluice"
)

// lease reads true, false, or {ttl: 500ms, units: 100, nodes: 8}.
func (d *decoder) lease(n *yaml.Node) *sluice.LeaseTerms {
	var on bool
	var nodes int64
	t := &sluice.LeaseTerms{}
	mapped := d.mappingOr(n, "lease", d.flag("lease", &on).read,
		d.duration("ttl", time.Microsecond, maxLeaseTTL, &t.TTL),
		d.number("units", 1, sluice.MaxQuota, &t.Units),
		d.number("nodes", 1, 1<<20, &nodes),
	)
	if !mapped && !on {
		return nil
	}
	t.Nodes = int(nodes)
	return t
}
