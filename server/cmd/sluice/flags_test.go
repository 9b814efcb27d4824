// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/redisstore/redisurl"
	"github.com/sluicegate/sluice/server/internal/cli"
)

// reported returns the tested settings of a configuration, in a line.
func reported(c *config.Config) string {
	var b strings.Builder
	for i := range c.Listen {
		fmt.Fprintf(&b, "listen %s; ", c.Listen[i].Address)
	}
	for i := range c.Upstreams {
		fmt.Fprintf(&b, "upstream %v own host %v; ", c.Upstreams[i].URL, c.Upstreams[i].UpstreamHost)
	}
	fmt.Fprintf(&b, "admin %s public %v hosts %v files %q %q; store %q state %q; trust %v; fields %v",
		c.Admin.Address, c.Admin.Public, c.Admin.Hosts, c.Admin.OverridesFile, c.Admin.AuditFile, c.Store.Redis, c.Store.State, c.ClientIP.Trusted, c.Fields)
	for _, r := range c.Policy.Rules() {
		l := r.Levels[0]
		fmt.Fprintf(&b, "; %s by %v: %v", r.Name, l.By, l.Limits)
		if len(l.Blocks) > 0 {
			fmt.Fprintf(&b, " %v", l.Blocks)
		}
		fmt.Fprintf(&b, ", costs %v, failure %v", r.Cost.Of, r.Failure)
	}
	return b.String()
}

func TestParseServe(t *testing.T) {
	t.Parallel()
	const admin = "admin 127.0.0.1:9090 public false hosts [] files \"\" \"\"; "
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{
			"sample app", nil,
			"listen 127.0.0.1:8080; " + admin + `store "" state ""; trust []; fields [draft-11 x-ratelimit]; gateway by [query.userId]: [10/min sliding-log], costs 0, failure open`,
		},
		{
			"upstream",
			[]string{"--upstream", "http://x:3000", "--limit", "5/s"},
			"listen 127.0.0.1:8080; upstream http://x:3000 own host false; " + admin + `store "" state ""; trust []; fields [draft-11]; gateway by [ip]: [5/s], costs 0, failure open`,
		},
		{
			"everything",
			[]string{
				"--upstream=http://x:3000", "--limit=5/s", "--limit", "100MB/min sliding-counter", "--by", "path.2", "--by=header.X-A",
				"--by", "cookie.c", "--by", "query.q", "--by", "host", "--by", "ip", "--trust", "10.1.2.3/8", "--trust", "127.0.0.1",
				"--fields", "x-ratelimit-epoch, draft-11", "--admin", "off", "--drain", "1m", "--state", "x.state", "--upstream-host",
				"--listen", "0.0.0.0:80", "--overrides", "o.json", "--audit", "a.jsonl",
			},
			`listen 0.0.0.0:80; upstream http://x:3000 own host true; admin off public false hosts [] files "o.json" "a.jsonl"; store "" state "x.state"; ` +
				`trust [10.0.0.0/8 127.0.0.1/32]; fields [x-ratelimit-epoch draft-11]; ` +
				`gateway by [path.2 header.X-A cookie.c query.q host ip]: [5/s], costs 0, failure open; ` +
				`gateway.bytes by [path.2 header.X-A cookie.c query.q host ip]: [100MB/min sliding-counter], costs 2, failure open`,
		},
		{
			"blocks, of both units",
			[]string{"--limit=1KB/s", "--limit=5/s", "--block", "1min after 9 denials/s", "--block=long: 1h after 9 denials/h"},
			"listen 127.0.0.1:8080; " + admin + `store "" state ""; trust []; fields [draft-11 x-ratelimit]; ` +
				`gateway by [query.userId]: [5/s] [9/s block 1min long: 9/hour block 1hour], costs 0, failure open; ` +
				`gateway.bytes by [query.userId]: [1KB/s] [9/s block 1min long: 9/hour block 1hour], costs 2, failure open`,
		},
		{
			"bytes alone, in a shared store",
			[]string{"--limit=1KB/s", "--store=redis://h:1/2?prefix=p", "--failure=local"},
			"listen 127.0.0.1:8080; " + admin + `store "redis://h:1/2?prefix=p" state ""; trust []; fields [draft-11 x-ratelimit]; gateway.bytes by [query.userId]: [1KB/s], costs 2, failure local`,
		},
		{
			"a name of its own",
			[]string{"--limit=1KB/s", "--limit=5/s", "--name=shop"},
			"listen 127.0.0.1:8080; " + admin + `store "" state ""; trust []; fields [draft-11 x-ratelimit]; ` +
				`shop by [query.userId]: [5/s], costs 0, failure open; shop.bytes by [query.userId]: [1KB/s], costs 2, failure open`,
		},
		{
			"public admin",
			[]string{"--admin", ":9090", "--admin-public", "--admin-host", "Sluice"},
			`listen 127.0.0.1:8080; admin :9090 public true hosts [sluice] files "" ""; store "" state ""; trust []; fields [draft-11 x-ratelimit]; gateway by [query.userId]: [10/min sliding-log], costs 0, failure open`,
		},
		{
			"admin by a name", // the address from the look-up is the one listened on
			[]string{"--admin", "localhost:9090"},
			strings.Replace("listen 127.0.0.1:8080; "+admin+`store "" state ""; trust []; fields [draft-11 x-ratelimit]; gateway by [query.userId]: [10/min sliding-log], costs 0, failure open`, "[]", "[localhost]", 1),
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, got, err := parseArgs(c.args)
			if err != nil {
				t.Fatal(err)
			}
			if reported(got) != c.want {
				t.Errorf("got\n%s\nwant\n%s", reported(got), c.want)
			}
			if want := map[bool]time.Duration{true: time.Minute, false: 30 * time.Second}[c.name == "everything"]; f.drain != want {
				t.Errorf("drain %v, want %v", f.drain, want)
			}
		})
	}
}

// TestParseServeNamesEveryFault: each fault is one line that names the flag
// and says what to write.
func TestParseServeNamesEveryFault(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		args []string
		want []string // what the lines hold, in order
	}{
		{"limit that cannot be read", []string{"--limit", "10/minn"}, []string{`--limit "10/minn": "minn" is not a window; use a number and one of us, ms, s, min, h, day, week, or month and year with a calendar (column 4)`}},
		{"limit that makes no sense", []string{"--limit", "0/min"}, []string{`--limit "0/min" admits nothing; use deny`}},
		{"limit with two faults", []string{"--limit", "0/367day"}, []string{`--limit "0/367day": `}},
		{"limit of nothing", []string{"--limit", ""}, []string{`--limit "": no limit; use a quota and a window, such as 100/min`}},
		{"limits of one name", []string{"--limit", "5/min", "--limit", "9/min"}, []string{`--limit: two limits have the name "token-bucket.min" and would count in one state; give one a name of its own, such as "second: 9/min"`}},
		{"limit of a platform", []string{"--limit", "Shopify-REST", "--limit", "5/s"}, []string{`--limit "Shopify-REST": is a platform; use --like shopify-rest`}},
		{"like nobody", []string{"--like", "shopfy-rest"}, []string{`--like: no platform is known as "shopfy-rest"; use shopify-rest`}},
		{"like several", []string{"--like", "nginx", "--like", "github"}, []string{"--like: given twice; it has one value"}},
		{"like and a limit", []string{"--like", "nginx", "--limit", "1/s"}, []string{"--limit and --like exclude each other; leave one out, or write both into a file, as limits: [{like: nginx}, 1/s]"}},
		{"like beside a file", []string{"--like", "nginx", "--config", "x"}, []string{"--like: does not go with --config"}},
		{"limit beside a file", []string{"--config", "x", "--limit", "1/s"}, []string{"--limit: does not go with --config"}},
		{"no limit for an upstream", []string{"--upstream", "http://x"}, []string{"--limit: there is none; use for example --limit 100/min"}},
		{"limits without end", slices.Repeat([]string{"--limit", "x"}, 30), slices.Repeat([]string{`--limit "x"`}, 30)},
		{"upstream without a scheme", []string{"--upstream", "localhost:3000", "--limit", "1/s"}, []string{`--upstream "localhost:3000" does not begin with http://, https:// or h2c://; use for example http://127.0.0.1:3000`}},
		{"upstream that is the gateway", []string{"--upstream", "http://127.0.0.1:8080", "--limit", "1/s"}, []string{"--upstream: 127.0.0.1:8080 is an address of sluice itself, so requests would loop; use the service's own address"}},
		{"parts that are none", []string{"--by", "foo", "--by", "header.", "--by", "path.0", "--by", "path.x", "--by", "ip.1", "--by", ""}, []string{
			`--by: unknown key part "foo"; use ip, ip/24/48, header.NAME, `, `--by: "header." lacks a name; use header.NAME`,
			`--by: "0" is not the number of a segment; use path.1 for the first`, `--by: the rule has no path pattern; match a path with the wildcard {x}`, `--by: unknown key part "ip.1"`, `--by: unknown key part ""`,
		}},
		{"header that cannot be", []string{"--by", "header.a b"}, []string{`--by: "a b" is not a header field's name`}},
		{"blocks that are none", []string{"--block", "soon", "--block", "1min after 0 denials/s"}, []string{`--block "soon": the number of denials is missing`, `--block "1min after 0 denials/s": quota: 0 must be 1 to`}},
		{"a block as a limit", []string{"--limit", "20/min block 1h"}, []string{`--limit: a block is not a limit; use block: in the rule, such as block: 10min after 20 denials/min`}},
		{"part twice", []string{"--by", "ip", "--by", "ip"}, []string{`--by: ip is a part of the key already; leave it out`}},
		{"networks that are none", []string{"--trust", "10.0.0.0/40", "--trust", "all"}, []string{`--trust: "10.0.0.0/40" is not a network; use an address with the length of its prefix, such as 10.0.0.0/8`, `--trust: "all" is not a network`}},
		{"addresses that are none", []string{"--listen", "80", "--admin", "x"}, []string{`--admin: "x" is not an address; use for example 127.0.0.1:9090`, `--listen is "80"; use a host and a port, such as 127.0.0.1:8080`}},
		{"admin for everybody", []string{"--admin", "0.0.0.0:9999"}, []string{`--admin "0.0.0.0:9999": other machines can reach this address; use for example 127.0.0.1:9999, or add --admin-public`}},
		{"admin where clients are", []string{"--listen", "127.0.0.1:9090"}, []string{`--admin: 127.0.0.1:9090 is the address of a listener, too; give it another port`}},
		{"fields that are none", []string{"--fields", "draft-12"}, []string{`--fields is "draft-12"; use one of draft-11, x-ratelimit, x-ratelimit-epoch, none`}},
		{"fields that exclude each other", []string{"--fields", "none,draft-11"}, []string{`--fields exclude each other; use none without others`}},
		{"durations that are none", []string{"--drain", "30"}, []string{`--drain "30": is not a duration from 0s to 24h; use for example 30s`}},
		{"names that are none", []string{"--name", "Shop"}, []string{`--name: "Shop" must be 1 to 64 of a-z, 0-9, '.', '_' and '-'`}},
		{"no name", []string{"--name", ""}, []string{"--name is empty; leave it out, or write something"}},
		{"no file", []string{"--state", ""}, []string{"--state is empty"}},
		{"unknown flags and what stands behind them", []string{"--lmit", "5/min", "--zzz=1", "--by", "foo"}, []string{
			"unknown flag --lmit; did you mean --limit", `--by: unknown key part "foo"`,
		}},
		{"words without a flag", []string{"--limit", "10/min", "sliding-log", "--by", "foo"}, []string{`unexpected "sliding-log"; every value has its flag before it, in quotes`, `--by: unknown key part "foo"`}},
		{"flags twice", []string{"--listen", "127.0.0.1:1", "--listen", "127.0.0.1:2"}, []string{"--listen: given twice"}},
		{"value missing", []string{"--limit"}, []string{"--limit: expected a value: --limit TEXT"}},
		{"not even a flag", []string{"--=x", "---", "--by", "foo"}, []string{"bad flag syntax: --=x"}},
		{"one dash", []string{"-limit=5/s"}, []string{"unknown flag -limit; did you mean --limit"}},
		{"switch that is neither on nor off", []string{"--admin-public=maybe"}, []string{"--admin-public: expected no value, or true or false"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := parseArgs(c.args)
			if err == nil {
				t.Fatal("no error")
			}
			lines := strings.Split(err.Error(), "\n")
			if len(lines) != len(c.want) {
				t.Fatalf("%d lines, want %d:\n%v", len(lines), len(c.want), err)
			}
			for i, line := range lines {
				testkit.Contains(t, line, c.want[i])
			}
		})
	}
}

func TestStoreFlags(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"password", []string{"--store", "redis://me:hunter2@h"}, redisurl.PasswordVariable},
		{"not a URL", []string{"--store", "hunter2"}, "must begin with"},
		{"policy", []string{"--store", "redis://h", "--failure", "maybe"}, `--failure is "maybe"; use one of open, local, closed`},
		{"failure without store", []string{"--failure", "open"}, "add --store redis://HOST"},
		{"state with store", []string{"--store", "redis://h", "--state", "f"}, "--state: is for the store in memory"},
		{"twice", []string{"--store", "redis://h", "--store", "redis://me:hunter2@i"}, "--store: given twice"},
		{"one dash", []string{"-store=redis://me:hunter2@h"}, "unknown flag -store; did you mean --store"},
		{"one letter too many", []string{"--storee=redis://me:hunter2@h"}, "unknown flag --storee; did you mean --store"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := parseArgs(c.args)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error %v, want one with %q", err, c.want)
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the password is reported: %v", err)
			}
		})
	}
}

// parseArgs reads the flags of serve as the program does.
func parseArgs(args []string) (*serveFlags, *config.Config, error) {
	var f *serveFlags
	var c *config.Config
	var err error
	p := cli.Program{Name: "sluice", Commands: []cli.Command{{Name: "serve", Flags: serveFlagTable(), KeepFaults: true, Run: func(_ context.Context, call *cli.Call) error {
		f, c, err = parseServe(call.Values, call.Args, call.Faults)
		return nil
	}}}}
	var stderr strings.Builder
	if code := p.Run(context.Background(), append([]string{"serve"}, args...), strings.NewReader(""), io.Discard, &stderr); code != cli.OK {
		err = errors.New(strings.TrimSuffix(stderr.String(), "\nsee sluice serve --help\n"))
	}
	return f, c, err
}

func TestHelpIsNotAFault(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--help"}, {"-h"}, {"-help"}, {"--limit", "x", "--help"}, {"--help", "--lmit"}} {
		if out, _ := command(t, cli.OK, append([]string{"serve"}, args...)...); !strings.Contains(out, "--print-config") {
			t.Errorf("%q: %s", args, out)
		}
	}
}

// TestHelpIsTrue: every limit text in the help is valid.
func TestHelpIsTrue(t *testing.T) {
	t.Parallel()
	_, limits, _ := strings.Cut(serveDoc, "Limits:\n\n")
	limits, _, _ = strings.Cut(limits, "\n\n")
	n := 0
	for line := range strings.Lines(limits) {
		text, _, _ := strings.Cut(strings.TrimSpace(line), "   ")
		if _, err := sluice.ParseLimit(text); err != nil {
			t.Error(err)
		}
		n++
	}
	if n < 9 {
		t.Errorf("%d limits in the help", n)
	}
}

// TestPrintedFile: for any flags, the printed file is the configuration that is served.
func TestPrintedFile(t *testing.T) {
	texts := rapid.StringMatching(`[ -~é\x{1F600}\n]{0,12}`)
	values := map[string]*rapid.Generator[string]{
		"listen":     rapid.SampledFrom([]string{"127.0.0.1:0", "[::1]:80", ":8081"}),
		"upstream":   rapid.SampledFrom([]string{"http://127.0.0.1:3000", "https://x/a?", "http://[::1]:1"}),
		"admin":      rapid.SampledFrom([]string{"off", "127.0.0.1:9091", "[::1]:1"}),
		"admin-host": rapid.SampledFrom([]string{"sluice", "a.example.com"}),
		"fields":     rapid.SampledFrom([]string{"none", "draft-11", "x-ratelimit-epoch,draft-11", "both"}),
		"name":       rapid.SampledFrom([]string{"shop", "a.b", "x: y", "Up", ""}),
		"state":      texts, "overrides": texts, "audit": texts,
		"store":   rapid.SampledFrom([]string{"redis://h", "redis-cluster://[::1]:1,h2?prefix=a: b", "rediss://u@h?ca_file=a # b&timeout=5ms"}),
		"failure": rapid.SampledFrom([]string{"open", "local", "closed"}),
		"limit":   rapid.SampledFrom([]string{"10/min", "a: 5/s burst 20", "1MB/min debt 1KB", "second: 1000/day calendar Asia/Seoul", "null"}),
		"by":      rapid.SampledFrom([]string{"ip", "ip/24/48", "host", "method", "path.2", "header.X-User", "query.a&b: 'c'", "query.#", "cookie.c", "query.-", "query.null"}),
		"trust":   rapid.SampledFrom([]string{"10.1.2.3/8", "::1", "127.0.0.1"}),
	}
	read := 0
	rapid.Check(t, func(t *rapid.T) {
		var args []string
		for _, flag := range serveFlagTable() {
			name := flag.Name
			value := values[name]
			if value == nil {
				continue
			}
			most := 1
			if flag.Repeat {
				most = 3
			}
			for range rapid.IntRange(0, most).Draw(t, name) {
				args = append(args, "--"+name+"="+value.Draw(t, "value"))
			}
		}
		f, c, err := parseArgs(args)
		if err != nil {
			return
		}
		read++
		printed, err := config.Parse("printed.yaml", []byte(f.file))
		if err != nil {
			t.Fatalf("%q: %v\n%s", args, err, f.file)
		}
		if reported(printed) != reported(c) || printed.Version != c.Version {
			t.Fatalf("%q: got\n%s\nwant\n%s\n%s", args, reported(printed), reported(c), f.file)
		}
		for _, name := range []string{"state", "overrides", "audit", "store"} {
			in := map[string]string{"state": c.Store.State, "overrides": c.Admin.OverridesFile, "audit": c.Admin.AuditFile, "store": c.Store.Redis}[name]
			if got := f.One(name); got != in {
				t.Fatalf("--%s %q: got %q", name, got, in)
			}
		}
	})
	if read == 0 {
		t.Error("no flags could be read")
	}
}

// FuzzParseServe: whatever the flags hold, they are read to the end and each
// fault is one line.
func FuzzParseServe(f *testing.F) {
	for _, s := range []string{"", "--limit\x0010/min", "--by\x00path.\x00-=\x00--\x00x", "---\x00-\x00--help=", "--admin\x00[::1]:x", "--by\x00query.\xff\x00--trust\x00: #"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if strings.Contains(s, "admin") {
			t.Skip("it might ask the network for a host")
		}
		_, c, err := parseArgs(strings.Split(s, "\x00"))
		if err == nil && c != nil && len(c.Policy.Rules()) == 0 {
			t.Errorf("%q: no rules", s)
		}
		if err != nil && strings.Contains(err.Error(), "is not YAML") {
			t.Errorf("%q: %v", s, err)
		}
	})
}
