// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/internal/vector"
	"github.com/sluicegate/sluice/profile"
	"github.com/sluicegate/sluice/server/internal/cli"
)

// TestProfilesDocument: docs/platforms.md is the output of --markdown.
func TestProfilesDocument(t *testing.T) {
	t.Parallel()
	got, _ := command(t, cli.OK, "profiles", "--markdown")
	want := testkit.ReadFile(t, "../../../docs/platforms.md")
	if got != string(want) {
		t.Error("docs/platforms.md is not what the profiles say; run go -C server run ./cmd/sluice profiles --markdown > docs/platforms.md")
	}
}

// TestProfiles: the list has every profile, and each of them is shown with its
// limits, its vectors and what differs.
func TestProfiles(t *testing.T) {
	t.Parallel()
	list, _ := command(t, cli.OK, "profiles")
	lines := strings.Split(strings.TrimSpace(list), "\n")
	all := profile.All()
	if len(lines) != len(all) || len(all) < 20 {
		t.Fatalf("%d lines of %d profiles", len(lines), len(all))
	}
	for i, p := range all {
		if fields := strings.Fields(lines[i]); fields[0] != p.Name || !strings.HasSuffix(lines[i], p.Title) {
			t.Errorf("line %q of %s", lines[i], p.Name)
		}
		shown, _ := command(t, cli.OK, "profiles", p.Name)
		parts := append([]string{p.Name + ": " + p.Title, p.Source, "--like " + p.Name}, p.Differs...)
		for _, l := range p.Limits {
			parts = append(parts, "  limit "+l.String()+": at most ")
		}
		for _, v := range vector.Of(p.Name) {
			parts = append(parts, v.Name, "  "+v.Steps[len(v.Steps)-1].String())
		}
		testkit.Contains(t, shown, parts...)
	}
}

func TestProfilesShow(t *testing.T) {
	t.Parallel()
	got, _ := command(t, cli.OK, "profiles", "github")
	const want = `github: GitHub REST API without a login: 60 an hour
  https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api
  limit 60/hour fixed-window anchor first: at most 120 requests in any hour
  a denial is answered by status 403
  at most 100 requests are in flight at once

Use it by --like github, or in a file:
  - {name: NAME, by: ip, like: github}

Its answer:
  content_type: application/json; charset=utf-8
  body: '{"message":"API rate limit exceeded","documentation_url":"https://docs.github.com/rest/overview/rate-limits-for-the-rest-api"}'
  fields:
    x-ratelimit-limit: "{limit}"
    x-ratelimit-remaining: "{remaining}"
    x-ratelimit-used: "{used}"
    x-ratelimit-reset: "{reset_unix}"
    x-ratelimit-resource: core

Differences:
  - GitHub answers 403 or 429; here it is 403
  - the secondary limits by points and by content are rules of their own: 900/min, and 80/min for POST, PATCH, PUT and DELETE
  - /rate_limit does not count there: write except_path: /rate_limit

GitHub: 60 in the hour that the first request begins
  at 17m0s: take 1, 60 times: all pass; 0 left, all of it after 1h0m0s
  at 1h16m0s: take 1: denied, fits 1m0s later; 0 left, all of it after 1m0s
  at 1h17m0s: take 1: passes; 59 left, all of it after 1h0m0s

GitHub: of 2 requests in flight, as of its 100
  with at most 2 in flight
  at 0s: take 1: passes; 1 left
  at 0s: take 1: passes; 0 left
  at 0s: take 1: denied, fits 1m0s later; 0 left
  at 1s: 1 ends; take 1: passes; 0 left
  at 1s: take 1: denied, fits 59s later; 0 left
`
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestProfilesRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"shopfy-rest"}, cli.Failed, `no platform is known as "shopfy-rest"; did you mean shopify-rest`},
		{[]string{"Shopify"}, cli.Failed, `no platform is known as "Shopify"; did you mean shopify-graphql or shopify-rest`},
		{[]string{"ftp"}, cli.Failed, `no platform is known as "ftp"; sluice profiles lists those there are`},
		{[]string{"github", "stripe"}, cli.Usage, "got 2"},
		{[]string{"github", "--markdown"}, cli.Usage, "--markdown writes all of them"},
		{[]string{"--all"}, cli.Usage, "unknown flag --all"},
	} {
		failsWith(t, c.code, c.want, append([]string{"profiles"}, c.args...)...)
	}
}

// TestLikeFlag: --like names a profile in place of limits.
func TestLikeFlag(t *testing.T) {
	t.Parallel()
	for _, p := range profile.All() {
		for _, upstream := range []string{"", "http://127.0.0.1:3000"} {
			args := []string{"--like", p.Name}
			if upstream != "" {
				args = append(args, "--upstream", upstream)
			}
			f, c, err := parseArgs(args)
			if err != nil {
				t.Errorf("%v: %v", args, err)
				continue
			}
			r := &c.Policy.Rules()[0]
			if len(c.Policy.Rules()) != 1 || r.Name != "gateway" || r.Status != p.Status || len(r.Levels[0].Limits) != len(p.Limits) || r.Levels[0].Limits[0].Limit != p.Limits[0] {
				t.Errorf("%v: got %+v\n%s", args, r, f.file)
			}
		}
	}
}
