// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"strings"

	"github.com/sluicegate/sluice/server/internal/workbench/replay"
)

// Accuracy returns the comparison of the algorithms as text.
func Accuracy(r *replay.AccuracyResult) string {
	var b strings.Builder
	writeLog(&b, &r.Log)
	fmt.Fprintf(&b, "\n%s requests of %s keys, for the quota and window of %s; the exact log denies %s (%s)\n",
		Count(r.Requests), Count(int64(r.Keys)), r.Limit, Count(r.ExactDenied), percent(r.ExactDenied, r.Requests))
	t := table(&b)
	rows(t, []any{"algorithm", "differs", "false allow", "false deny", "worst excess", "admitted / exact", "differs / denied", "bytes a key"})
	for _, a := range r.Algorithms {
		rows(t, []any{a.Limit, share(a.Differs), share(a.FalseAllow), share(a.FalseDeny), share(a.WorstExcess), fmt.Sprintf("%.3f", a.Admitted), fmt.Sprintf("%.2f", a.DiffersPerDenied), fmt.Sprintf("%.0f", a.BytesPerKey)})
	}
	_ = t.Flush() // a strings.Builder has no errors
	fmt.Fprintf(&b, "\nEstimates of a sliding counter, all requests counted and none denied: %s requests (%s) are over the limit\n", Count(r.OverLimit), percent(r.OverLimit, r.Requests))
	t = table(&b)
	rows(t, []any{"sub-windows", "wrong", "wrong / over the limit", "mean deviation of the rate"})
	for _, e := range r.Estimates {
		rows(t, []any{e.SubWindows, share(e.Wrong), fmt.Sprintf("%.2f", e.PerOver), share(e.Deviation)})
	}
	_ = t.Flush()
	return b.String()
}

// share returns a share with three digits.
func share(of float64) string { return fmt.Sprintf("%.3g %%", 100*of) }
