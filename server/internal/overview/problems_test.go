// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package overview_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/server/internal/history"
	"github.com/sluicegate/sluice/server/internal/outcome"
	"github.com/sluicegate/sluice/server/internal/overview"
)

// TestProblemsThresholds: a problem is reported from 5 % of requests and 3 of them, or half.
// Its cause is named if it explains half of the refusals, as other nodes may have other causes.
func TestProblemsThresholds(t *testing.T) {
	t.Parallel()
	cause := func(n uint64) []outcome.Cause { return []outcome.Cause{{Status: 401, Text: "no token", Recent: n}} }
	for _, c := range []struct {
		name   string
		counts history.Counts
		causes []outcome.Cause
		want   string // the texts, by "; "
	}{
		{"nothing", history.Counts{}, nil, ""},
		{"a stray one", history.Counts{Allowed: 30, Refused: 2}, cause(2), ""},
		{"5 %", history.Counts{Allowed: 57, Refused: 3}, cause(3), "3 of 60 requests got 401: no token"},
		{"less", history.Counts{Allowed: 58, Refused: 3}, cause(3), ""},
		{"2 of 2", history.Counts{Allowed: 2, UpstreamErrors: 2}, nil, "2 of 2 requests got an error of the upstream: 5xx, no answer, or a timeout"},
		{"several causes", history.Counts{Refused: 10}, cause(6), "10 of 10 requests were refused, most with 401: no token"},
		{"other nodes'", history.Counts{Refused: 103}, cause(3), "103 of 103 requests were refused with 400, 401 or 403"},
		{"largest first", history.Counts{Allowed: 5, Refused: 10, FailedOpen: 20}, cause(10), "20 of 35 requests passed without a limit, as the store was unavailable; 10 of 35 requests got 401: no token"},
	} {
		var got []string
		for _, p := range overview.Problems(c.counts, c.causes, nil) {
			got = append(got, p.Text)
		}
		if text := strings.Join(got, "; "); text != c.want {
			t.Errorf("%s: got %q, want %q", c.name, text, c.want)
		}
	}
	if got := overview.Problems(history.Counts{Refused: 9, Allowed: 1}, nil, []overview.Log{{"access log", errors.New("full")}}); len(got) != 2 || got[0].Text != "the access log cannot be written: full" {
		t.Errorf("got %+v", got)
	}
}
