// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/workbench/replay"
	"github.com/sluicegate/sluice/server/internal/workbench/report"
)

// TestText: shares are not 0 or 100 % unless they are, tables end with the number of further
// rows, and what is missing has no section.
func TestText(t *testing.T) {
	t.Parallel()
	r := &replay.Result{Requests: 1_234_567, Allowed: 1_234_566, Denied: 1, Keys: 30, DeniedKeys: 30, To: time.Unix(90, 0)}
	for range 30 {
		r.TopDenied = append(r.TopDenied, replay.DeniedKey{Mode: "shadow", Rule: "a", Key: strings.Repeat("k", 99), Requests: 3, Denied: 1})
	}
	text := report.Text(report.Of(r, "100/min"))
	testkit.Contains(t, text, "1,234,567", ">99.99 %", "<0.01 %", "33.3 %", "and 20 more", "a (shadow)", strings.Repeat("k", 60)+"…")
	for _, not := range []string{"refused", "Limits", "Against", "Recorded", "Rules", strings.Repeat("k", 61)} {
		if strings.Contains(text, not) {
			t.Errorf("it has %q:\n%s", not, text)
		}
	}
}

// TestPage: a page without a result has no chart, and texts are escaped.
func TestPage(t *testing.T) {
	t.Parallel()
	page, err := report.Page([]report.Section{{Title: "<b>", Lines: []string{"<i>\x1b"}, Rows: [][]string{{"<u>"}, {"1"}}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	testkit.Contains(t, string(page), "<h2>&lt;b&gt;</h2>", "&lt;i&gt;\ufffd", "&lt;u&gt;")
	if strings.Contains(string(page), `id="chart"`) {
		t.Error("it has a chart")
	}
}
