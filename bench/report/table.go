// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// Column is one benchmark's unit in a table.
type Column struct {
	Title, Bench, Unit string
	Least              bool // show the least of all rounds, not the median
}

// Table writes one row per contender and one column per benchmark, as
// Markdown. Each cell is a median and, where base has measured too, its ratio
// to base in the same rounds. Contenders without a cell have no row.
func (s Set) Table(w io.Writer, title, base string, columns []Column) error {
	var rows [][]string
	for _, who := range s.rows(columns) {
		row := []string{who}
		for _, c := range columns {
			row = append(row, s.cell(c, who, base))
		}
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		return nil
	}
	head := []string{"who"}
	for _, c := range columns {
		head = append(head, c.Title)
	}
	return writeTable(w, title, head, rows)
}

func (s Set) rows(columns []Column) []string {
	var whos []string
	for _, c := range columns {
		for _, who := range s.Whos(c.Bench) {
			if !slices.Contains(whos, who) {
				whos = append(whos, who)
			}
		}
	}
	return whos
}

func (s Set) cell(c Column, who, base string) string {
	v, ok := s.Median(c.Bench, who, c.Unit)
	if c.Least {
		v, ok = s.Least(c.Bench, who, c.Unit)
	}
	if !ok {
		return "–"
	}
	if ratio, ok := s.Ratio(c.Bench, who, base, c.Unit); ok && !c.Least {
		return fmt.Sprintf("%s (%.2f×)", number(v), ratio)
	}
	return number(v)
}

// number writes v with three digits or so.
func number(v float64) string {
	switch a := math.Abs(v); {
	case a >= 100 || a == 0:
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	case a >= 0.01:
		return fmt.Sprintf("%.2f", v)
	default:
		return fmt.Sprintf("%.1g", v)
	}
}

// Goal is a figure that the project wants to reach. It is shown, not enforced.
type Goal struct {
	Title, Bench, Who, Unit string
	To                      string  // divide by this contender; empty for the value itself
	Invert                  bool    // To divided by Who: how many times faster Who is
	From                    string  // subtract this contender
	Least                   bool    // the least of all rounds in place of the median
	Want                    float64 // at most this; at least this if Invert
}

// Goals writes what was wanted beside what was measured. Goals of which
// nothing was measured are left out.
func (s Set) Goals(w io.Writer, goals []Goal) error {
	var rows [][]string
	for _, g := range goals {
		v, ok := s.measured(g)
		if !ok {
			continue
		}
		want, verdict := "≤ "+number(g.Want), "reached"
		if g.Invert {
			want = "≥ " + number(g.Want)
		}
		if g.Invert == (v < g.Want) && v != g.Want {
			verdict = "missed"
		}
		rows = append(rows, []string{g.Title, want, number(v), verdict})
	}
	if len(rows) == 0 {
		return nil
	}
	return writeTable(w, "Goals", []string{"what", "goal", "measured", ""}, rows)
}

// costs are the units that Changes compares: less is better.
var costs = []string{"ns/op", "cpu-ns/op", "client-s/100k", "redis-s/100k", "p50-µs", "p99-µs", "cpu-µs/req", "ms", "B/op", "allocs/op", "B/key"}

// Changes writes, for each contender whose name begins with now, what it costs
// of what the one whose name begins with before costs: ratios within a round,
// their median and the least and the largest of them.
func (s Set) Changes(w io.Writer, now, before string) error {
	var rows [][]string
	seen := make(map[[2]string]bool)
	for _, x := range s {
		rest, ok := strings.CutPrefix(x.Who, before)
		if !ok || seen[[2]string{x.Bench, rest}] {
			continue
		}
		seen[[2]string{x.Bench, rest}] = true
		for _, unit := range costs {
			if _, cpu := x.Values["cpu-ns/op"]; cpu && unit == "ns/op" {
				continue // a busy machine changes it
			}
			if all := s.pairs(x.Bench, now+rest, x.Who, unit, quotient); len(all) > 0 {
				middle, _ := median(all)
				rows = append(rows, []string{x.Bench, now + rest, unit, fmt.Sprintf("%.2f", middle), fmt.Sprintf("%.2f to %.2f", slices.Min(all), slices.Max(all))})
			}
		}
	}
	if len(rows) == 0 {
		return nil
	}
	return writeTable(w, "Of what it cost before", []string{"what", "who", "unit", "of before", "in the rounds"}, rows)
}

func (s Set) measured(g Goal) (float64, bool) {
	switch {
	case g.Invert:
		return s.Ratio(g.Bench, g.To, g.Who, g.Unit)
	case g.From != "":
		return s.Difference(g.Bench, g.Who, g.From, g.Unit)
	case g.To != "":
		return s.Ratio(g.Bench, g.Who, g.To, g.Unit)
	case g.Least:
		return s.Least(g.Bench, g.Who, g.Unit)
	default:
		return s.Median(g.Bench, g.Who, g.Unit)
	}
}

func writeTable(w io.Writer, title string, head []string, rows [][]string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "\n## %s\n\n", title)
	line := func(cells []string) { b.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	line(head)
	b.WriteString(strings.Repeat("|---", len(head)) + "|\n")
	for _, r := range rows {
		line(r)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
