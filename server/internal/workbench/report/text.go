// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package report writes the results of a replay for people: as text, and as a page.
package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/sluicegate/sluice/server/internal/workbench/arrivals"
	"github.com/sluicegate/sluice/server/internal/workbench/replay"
)

const (
	mostRows = 10 // of a table
	seconds  = "2006-01-02 15:04:05"
)

// Text returns a result as text. Limits are what was tried, in words.
func Text(r *replay.Result, limits string) string {
	var b strings.Builder
	writeLog(&b, &r.Log)
	fmt.Fprintf(&b, "from %s to %s UTC, %v\n\n%s\n", r.From.Format(seconds), r.To.Format(seconds), r.To.Sub(r.From).Round(time.Second), limits)
	t := table(&b)
	rows(t, []any{"requests", Count(r.Requests)}, []any{"allowed", Count(r.Allowed) + extra(r.Delayed, "delayed") + extra(r.Warned, "warned"), percent(r.Allowed, r.Requests)})
	rows(t, []any{"denied", Count(r.Denied), percent(r.Denied, r.Requests)})
	if r.Refused > 0 {
		rows(t, []any{"refused", Count(r.Refused), percent(r.Refused, r.Requests), "no usable key, or not admitted"})
	}
	if r.Failed > 0 {
		rows(t, []any{"failed", Count(r.Failed), percent(r.Failed, r.Requests)})
	}
	rows(t, []any{"keys", Count(int64(r.Keys)), fmt.Sprintf("%s denied", Count(int64(r.DeniedKeys)))})
	rows(t, []any{"peak a second", Count(r.PeakArrived.Requests) + " come", "at " + r.PeakArrived.At.Format(seconds)})
	rows(t, []any{"", Count(r.PeakPassed.Requests) + " pass", "at " + r.PeakPassed.At.Format(seconds)})
	rows(t, []any{"memory", Bytes(r.Memory.Bytes), fmt.Sprintf("%s states", Count(int64(r.Memory.States))) + extra(int64(r.Memory.Evicted), "evicted for lack of room")})
	_ = t.Flush() // a strings.Builder has no errors
	writeLimits(&b, r.Limits)
	writeRules(&b, r.Rules)
	writeKeys(&b, r)
	writeSeries(&b, r)
	writeComparison(&b, r)
	if d := r.Recorded; d != nil {
		fmt.Fprintf(&b, "\nrecorded decisions: %s of %s are decided differently here\n", Count(d.Different), Count(d.Requests))
	}
	for i, what := range r.Lacks {
		if i == 0 {
			b.WriteString("\nRules ask for what the log does not have; these requests count as without it:\n")
		}
		b.WriteString("  " + what + "\n")
	}
	return b.String()
}

// writeLog describes the files and what is wrong with their lines.
func writeLog(b *strings.Builder, log *arrivals.Report) {
	for _, f := range log.Files {
		fmt.Fprintf(b, "%s: %s, %s lines\n", Printable(f.Name), f.Format, Count(f.Lines))
	}
	if log.Broken > 0 {
		fmt.Fprintf(b, "%s broken lines are left out\n", Count(log.Broken))
	}
	if log.Late > 0 {
		fmt.Fprintf(b, "%s late lines are put in order%s\n", Count(log.Late), extra(log.Misplaced, "too far from their place, and moved to the line before which they come"))
	}
	for _, e := range log.Examples {
		fmt.Fprintf(b, "  %s: %s%s\n", Printable(e.Place), e.Problem, optional(": ", Printable(e.Text)))
	}
}

func writeLimits(b *strings.Builder, limits []replay.Limit) {
	if len(limits) == 0 {
		return
	}
	b.WriteString("\nLimits: the most units of a key in a true window, and what is promised\n")
	t := table(b)
	rows(t, []any{"limit", "worst", "bound", "key", "until", "denied", "although there was room"})
	for i, l := range limits {
		if i == mostRows {
			rows(t, []any{fmt.Sprintf("and %d more", len(limits)-i)})
			break
		}
		worst, until := Count(l.WorstWindow), l.WorstAt.Format(seconds)
		if l.LowerBound {
			worst = "at least " + worst
		}
		if l.WorstWindow == 0 {
			until = ""
		}
		rows(t, []any{l.Rule + ": " + l.Limit, worst, Count(l.Bound), shown(l.WorstKey), until, Count(l.Denied), Count(l.Undelivered)})
	}
	_ = t.Flush()
}

func writeRules(b *strings.Builder, rules []replay.Rule) {
	if len(rules) < 2 && !slices.ContainsFunc(rules, func(r replay.Rule) bool { return r.Mode != "enforce" }) {
		return
	}
	b.WriteString("\nRules\n")
	t := table(b)
	rows(t, []any{"rule", "mode", "requests", "denied", "", "keys", "denied"})
	for _, r := range rules {
		rows(t, []any{r.Rule, r.Mode, Count(r.Requests), Count(r.Denied), percent(r.Denied, r.Requests), Count(int64(r.Keys)), Count(int64(r.DeniedKeys))})
	}
	_ = t.Flush()
}

func writeKeys(b *strings.Builder, r *replay.Result) {
	if len(r.TopDenied) == 0 {
		return
	}
	b.WriteString("\nDenied keys, those with the most denials\n")
	t := table(b)
	rows(t, []any{"key", "requests", "denied", "", "first denied", "rule"})
	for i, k := range r.TopDenied {
		if i == mostRows {
			rows(t, []any{fmt.Sprintf("and %s more", Count(int64(max(r.DeniedKeys, len(r.TopDenied))-i)))})
			break
		}
		rule := k.Rule
		if k.Mode != "enforce" {
			rule += " (" + k.Mode + ")"
		}
		rows(t, []any{shown(k.Key), Count(k.Requests), Count(k.Denied), percent(k.Denied, k.Requests), k.First.Format(seconds), rule})
	}
	_ = t.Flush()
}

// writeSeries writes the spans with the most denials, in the order of time.
func writeSeries(b *strings.Builder, r *replay.Result) {
	var worst []replay.Bin
	for _, bin := range r.Series.Bins {
		if bin.Denied > 0 {
			worst = append(worst, bin)
		}
	}
	if len(worst) == 0 {
		return
	}
	slices.SortStableFunc(worst, func(a, b replay.Bin) int { return int(b.Denied - a.Denied) })
	worst = worst[:min(len(worst), mostRows)]
	slices.SortFunc(worst, func(a, b replay.Bin) int { return int(a.From - b.From) })
	fmt.Fprintf(b, "\nSpans of %v with the most denials\n", time.Duration(r.Series.Seconds)*time.Second)
	t := table(b)
	rows(t, []any{"from", "requests", "denied", ""})
	for _, bin := range worst {
		rows(t, []any{time.Unix(bin.From, 0).UTC().Format(seconds), Count(bin.Allowed + bin.Denied), Count(bin.Denied), percent(bin.Denied, bin.Allowed+bin.Denied)})
	}
	_ = t.Flush()
}

func writeComparison(b *strings.Builder, r *replay.Result) {
	c := r.Against
	if c == nil {
		return
	}
	fmt.Fprintf(b, "\nAgainst the other rules, which allow %s and deny %s: %s requests are newly denied, %s newly allowed, of %s keys\n",
		Count(c.Allowed), Count(c.Denied), Count(c.NewlyDenied), Count(c.NewlyAllowed), Count(int64(c.Keys)))
	if len(c.TopKeys) == 0 {
		return
	}
	t := table(b)
	rows(t, []any{"key", "newly denied", "newly allowed", "first"})
	for i, d := range c.TopKeys {
		if i == mostRows {
			rows(t, []any{fmt.Sprintf("and %s more", Count(int64(c.Keys-i)))})
			break
		}
		rows(t, []any{shown(d.Key), Count(d.NewlyDenied), Count(d.NewlyAllowed), d.First.Format(seconds)})
	}
	_ = t.Flush()
}

func table(b *strings.Builder) *tabwriter.Writer { return tabwriter.NewWriter(b, 0, 0, 2, ' ', 0) }

// rows writes rows of cells, each indented.
func rows(t *tabwriter.Writer, all ...[]any) {
	for _, row := range all {
		for _, cell := range row {
			_, _ = fmt.Fprintf(t, "  %v\t", cell) // a strings.Builder has no errors
		}
		_, _ = fmt.Fprintln(t)
	}
}

// Count returns a number with commas.
func Count(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Bytes returns an amount of memory.
func Bytes(n int64) string {
	switch {
	case n < 10_000:
		return Count(n) + " B"
	case n < 10_000_000:
		return Count(n/1000) + " kB"
	}
	return Count(n/1_000_000) + " MB"
}

// percent returns a share that is not 0 or 100 unless it is.
func percent(part, of int64) string {
	p := 100 * float64(part) / float64(max(of, 1))
	switch {
	case part == 0:
		return "0 %"
	case p < 0.01:
		return "<0.01 %"
	case p > 99.99 && part < of:
		return ">99.99 %"
	}
	return strconv.FormatFloat(p, 'g', 3, 64) + " %"
}

func extra(n int64, what string) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", %s %s", Count(n), what)
}

func optional(before, text string) string {
	if text == "" {
		return ""
	}
	return before + text
}

// shown returns a key for a table.
func shown(key string) string {
	if r := []rune(key); len(r) > 60 {
		key = string(r[:60]) + "…"
	}
	return Printable(key)
}

// Printable returns a text without characters that a terminal would obey, or that would break
// a line: texts of a log come from strangers.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '\ufffd'
	}, s)
}
