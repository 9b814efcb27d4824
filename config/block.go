// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"

	"go.yaml.in/yaml/v4"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/config/internal/document"
	"github.com/sluicegate/sluice/policy"
)

// blocks reads the blocks of a level: "10min after 20 denials/min", or a list of these.
func (d *decoder) blocks(n *yaml.Node, l *policy.Level) {
	d.Each(n, "block", func(n *yaml.Node, s string) {
		b, err := policy.ParseBlock(s)
		if err == nil {
			l.Blocks = append(l.Blocks, b)
			return
		}
		if place, ok := errors.AsType[*sluice.TextError](err); ok {
			d.FaultAt(n, place.Offset, "block %q: %s", document.Shorten(s), place.Problem)
			return
		}
		for _, err := range flatten(err) {
			if fault, ok := errors.AsType[*sluice.LimitError](err); ok {
				d.FaultAt(n, 0, "block %q: %s: %s", document.Shorten(s), limitWord(fault.Field), fault.Problem)
			}
		}
	})
}
