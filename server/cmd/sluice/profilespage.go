// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/sluicegate/sluice/internal/vector"
	"github.com/sluicegate/sluice/profile"
)

const profilesIntro = `# Platforms by name

A profile has the limits of a platform as sluice writes them, the answer of a denial, and the differences. ` + "`sluice profiles`" + ` lists
them, ` + "`sluice profiles NAME`" + ` shows one, and ` + "`sluice profiles --markdown`" + ` writes this page. A test compares it.

` + "```sh" + `
sluice serve --upstream http://127.0.0.1:3000 --like shopify-rest
` + "```" + `

In a file ` + "`like: NAME`" + ` replaces the limits of a rule. Such a rule also has the platform's status, answer, wait and requests in flight,
unless it sets its own. In a list of limits ` + "`{like: NAME}`" + ` adds the platform's limits alone:

` + "```" + `
rules:
  - {name: orders, by: header.X-Shop, like: shopify-rest}
  - {name: search, by: ip, limits: [{like: stripe}, 1000/day]}
` + "```" + `

Users of some platforms, such as nginx, choose the numbers. Their profiles have the numbers of the documentation. For other numbers copy
the limit's text from this page and change it. A Go program also uses that text: ` + "`sluice.MustParseLimit(\"2/s burst 40 leaky-bucket nodelay\")`" + `.

Each profile below lists decisions of its platform, from the platform's documentation or source. Tests compare the profile with these
decisions in memory, on Redis and, if the platform answers HTTP, through the gateway. Package ` + "`storetest`" + ` does so with any other store.
Over 10,000 random calls and more, the profiles also decide like a real nginx, uber-go itself, the script of RateLimitJ on a real Redis,
and the arithmetic of Guava and of redis-cell.

Without a profile so far: WarmUp of Sentinel, which has Guava's slope but sets its rate once a second.

`

// profilesPage returns docs/platforms.md.
func profilesPage() string {
	var b strings.Builder
	b.WriteString(profilesIntro)
	b.WriteString("| name | platform | limits |\n|---|---|---|\n")
	for _, p := range profile.All() {
		fmt.Fprintf(&b, "| [`%s`](#%s) | %s | `%s` |\n", p.Name, p.Name, p.Title, joinLimits(p.Limits, "`, `"))
	}
	for _, p := range profile.All() {
		fmt.Fprintf(&b, "\n## %s\n\n%s. [Source](%s).\n", p.Name, p.Title, p.Source)
		if lines := besideLimits(p); len(lines) > 0 {
			text := strings.Join(lines, "; ")
			fmt.Fprintf(&b, "%s%s.\n", strings.ToUpper(text[:1]), text[1:])
		}
		b.WriteString("\n```\n" + joinLimits(p.Limits, "\n") + "\n```\n")
		if p.Answer != "" {
			b.WriteString("\nIts `answer`:\n\n```yaml\n" + p.Answer + "```\n")
		}
		if len(p.Differs) > 0 {
			b.WriteString("\nDifferences:\n\n- " + strings.Join(p.Differs, "\n- ") + "\n")
		}
		for _, v := range vector.Of(p.Name) {
			fmt.Fprintf(&b, "\n%s:\n\n```\n%s\n```\n", v.Name, strings.Join(vectorLines(p, v), "\n"))
		}
	}
	return b.String()
}
