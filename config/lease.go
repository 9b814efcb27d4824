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
	mapped := d.MappingOr(n, "lease", d.Flag("lease", "", &on).Read,
		d.Duration("ttl", "How long a lease holds (default 1s).", time.Microsecond, maxLeaseTTL, &t.TTL),
		d.Number("units", "Units of a lease (default: by the limit and the rate).", 1, sluice.MaxQuota, &t.Units),
		d.Number("nodes", "How many nodes lease (default: nodes of the file, if written).", 1, 1<<20, &nodes),
	)
	if !mapped && !on {
		return nil
	}
	t.Nodes = int(nodes)
	return t
}
