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
	stamp    = "2006-01-02 15:04:05"
)

// Section is a part of a report: lines of text, or a table whose first row has the heads.
type Section struct {
	Title string
	Lines []string
	Rows  [][]string
}

// Of returns the report of a replay. limits describes the limits in words.
func Of(r *replay.Result, limits string) []Section {
	sum := [][]string{
		{limits, "number", "note"},
		{"requests", Count(r.Requests), "from " + r.From.Format(stamp) + " to " + r.To.Format(stamp) + " UTC, " + r.To.Sub(r.From).Round(time.Second).String()},
		{"allowed", Count(r.Allowed), percent(r.Allowed, r.Requests) + extra(r.Delayed, "delayed") + extra(r.Warned, "warned")},
		{"denied", Count(r.Denied), percent(r.Denied, r.Requests)},
		{"refused", Count(r.Refused), percent(r.Refused, r.Requests) + ", without a usable key or not admitted"},
		{"keys", Count(r.Keys), Count(r.DeniedKeys) + " denied"},
		{"peak arrivals/s", Count(r.PeakArrived.Requests), "at " + r.PeakArrived.At.Format(stamp)},
		{"peak passed/s", Count(r.PeakPassed.Requests), "at " + r.PeakPassed.At.Format(stamp)},
		{"memory", Count(r.Memory.States), "states, " + size(r.Memory.Bytes) + extra(int64(r.Memory.Evicted), "evicted for lack of room")},
	}
	if r.Refused == 0 {
		sum = slices.Delete(sum, 4, 5)
	}
	all := []Section{log(&r.Log), {"Requests", nil, sum}}
	all = add(all, "Limits: the most units of a key in a true window, and the promised bound", r.Limits, []string{"limit", "worst", "bound", "key", "at", "denied", "of these with room"}, len(r.Limits), func(l replay.Limit) []string {
		return []string{l.Rule + ": " + l.Limit, map[bool]string{true: "at least "}[l.LowerBound] + Count(l.WorstWindow), Count(l.Bound), shown(l.WorstKey), when(l.WorstAt), Count(l.Denied), Count(l.Undelivered)}
	})
	if len(r.Rules) > 1 || slices.ContainsFunc(r.Rules, func(r replay.Rule) bool { return r.Mode != "enforce" }) {
		all = add(all, "Rules", r.Rules, []string{"rule", "mode", "requests", "denied", "share", "keys", "denied keys"}, len(r.Rules), func(r replay.Rule) []string {
			return []string{r.Rule, r.Mode, Count(r.Requests), Count(r.Denied), percent(r.Denied, r.Requests), Count(r.Keys), Count(r.DeniedKeys)}
		})
	}
	all = add(all, "Keys with the most denials", r.TopDenied, []string{"key", "requests", "denied", "share", "first denied", "rule"}, max(r.DeniedKeys, len(r.TopDenied)), func(k replay.DeniedKey) []string {
		return []string{shown(k.Key), Count(k.Requests), Count(k.Denied), percent(k.Denied, k.Requests), when(k.First), k.Rule + map[bool]string{true: " (" + k.Mode + ")"}[k.Mode != "enforce"]}
	})
	worst := slices.DeleteFunc(slices.Clone(r.Series.Bins), func(b replay.Bin) bool { return b.Denied == 0 })
	slices.SortStableFunc(worst, func(a, b replay.Bin) int { return int(b.Denied - a.Denied) })
	all = add(all, fmt.Sprintf("Spans of %v with the most denials", time.Duration(r.Series.Seconds)*time.Second), worst, []string{"from", "requests", "denied", "share"}, len(worst), func(b replay.Bin) []string {
		return []string{time.Unix(b.From, 0).UTC().Format(stamp), Count(b.Allowed + b.Denied), Count(b.Denied), percent(b.Denied, b.Allowed+b.Denied)}
	})
	if c := r.Against; c != nil {
		all = append(all, Section{Title: "Against the other rules", Lines: []string{fmt.Sprintf("they allow %s and deny %s; %s are newly denied and %s newly allowed, of %s keys",
			Count(c.Allowed), Count(c.Denied), Count(c.NewlyDenied), Count(c.NewlyAllowed), Count(c.Keys))}})
		all = add(all, "Keys whose verdict changes", c.TopKeys, []string{"key", "newly denied", "newly allowed", "first"}, c.Keys, func(d replay.Difference) []string {
			return []string{shown(d.Key), Count(d.NewlyDenied), Count(d.NewlyAllowed), when(d.First)}
		})
	}
	if d := r.Recorded; d != nil {
		all = append(all, Section{Title: "Recorded decisions", Lines: []string{fmt.Sprintf("%s of %s are decided differently here", Count(d.Different), Count(d.Requests))}})
	}
	if len(r.Lacks) > 0 {
		all = append(all, Section{Title: "Rules use data that the log lacks; requests count as if they had none", Lines: r.Lacks})
	}
	return all
}

// OfAccuracy returns the comparison of the algorithms.
func OfAccuracy(r *replay.AccuracyResult) []Section {
	share := func(of float64) string { return fmt.Sprintf("%.3g %%", 100*of) }
	all := []Section{log(&r.Log)}
	all = add(all, fmt.Sprintf("%s requests of %s keys, for the quota and window of %s: the exact log denies %s (%s)", Count(r.Requests), Count(r.Keys), r.Limit, Count(r.ExactDenied), percent(r.ExactDenied, r.Requests)),
		r.Algorithms, []string{"algorithm", "differs", "false allow", "false deny", "worst excess", "admitted / exact", "differs / denied", "bytes a key"}, -1, func(a replay.Algorithm) []string {
			return []string{a.Limit, share(a.Differs), share(a.FalseAllow), share(a.FalseDeny), share(a.WorstExcess), fmt.Sprintf("%.3f", a.Admitted), fmt.Sprintf("%.2f", a.DiffersPerDenied), fmt.Sprintf("%.0f", a.BytesPerKey)}
		})
	return add(all, fmt.Sprintf("Estimates of a sliding counter, all requests counted and none denied: %s requests (%s) are over the limit", Count(r.OverLimit), percent(r.OverLimit, r.Requests)),
		r.Estimates, []string{"sub-windows", "wrong", "wrong / over the limit", "mean deviation of the rate"}, -1, func(e replay.Estimate) []string {
			return []string{strconv.Itoa(e.SubWindows), share(e.Wrong), fmt.Sprintf("%.2f", e.PerOver), share(e.Deviation)}
		})
}

// add adds a table of the first mostRows rows of list, unless list is empty, and the number of
// the others, of all in total. If all is not positive, it adds every row.
func add[T any](to []Section, title string, list []T, heads []string, all int, row func(T) []string) []Section {
	if len(list) == 0 {
		return to
	}
	s := Section{Title: title, Rows: [][]string{heads}}
	for i, of := range list {
		if i == mostRows && all > 0 {
			s.Rows = append(s.Rows, []string{"and " + Count(all-i) + " more"})
			break
		}
		s.Rows = append(s.Rows, row(of))
	}
	return append(to, s)
}

// log describes the files and what is wrong with their lines.
func log(of *arrivals.Report) (s Section) {
	s.Title = "Log"
	for _, f := range of.Files {
		s.Lines = append(s.Lines, fmt.Sprintf("%s: %s, %s lines", f.Name, f.Format, Count(f.Lines)))
	}
	if of.Broken > 0 {
		s.Lines = append(s.Lines, Count(of.Broken)+" broken lines are left out"+extra(of.Keyless, "without a value in the column that --key names"))
	}
	if of.Late > 0 {
		s.Lines = append(s.Lines, Count(of.Late)+" late lines are put in order"+extra(of.Misplaced, "are too far from their place, and take the time of the next line"))
	}
	for _, e := range of.Examples {
		s.Lines = append(s.Lines, fmt.Sprintf("  %s: %s %s", e.Place, e.Problem, e.Text))
	}
	return s
}

// Text returns a report as text. It has no character that a terminal would obey: texts of a log
// come from strangers.
func Text(all []Section) string {
	var b strings.Builder
	for i, s := range all {
		if i > 0 {
			b.WriteString("\n" + s.Title + "\n")
		}
		for _, line := range s.Lines {
			b.WriteString(strings.TrimRight(map[bool]string{true: "  "}[i > 0]+printable(line), " ") + "\n")
		}
		t := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
		for _, row := range s.Rows {
			for i := range row {
				row[i] = printable(row[i])
			}
			_, _ = fmt.Fprintln(t, "  "+strings.TrimRight(strings.Join(row, "\t"), "\t")) // a strings.Builder has no errors
		}
		_ = t.Flush()
	}
	return b.String()
}

// Count returns a number with commas.
func Count[T int | int64](n T) string {
	s := strconv.FormatInt(int64(n), 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// size returns an amount of memory.
func size(n int64) string {
	if n < 10_000 {
		return Count(n) + " B"
	}
	return Count(n/1000) + " kB"
}

// percent returns a share that is not 0 or 100 unless it is.
func percent(part, of int64) string {
	switch p := 100 * float64(part) / float64(max(of, 1)); {
	case part == 0:
		return "0 %"
	case p < 0.01:
		return "<0.01 %"
	case p > 99.99 && part < of:
		return ">99.99 %"
	default:
		return strconv.FormatFloat(p, 'g', 3, 64) + " %"
	}
}

func extra(n int64, what string) string {
	if n == 0 {
		return ""
	}
	return ", " + Count(n) + " " + what
}

func when(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format(stamp)
}

// shown returns a key for a table.
func shown(key string) string {
	if r := []rune(key); len(r) > 60 {
		return string(r[:60]) + "…"
	}
	return key
}

func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '\ufffd'
	}, s)
}
