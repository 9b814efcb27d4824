// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/sluicegate/sluice/internal/profile"
)

const profilesIntro = `# Platforms by name

A profile says how a platform limits: its limits as sluice has them, what a denial is answered, and what differs. ` + "`sluice profiles`" + `
lists them and ` + "`sluice profiles NAME`" + ` says one; this page is ` + "`sluice profiles --markdown`" + `, which a test compares.

` + "```sh" + `
sluice serve --upstream http://127.0.0.1:3000 --like shopify-rest
` + "```" + `

In a file ` + "`like: NAME`" + ` stands in a rule, in the place of its limits. Such a rule has the platform's limits, and its status, its
answer, its wait and its requests in flight, where it does not say otherwise. Wherever limits stand, ` + "`{like: NAME}`" + ` stands for the
limits alone:

` + "```" + `
rules:
  - {name: orders, by: header.X-Shop, like: shopify-rest}
  - {name: search, by: ip, limits: [{like: stripe}, 1000/day]}
` + "```" + `

Of a platform whose numbers are its users', such as nginx, a profile has those of its documentation. For others take the limit's
text from here and change the numbers. In Go the limits are ` + "`profile.Get(\"shopify-rest\")`" + `.

Below each profile stands what its platform decides, as its documentation or its source has it. Tests hold the profile against that
in memory, on Redis and, where the platform answers HTTP, through the gateway, and so does package ` + "`storetest`" + ` with any other store. Beside
that, over 10,000 random calls and more, the profiles decide as these do: a real nginx, uber-go itself, the script of RateLimitJ on
a real Redis, and the arithmetic of Guava and of redis-cell.

Not expressed yet, and so without a name: WarmUp of Sentinel, which has Guava's slope but sets its rate once a second.

`

// profilesPage returns docs/platforms.md.
func profilesPage() string {
	var b strings.Builder
	b.WriteString(profilesIntro)
	b.WriteString("| name | platform | limits |\n|---|---|---|\n")
	for _, p := range profile.All() {
		fmt.Fprintf(&b, "| [`%s`](#%s) | %s | `%s` |\n", p.Name, p.Name, p.Title, strings.ReplaceAll(joinLimits(p.Limits), " and ", "`, `"))
	}
	for _, p := range profile.All() {
		fmt.Fprintf(&b, "\n## %s\n\n%s. [Source](%s).\n", p.Name, p.Title, p.Source)
		if lines := besideLimits(p); len(lines) > 0 {
			text := strings.Join(lines, "; ")
			fmt.Fprintf(&b, "%s%s.\n", strings.ToUpper(text[:1]), text[1:])
		}
		b.WriteString("\n```\n" + strings.ReplaceAll(joinLimits(p.Limits), " and ", "\n") + "\n```\n")
		if p.Answer != "" {
			b.WriteString("\nIts `answer`:\n\n```yaml\n" + p.Answer + "```\n")
		}
		if len(p.Differs) > 0 {
			b.WriteString("\nWhat differs:\n\n- " + strings.Join(p.Differs, "\n- ") + "\n")
		}
		for _, v := range p.Vectors {
			fmt.Fprintf(&b, "\n%s:\n\n```\n%s\n```\n", v.Name, strings.Join(vectorLines(p, v), "\n"))
		}
	}
	return b.String()
}
