// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/internal/profile"
)

const profilesUsage = `  sluice profiles [NAME] [--markdown]

lists the platforms whose limits have a name, for --like NAME and, in a file,
like: NAME; with NAME it says one of them: its limits, how it answers, what
differs from the platform, and the vectors that it is held against. With
--markdown it writes all of them as docs/platforms.md has them.
`

// runProfiles shows the profiles of platforms.
func runProfiles(args []string, stdout, stderr io.Writer) int {
	const markdown = "markdown"
	values, rest, err := splitArgs(args, []string{markdown})
	switch {
	case err != nil:
	case len(rest) > 1:
		err = fmt.Errorf("profiles: shows one profile or all, and there are %d names", len(rest))
	case len(rest) == 1 && values[markdown] != nil:
		err = errors.New("profiles: writes all of them with --markdown, and there is a name")
	}
	if err != nil {
		return usageError(stderr, err, profilesUsage)
	}
	switch {
	case values[markdown] != nil:
		_, err = io.WriteString(stdout, profilesPage())
	case len(rest) == 0:
		err = listProfiles(stdout)
	default:
		p, ok := profile.Get(rest[0])
		if !ok {
			say(stderr, fmt.Sprintf("sluice profiles: no platform is known as %q%s\n", rest[0], orNearest(rest[0])))
			return exitFailed
		}
		_, err = io.WriteString(stdout, profileText(p))
	}
	return ended(stderr, err)
}

// orNearest says which profile may have been meant.
func orNearest(name string) string {
	if names := profile.Meant(name); len(names) > 0 {
		return "; did you mean " + strings.Join(names, " or ")
	}
	return "; sluice profiles lists those there are"
}

func listProfiles(stdout io.Writer) error {
	all, widest := profile.All(), 0
	for _, p := range all {
		widest = max(widest, len(p.Name))
	}
	var b strings.Builder
	for _, p := range all {
		fmt.Fprintf(&b, "%-*s  %s\n", widest, p.Name, p.Title)
	}
	_, err := io.WriteString(stdout, b.String())
	return err
}

// profileText says a profile as a page for a terminal.
func profileText(p profile.Profile) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n  %s\n", p.Name, p.Title, p.Source)
	for _, l := range p.Limits {
		fmt.Fprintf(&b, "  limit %v: %s\n", l, algo.Worst(l))
	}
	for _, line := range besideLimits(p) {
		b.WriteString("  " + line + "\n")
	}
	fmt.Fprintf(&b, "\nUse it by --like %s, or in a file:\n  - {name: NAME, by: ip, like: %s}\n", p.Name, p.Name)
	if p.Answer != "" {
		b.WriteString("\nIts answer:\n  " + strings.ReplaceAll(strings.TrimSuffix(p.Answer, "\n"), "\n", "\n  ") + "\n")
	}
	if len(p.Differs) > 0 {
		b.WriteString("\nWhat differs:\n  - " + strings.Join(p.Differs, "\n  - ") + "\n")
	}
	for _, v := range p.Vectors {
		b.WriteString("\n" + v.Name + "\n")
		for _, line := range vectorLines(p, v) {
			b.WriteString("  " + line + "\n")
		}
	}
	return b.String()
}

// besideLimits says what a rule has of a profile beside the limits.
func besideLimits(p profile.Profile) (lines []string) {
	if p.Status > 0 {
		lines = append(lines, fmt.Sprintf("a denial is answered by status %d", p.Status))
	}
	if p.MaxWait > 0 {
		lines = append(lines, fmt.Sprintf("what does not fit is held back for at most %v", p.MaxWait))
	}
	if p.InFlight > 0 {
		lines = append(lines, fmt.Sprintf("at most %d requests are in flight at once", p.InFlight))
	}
	return lines
}

// vectorLines are the steps of a vector, behind its limits if they are others.
func vectorLines(p profile.Profile, v profile.Vector) (lines []string) {
	if text := joinLimits(v.Limits); v.InFlight > 0 {
		lines = append(lines, fmt.Sprintf("with at most %d in flight", v.InFlight))
	} else if text != joinLimits(p.Limits) {
		lines = append(lines, "under "+text)
	}
	for _, s := range v.Steps {
		lines = append(lines, s.String())
	}
	return lines
}

func joinLimits(limits []sluice.Limit) string {
	texts := make([]string, len(limits))
	for i, l := range limits {
		texts[i] = l.String()
	}
	return strings.Join(texts, " and ")
}
