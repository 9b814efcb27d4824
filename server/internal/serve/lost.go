// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"log/slog"

	"github.com/sluicegate/sluice/server/internal/overrides"
)

// mostLost is the most overrides that are logged one by one.
const mostLost = 10

// logLost logs the overrides that are left out, each with a remedy. It leaves out their keys,
// which may be secrets.
func (s *runtime) logLost(lost []overrides.Lost) {
	for i := range lost {
		if i == mostLost {
			s.log.Warn("more overrides are left out", slog.Int("overrides", len(lost)-i))
			return
		}
		o := &lost[i]
		remedy := "bring the rule back"
		if o.Fits {
			remedy = "make it again"
		}
		remedy += ", or end it by sluice key override PART=VALUE... --rule " + o.Rule
		if o.Level != "" {
			remedy += " --level " + o.Level
		}
		remedy += " --remove; its key is in sluice status"
		s.log.Warn("an override is left out", slog.String("rule", o.Rule), slog.String("level", o.Level),
			slog.String("reason", o.Reason), slog.String("author", o.Author), slog.String("problem", o.Problem), slog.String("remedy", remedy))
	}
}
