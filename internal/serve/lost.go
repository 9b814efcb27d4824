// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"log/slog"

	"github.com/sluicegate/sluice/internal/server/admin"
)

// mostLost is how many overrides the log names at a time.
const mostLost = 10

// logLost says which overrides are left out, and how to be rid of them. It
// names no keys, which may be secrets.
func (s *runtime) logLost(lost []admin.LostOverride) {
	for i := range lost {
		if i == mostLost {
			s.log.Warn("more overrides are left out", slog.Int("overrides", len(lost)-i))
			return
		}
		o := &lost[i]
		remedy := "bring the rule back"
		if o.Fits {
			remedy = "make it anew"
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
