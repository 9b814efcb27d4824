// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/sluicegate/sluice/server/internal/decided"
)

// writeLast writes the last decisions, one a line.
func writeLast(b *strings.Builder, l *decided.List) {
	if l == nil {
		return
	}
	b.WriteString("last decisions\n")
	for i := range l.Decisions {
		d := &l.Decisions[i]
		fmt.Fprintf(b, "  %s  %s %d  %s %s  %s: %s", d.Time.Format("2006-01-02T15:04:05.000Z"), printable(d.Verdict), d.Status,
			printable(d.Method), printable(d.Path), printable(levelOf(d.Rule, d.Level)), printable(d.Limit))
		if d.Remaining != nil {
			fmt.Fprintf(b, ", %d left", *d.Remaining)
		}
		if d.Mode != "enforced" {
			fmt.Fprintf(b, " (%s)", printable(strings.TrimSpace(d.Mode+" "+d.Candidate)))
		}
		if d.LimitVerdict != d.Verdict {
			fmt.Fprintf(b, "; this limit: %s", printable(d.LimitVerdict))
		}
		b.WriteByte('\n')
	}
	if l.Note != "" {
		fmt.Fprintf(b, "  %s\n", l.Note)
	} else if len(l.Decisions) == 0 {
		b.WriteString("  none\n")
	}
	if l.Unreadable > 0 {
		fmt.Fprintf(b, "  lines of the log that cannot be read: %d\n", l.Unreadable)
	}
}

// printable returns a text that is safe to show on a terminal.
func printable(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(text)
	}
	return text
}

// lines is printable for a text of several lines.
func lines(text string) string {
	all := strings.Split(text, "\n")
	for i := range all {
		all[i] = printable(strings.ReplaceAll(all[i], "\t", "  "))
	}
	return strings.Join(all, "\n")
}
