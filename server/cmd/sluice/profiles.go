// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/internal/vector"
	"github.com/sluicegate/sluice/profile"
	"github.com/sluicegate/sluice/server/internal/cli"
)

func profilesCommand() cli.Command {
	return cli.Command{
		Name: "profiles", Args: "[NAME]", Summary: "list the platforms for --like", ArgWords: platformNames(),
		Doc: "lists the platforms for --like NAME and, in a file, like: NAME; with NAME it shows one of them: its limits, its responses, the differences from the platform, and the test vectors.",
		Flags: []cli.Flag{
			{Name: "markdown", Doc: "write all of them as docs/platforms.md has them"},
			jsonFlag,
		},
		Run: runProfiles,
	}
}

// runProfiles shows the profiles of platforms.
func runProfiles(_ context.Context, c *cli.Call) error {
	switch {
	case len(c.Args) > 1:
		return cli.Usagef("expected one name or none, got %d", len(c.Args))
	case c.Given("markdown") && (len(c.Args) == 1 || c.Given("json")):
		return cli.Usagef("--markdown writes all of them: expected neither a name nor --json")
	case c.Given("markdown"):
		return c.Print(profilesPage())
	}
	some := profile.All()
	if len(c.Args) == 1 {
		p, ok := profile.Get(c.Args[0])
		if !ok {
			return fmt.Errorf("no platform is known as %q%s", c.Args[0], orNearest(c.Args[0]))
		}
		some = []profile.Profile{p}
	}
	switch {
	case c.Given("json"):
		return c.JSON(profileDocs(some))
	case len(c.Args) == 1:
		return c.Print(profileText(some[0]))
	}
	return c.Print(profilesText())
}

// profileDoc is a profile as JSON.
type profileDoc struct {
	Name     string         `json:"name"`
	Title    string         `json:"title"`
	Source   string         `json:"source"`
	Limits   []sluice.Limit `json:"limits"`
	Status   int            `json:"status,omitempty"`
	MaxWait  float64        `json:"max_wait_seconds,omitempty"`
	InFlight int64          `json:"in_flight,omitempty"`
	Answer   string         `json:"answer,omitempty"`
	Differs  []string       `json:"differs"`
	Vectors  []vectorDoc    `json:"vectors"`
}

type vectorDoc struct {
	Name  string   `json:"name"`
	Steps []string `json:"steps"`
}

func profileDocs(all []profile.Profile) []profileDoc {
	docs := make([]profileDoc, len(all))
	for i, p := range all {
		d := profileDoc{Name: p.Name, Title: p.Title, Source: p.Source, Limits: p.Limits, Status: p.Status, MaxWait: p.MaxWait.Seconds(), InFlight: p.InFlight, Answer: p.Answer, Differs: append([]string{}, p.Differs...), Vectors: []vectorDoc{}}
		for _, v := range vector.Of(p.Name) {
			d.Vectors = append(d.Vectors, vectorDoc{v.Name, vectorLines(p, v)})
		}
		docs[i] = d
	}
	return docs
}

// orNearest suggests the profile with the most similar name.
func orNearest(name string) string {
	if names := profile.Meant(name); len(names) > 0 {
		return "; did you mean " + strings.Join(names, " or ")
	}
	return "; sluice profiles lists those there are"
}

func profilesText() string {
	all, widest := profile.All(), 0
	for _, p := range all {
		widest = max(widest, len(p.Name))
	}
	var b strings.Builder
	for _, p := range all {
		fmt.Fprintf(&b, "%-*s  %s\n", widest, p.Name, p.Title)
	}
	return b.String()
}

// profileText returns a profile as a page for a terminal.
func profileText(p profile.Profile) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n  %s\n", p.Name, p.Title, p.Source)
	for _, l := range p.Limits {
		fmt.Fprintf(&b, "  limit %v: %s\n", l, algo.WorstOf(l))
	}
	for _, line := range besideLimits(p) {
		b.WriteString("  " + line + "\n")
	}
	fmt.Fprintf(&b, "\nUse it by --like %s, or in a file:\n  - {name: NAME, by: ip, like: %s}\n", p.Name, p.Name)
	if p.Answer != "" {
		b.WriteString("\nIts answer:\n  " + strings.ReplaceAll(strings.TrimSuffix(p.Answer, "\n"), "\n", "\n  ") + "\n")
	}
	if len(p.Differs) > 0 {
		b.WriteString("\nDifferences:\n  - " + strings.Join(p.Differs, "\n  - ") + "\n")
	}
	for _, v := range vector.Of(p.Name) {
		b.WriteString("\n" + v.Name + "\n")
		for _, line := range vectorLines(p, v) {
			b.WriteString("  " + line + "\n")
		}
	}
	return b.String()
}

// besideLimits describes the parts of a profile that a rule gets beside the limits.
func besideLimits(p profile.Profile) (lines []string) {
	if p.Status > 0 {
		lines = append(lines, fmt.Sprintf("a denial is answered by status %d", p.Status))
	}
	if p.MaxWait > 0 {
		lines = append(lines, fmt.Sprintf("what does not fit is delayed by at most %v", p.MaxWait))
	}
	if p.InFlight > 0 {
		lines = append(lines, fmt.Sprintf("at most %d requests are in flight at once", p.InFlight))
	}
	return lines
}

// vectorLines returns the steps of a vector, after its limits if it has limits of its own.
func vectorLines(p profile.Profile, v vector.Vector) (lines []string) {
	if text := joinLimits(v.Limits, " and "); v.InFlight > 0 {
		lines = append(lines, fmt.Sprintf("with at most %d in flight", v.InFlight))
	} else if text != joinLimits(p.Limits, " and ") {
		lines = append(lines, "under "+text)
	}
	for _, s := range v.Steps {
		lines = append(lines, s.String())
	}
	return lines
}

func joinLimits[L fmt.Stringer](limits []L, between string) string {
	texts := make([]string, len(limits))
	for i, l := range limits {
		texts[i] = l.String()
	}
	return strings.Join(texts, between)
}

const profilesIntro = `# Platforms by name

A profile has the limits of a platform, its answer to a denied request, and the differences. ` + "`sluice profiles NAME`" + ` prints one.

` + "```sh" + `
sluice serve --upstream http://127.0.0.1:3000 --like shopify-rest
` + "```" + `

In a file ` + "`like: NAME`" + ` replaces the limits of a rule. The rule also has the status, the answer, the delay and the requests in flight of the
platform, unless it sets its own. In a list of limits ` + "`{like: NAME}`" + ` adds the limits alone:

` + "```" + `
rules:
  - {name: orders, by: header.X-Shop, like: shopify-rest}
  - {name: search, by: ip, limits: [{like: stripe}, 1000/day]}
` + "```" + `

The users of some platforms, such as nginx, choose the numbers: those of a profile come from the documentation. For other numbers copy the
text of the limit and change it. A Go program uses the same text: ` + "`sluice.MustParseLimit(\"2/s burst 40 leaky-bucket nodelay\")`" + `.

Tests compare each profile with decisions of its platform, in memory, on Redis and through the gateway. Package ` + "`storetest`" + ` does so
with any other store. The profiles also decide like a real nginx, uber-go itself, the script of RateLimitJ on a real Redis, and the
arithmetic of Guava and of redis-cell, over 10,000 random calls or more. WarmUp of Sentinel, which has Guava's slope but sets its rate
once a second, has no profile.

` + "`sluice profiles --markdown`" + ` writes this page.

| name, source | platform | limits | status of a denial | delay, requests in flight |
|---|---|---|---|---|
`

const profilesMiddle = `
## Answers, differences, decisions

Each profile unfolds to its ` + "`answer`" + `, the differences, and the decisions of the platform that it is tested with.
`

// profilesPage returns docs/platforms.md.
func profilesPage() string {
	var b strings.Builder
	b.WriteString(profilesIntro)
	for _, p := range profile.All() {
		status, further := "", ""
		if p.Status > 0 {
			status = strconv.Itoa(p.Status)
		}
		if p.MaxWait > 0 {
			further = fmt.Sprintf("up to %v", p.MaxWait)
		} else if p.InFlight > 0 {
			further = fmt.Sprintf("at most %d", p.InFlight)
		}
		fmt.Fprintf(&b, "| [`%s`](%s) | %s | `%s` | %s | %s |\n", p.Name, p.Source, p.Title, joinLimits(p.Limits, "`, `"), status, further)
	}
	b.WriteString(profilesMiddle)
	for _, p := range profile.All() {
		fmt.Fprintf(&b, "\n<details><summary><code>%s</code></summary>\n", p.Name)
		if p.Answer != "" {
			b.WriteString("\n```yaml\n" + p.Answer + "```\n")
		}
		if len(p.Differs) > 0 {
			b.WriteString("\nDifferences:\n\n- " + strings.Join(p.Differs, "\n- ") + "\n")
		}
		for _, v := range vector.Of(p.Name) {
			fmt.Fprintf(&b, "\n%s:\n\n```\n%s\n```\n", v.Name, strings.Join(vectorLines(p, v), "\n"))
		}
		b.WriteString("\n</details>\n")
	}
	return b.String()
}
