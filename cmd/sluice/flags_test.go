// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/httplimit"
)

func TestParseServeDefaults(t *testing.T) {
	for _, c := range []struct {
		name   string
		args   []string
		limits []string
		key    string
		fields httplimit.Fields
		admin  string
	}{
		{"sample app", nil, []string{"10/min sliding-log"}, "query.userId", httplimit.Draft11 | httplimit.XRateLimit, "127.0.0.1:9090"},
		{
			"upstream",
			[]string{"--upstream", "http://x:3000", "--limit", "5/s"},
			[]string{"5/s"},
			"ip", httplimit.Draft11, "127.0.0.1:9090",
		},
		{
			"everything",
			[]string{
				"--upstream=http://x:3000", "-limit=5/s", "--limit", "100MB/min sliding-counter", "--by", "path.2", "--by=header.X-A",
				"--by", "cookie.c", "--by", "query.q", "--by", "host", "--by", "ip", "--trust", "10.1.2.3/8", "--trust", "127.0.0.1",
				"--fields", "x-ratelimit-epoch, draft-11", "--admin", "off", "--drain", "1m", "--state", "x.state", "--upstream-host",
				"--listen", "0.0.0.0:80",
			},
			[]string{"5/s", "100MB/min sliding-counter"},
			"path.2 header.X-A cookie.c query.q host ip",
			httplimit.Draft11 | httplimit.XRateLimitEpoch, "",
		},
		{"public admin", []string{"--admin", ":9090", "--admin-public"}, []string{"10/min sliding-log"}, "query.userId", httplimit.Draft11 | httplimit.XRateLimit, ":9090"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := parseServe(c.args)
			if err != nil {
				t.Fatal(err)
			}
			var limits []string
			for _, l := range got.limits {
				limits = append(limits, l.String())
			}
			if !slices.Equal(limits, c.limits) {
				t.Errorf("limits %q, want %q", limits, c.limits)
			}
			if by := strings.Join(got.by, " "); by != c.key {
				t.Errorf("key of %q, want %q", by, c.key)
			}
			if got.fields != c.fields || got.admin != c.admin {
				t.Errorf("fields %v, admin %q; want %v, %q", got.fields, got.admin, c.fields, c.admin)
			}
			if c.name != "everything" {
				return
			}
			want := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("127.0.0.1/32")}
			if !slices.Equal(got.trusted, want) || got.drain != time.Minute || got.state != "x.state" || !got.upstreamHost || got.listen != "0.0.0.0:80" {
				t.Errorf("config %+v", got)
			}
		})
	}
}

// TestParseServeNamesEveryFault: each fault is one line that names the flag
// and says what to write.
func TestParseServeNamesEveryFault(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		want []string // what the lines hold, in order
	}{
		{"limit that cannot be read", []string{"--limit", "10/minn"}, []string{`--limit "10/minn": column 4: `}},
		{"limit that makes no sense", []string{"--limit", "0/min"}, []string{`--limit "0/min": Quota: 0 must be 1 to `}},
		{"limit with two faults", []string{"--limit", "0/367day"}, []string{`--limit "0/367day": column 3: `}},
		{"limit of nothing", []string{"--limit", ""}, []string{`--limit "": column 1: no limit; write a quota and a window, such as 100/min`}},
		{"limits of one name", []string{"--limit", "5/min", "--limit", "9/min"}, []string{`--limit "9/min": has the name "token-bucket.min", as "5/min" has; begin it with a name of its own, such as "second: 9/min"`}},
		{"no limit for an upstream", []string{"--upstream", "http://x"}, []string{"--limit: there is none; write for example --limit 100/min"}},
		{"limits without end", slices.Repeat([]string{"--limit", "x"}, 30), slices.Repeat([]string{`--limit "x"`}, 30)},
		{"upstream without a scheme", []string{"--upstream", "localhost:3000", "--limit", "1/s"}, []string{`--upstream: "localhost:3000" does not begin with http:// or https://; write for example http://127.0.0.1:3000`}},
		{"upstream that is the gateway", []string{"--upstream", "http://127.0.0.1:8080", "--limit", "1/s"}, []string{"--upstream: is the address of --listen"}},
		{"parts that are none", []string{"--by", "foo", "--by", "header.", "--by", "path.0", "--by", "path.x", "--by", "ip.1", "--by", ""}, []string{
			`--by "foo": is not a part of a request; write ip, host, `, `--by "header.": names no header; write for example header.id`,
			`--by "path.0": is not a part of the path; write path.1`, `--by "path.x": is not a part of the path`, `--by "ip.1": ip has nothing behind it`, `--by "": is not a part`,
		}},
		{"header that cannot be", []string{"--by", "header.a b"}, []string{`--by "header.a b": `}},
		{"part twice", []string{"--by", "ip", "--by", "ip"}, []string{`--by "ip": given twice`}},
		{"networks that are none", []string{"--trust", "10.0.0.0/40", "--trust", "all"}, []string{`--trust "10.0.0.0/40": is not a network; write for example 10.0.0.0/8`, `--trust "all"`}},
		{"addresses that are none", []string{"--listen", "80", "--admin", "x"}, []string{`--listen "80": is not a host and a port; write for example 127.0.0.1:8080`, `--admin: "x" is not an address; write for example 127.0.0.1:9090`}},
		{"admin for everybody", []string{"--admin", "0.0.0.0:9999"}, []string{`--admin "0.0.0.0:9999": other machines can reach this address; write for example 127.0.0.1:9999, or add --admin-public`}},
		{"admin where clients are", []string{"--listen", "127.0.0.1:9090"}, []string{`--admin "127.0.0.1:9090": is the address of --listen too`}},
		{"fields that are none", []string{"--fields", "draft-12"}, []string{`--fields "draft-12": there is no "draft-12"; write some of draft-11, none, x-ratelimit, x-ratelimit-epoch`}},
		{"fields that exclude each other", []string{"--fields", "none,draft-11"}, []string{`--fields "none,draft-11": these exclude each other`}},
		{"durations that are none", []string{"--drain", "30"}, []string{`--drain "30": is not a duration from 0s to 24h; write for example 30s`}},
		{"no file", []string{"--state", ""}, []string{"--state: names no file"}},
		{"unknown flags and what stands behind them", []string{"--lmit", "5/min", "--zzz=1", "--by", "foo"}, []string{
			"--lmit: there is no such flag; did you mean --limit; see sluice serve --help", "--zzz: there is no such flag; see", `--by "foo"`,
		}},
		{"words without a flag", []string{"--limit", "10/min", "sliding-log", "--by", "foo"}, []string{`"sliding-log": is not a flag; every value has its flag before it, in quotes`, `--by "foo"`}},
		{"flags twice", []string{"--listen", "127.0.0.1:1", "--listen", "127.0.0.1:2"}, []string{"--listen: given twice"}},
		{"value missing", []string{"--limit"}, []string{"flag needs an argument: -limit"}},
		{"not even a flag", []string{"--=x", "---", "--by", "foo"}, []string{"bad flag syntax: --=x", "bad flag syntax: ---", `--by "foo"`}},
		{"switch that is neither on nor off", []string{"--admin-public=maybe"}, []string{`invalid boolean value "maybe"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parseServe(c.args)
			if err == nil {
				t.Fatal("no error")
			}
			lines := strings.Split(err.Error(), "\n")
			if len(lines) != len(c.want) {
				t.Fatalf("%d lines, want %d:\n%v", len(lines), len(c.want), err)
			}
			for i, line := range lines {
				if !strings.Contains(line, c.want[i]) {
					t.Errorf("line %d: %q, want %q", i+1, line, c.want[i])
				}
			}
		})
	}
}

func TestHelpIsNotAFault(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"-h"}, {"--limit", "x", "--help"}} {
		if _, err := parseServe(args); !errors.Is(err, errHelp) {
			t.Errorf("%q: %v", args, err)
		}
	}
}

// TestHelpIsTrue: every flag is in the help, and every limit text in it is one.
func TestHelpIsTrue(t *testing.T) {
	for _, name := range []string{
		"upstream", "limit", "by", "trust", "listen", "admin", "admin-public", "admin-host", "fields", "state", "drain", "upstream-host",
	} {
		if !strings.Contains(serveUsage, "  --"+name+" ") {
			t.Errorf("--%s is not in the help", name)
		}
	}
	_, limits, _ := strings.Cut(serveUsage, "Limits:\n\n")
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

// FuzzParseServe: whatever the flags hold, they are read to the end and each
// fault is one line.
func FuzzParseServe(f *testing.F) {
	for _, s := range []string{"", "--limit\x0010/min", "--by\x00path.\x00-=\x00--\x00x", "---\x00-\x00--help=", "--admin\x00[::1]:x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		args := strings.Split(s, "\x00")
		if strings.Contains(s, "admin") || strings.Contains(s, "listen") || strings.Contains(s, "state") {
			t.Skip("it might ask the network for a host, or open any file")
		}
		c, err := parseServe(args)
		if err != nil {
			return
		}
		if len(c.limits) == 0 {
			t.Errorf("%q: no limits", args)
		}
		if _, err := newServer(t.Context(), c, discard()); err != nil {
			t.Errorf("%q: %v", args, err)
		}
	})
}
