// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"maps"
	"net/netip"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/policy"
)

// testCase is a case of a file: requests at given times and the expectations of each.
type testCase struct {
	name  string
	node  *yaml.Node
	start time.Time
	steps []step
}

type step struct {
	node    *yaml.Node
	at      time.Duration // since the start
	given   given
	expect  expectation
	verdict *yaml.Node // place of expect
}

// given describes the requests of a step.
type given struct {
	request  policy.Request
	times    int64
	response policy.Response
}

// verdicts are the possible results of a request, in the words of a case.
var verdicts = []string{"allowed", "warned", "denied", "refused", forbidden}

// forbidden is the verdict of a client that allow and deny refuse.
const forbidden = "forbidden"

// expectation is the expected result of a step's requests. Counts are by verdict; the fields
// of a limit are about the last request.
type expectation struct {
	counts     map[string]int64
	rule       string
	level      string
	limit      string
	remaining  int64 // -1: not checked
	retryAfter time.Duration
	delay      time.Duration
	wouldDeny  []string // shadow rules, and candidates as RULE+NAME
	asked      map[string]*yaml.Node
}

// Bounds of a file of cases.
const (
	maxTimes    = 1_000_000
	maxRequests = 20_000_000
)

func (d *decoder) cases(root *yaml.Node) (cases []testCase) {
	d.mapping(root, "a file of cases", field{"cases", func(n *yaml.Node) {
		d.list(n, func(n *yaml.Node) { cases = append(cases, d.testCase(n)) })
	}})
	if len(cases) == 0 && len(d.faults) == 0 {
		d.fault(root, "no cases; add at least one under cases")
	}
	var requests int64
	for i := range cases {
		for j := range cases[i].steps {
			requests += cases[i].steps[j].given.times
		}
	}
	if requests > maxRequests {
		d.fault(root, "%d requests; at most %d are made: use a smaller limit in the cases, or fewer times", requests, maxRequests)
	}
	return cases
}

func (d *decoder) testCase(n *yaml.Node) testCase {
	c := testCase{node: n, start: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	base := given{times: 1, response: policy.Response{Status: 200, Read: -1}} // read: all bytes sent
	base.request = policy.Request{Method: "GET", Path: "/"}
	var steps *yaml.Node
	d.mapping(n, "a case",
		d.word("name", &c.name),
		d.scalar("start", func(n *yaml.Node, s string) {
			var err error
			if c.start, err = time.Parse(time.RFC3339, s); err != nil {
				d.fault(n, "start is %q; use an instant, such as 2026-03-01T10:00:00Z", shorten(s))
			}
		}),
		field{"given", func(n *yaml.Node) { base = d.given(n, base) }},
		field{"steps", func(n *yaml.Node) { steps = n }},
	)
	if c.name == "" {
		d.fault(n, "a case without a name; set name to what must hold")
	}
	if steps == nil {
		d.fault(n, "a case without steps; add a step, such as - {given: {request: GET /}, expect: allowed}")
		return c
	}
	var at time.Duration
	d.list(steps, func(n *yaml.Node) {
		s := d.step(n, base, at)
		at = s.at
		c.steps = append(c.steps, s)
	})
	return c
}

func (d *decoder) step(n *yaml.Node, base given, at time.Duration) step {
	s := step{node: n, at: at, given: base}
	s.expect = expectation{remaining: -1}
	var after time.Duration
	var when *yaml.Node
	read := func(name string, into *time.Duration) field {
		f := d.duration(name, 0, sluice.MaxWindow, into)
		return field{name, func(n *yaml.Node) {
			if when != nil {
				d.fault(n, "a step is at a time since the start, or after the one before it; use one")
			}
			when = n
			f.read(n)
		}}
	}
	d.mapping(n, "a step",
		read("at", &s.at),
		read("after", &after),
		field{"given", func(n *yaml.Node) { s.given = d.given(n, base) }},
		field{"expect", func(n *yaml.Node) {
			s.verdict = n
			s.expect = d.expect(n)
		}},
	)
	if s.at < at {
		d.fault(when, "is before the previous step; sort the steps by their times")
	}
	s.at += after
	if s.verdict == nil {
		d.fault(n, "a step without expect; use %s, or one of them with a number", strings.Join(verdicts, ", "))
	}
	return s
}

// given reads requests. Fields left out are those of the case.
func (d *decoder) given(n *yaml.Node, base given) given {
	g, host := base, base.request.Host
	d.mapping(n, "given",
		d.scalar("request", func(n *yaml.Node, s string) { d.requestLine(n, s, &g.request) }),
		d.scalar("from", func(n *yaml.Node, s string) {
			addr, err := netip.ParseAddr(s)
			if err != nil {
				d.fault(n, "from is %q; use an address, such as 203.0.113.7", shorten(s))
			}
			g.request.Client = addr.Unmap().WithZone("")
		}),
		d.scalar("host", func(_ *yaml.Node, s string) { host = s }),
		field{"headers", func(n *yaml.Node) {
			g.request.Headers = d.values(n, "headers", textproto.CanonicalMIMEHeaderKey)
			if named := g.request.Headers["Host"]; len(named) == 1 {
				host = named[0]
			}
		}},
		field{"cookies", func(n *yaml.Node) {
			g.request.Cookies = d.values(n, "cookies", func(s string) string { return s })
		}},
		field{"claims", func(n *yaml.Node) { g.request.Claims = d.textOf(n, "claims", "a claim") }},
		field{"cert", func(n *yaml.Node) { g.request.Certificates = d.textOf(n, "cert", "a name in a certificate") }},
		d.number("bytes", -1, sluice.MaxQuota, &g.request.Length),
		d.number("times", 1, maxTimes, &g.times),
		field{"response", func(n *yaml.Node) { d.response(n, &g.response) }},
	)
	g.request.Host = policy.HostOf(host)
	g.request.Headers = maps.Clone(g.request.Headers)
	if g.request.Headers == nil {
		g.request.Headers = make(map[string][]string)
	}
	g.request.Headers["Host"] = []string{g.request.Host}
	return g
}

// textOf reads a mapping of names to texts.
func (d *decoder) textOf(n *yaml.Node, what, each string) map[string]string {
	m := map[string]string{}
	d.pairs(n, what, 64, func(key, value *yaml.Node) {
		if s, ok := d.text(value, each); ok {
			m[key.Value] = s
		}
	})
	return m
}

func (d *decoder) values(n *yaml.Node, what string, name func(string) string) map[string][]string {
	m := map[string][]string{}
	d.pairs(n, what, 64, func(key, value *yaml.Node) {
		var values []string
		d.texts(value, what, &values)
		m[name(key.Value)] = values
	})
	return m
}

func (d *decoder) response(n *yaml.Node, r *policy.Response) {
	var status int64
	var headers map[string][]string
	d.mapping(n, "response",
		d.number("status", 100, 599, &status),
		d.number("bytes", 0, sluice.MaxQuota, &r.Written),
		d.number("read", 0, sluice.MaxQuota, &r.Read),
		d.flag("unseen", &r.Unseen),
		d.duration("took", 0, 24*time.Hour, &r.Took),
		field{"headers", func(n *yaml.Node) { headers = d.values(n, "headers", textproto.CanonicalMIMEHeaderKey) }},
	)
	if status > 0 {
		r.Status = int(status)
	}
	if headers != nil {
		r.Header = func(name string) []string { return headers[name] }
	}
}

// expect reads a verdict or a detailed expectation.
func (d *decoder) expect(n *yaml.Node) expectation {
	e := expectation{counts: map[string]int64{}, remaining: -1, asked: map[string]*yaml.Node{}}
	m := d.enter(n)
	if m == nil {
		return e
	}
	if m.Kind != yaml.MappingNode {
		var word string
		if d.choice(n, "expect", &word, verdicts...); word != "" {
			e.counts[word] = -1 // all requests
		}
		return e
	}
	ask := func(f field) field {
		return field{f.name, func(n *yaml.Node) {
			e.asked[f.name] = n
			f.read(n)
		}}
	}
	fields := []field{
		{"verdict", func(n *yaml.Node) {
			var word string
			if d.choice(n, "verdict", &word, verdicts...); word != "" {
				e.counts[word] = -1
			}
		}},
		ask(d.word("rule", &e.rule)), ask(d.word("level", &e.level)), ask(d.word("limit", &e.limit)),
		ask(d.number("remaining", 0, sluice.MaxQuota, &e.remaining)),
		ask(d.duration("retry_after", 0, maxRefill, &e.retryAfter)),
		ask(d.duration("delay", 0, maxRefill, &e.delay)),
		ask(field{"would_deny", func(n *yaml.Node) {
			if m := d.enter(n); m == nil || m.Kind == yaml.SequenceNode && len(m.Content) == 0 {
				return // none
			}
			d.texts(n, "would_deny", &e.wouldDeny)
			slices.Sort(e.wouldDeny)
		}}),
	}
	for _, v := range verdicts {
		var count int64
		f := d.number(v, 0, maxTimes, &count)
		fields = append(fields, field{v, func(n *yaml.Node) {
			f.read(n)
			e.counts[v] = count
		}})
	}
	d.mapping(n, "expect", fields...)
	if all := slices.ContainsFunc(verdicts, func(v string) bool { return e.counts[v] < 0 }); all && len(e.counts) > 1 {
		d.fault(n, "a verdict for all requests, and numbers; use one of the two")
	}
	return e
}

func plural(n int64, what string) string { return strconv.FormatInt(n, 10) + " " + what }
