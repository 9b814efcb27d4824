// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"maps"
	"net/http"
	"net/netip"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/config/internal/document"
	"github.com/sluicegate/sluice/policy"
)

// decoder reads a file of cases.
type decoder struct{ *document.Decoder }

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
	maxRefill   = 2 * 366 * 24 * time.Hour // of a bucket; a test compares it with the one that is enforced
)

func (d decoder) cases(root *yaml.Node) (cases []testCase) {
	d.Mapping(root, "a file of cases", document.Key("cases", "Cases; each has a store and a clock of its own.", func(n *yaml.Node) {
		d.List(n, func(n *yaml.Node) { cases = append(cases, d.testCase(n)) })
	}).Required())
	if len(cases) == 0 && d.Count() == 0 {
		d.Fault(root, "no cases; add at least one under cases")
	}
	var requests int64
	for i := range cases {
		for j := range cases[i].steps {
			requests += cases[i].steps[j].given.times
		}
	}
	if requests > maxRequests {
		d.Fault(root, "%d requests; at most %d are made: use a smaller limit in the cases, or fewer times", requests, maxRequests)
	}
	return cases
}

func (d decoder) testCase(n *yaml.Node) testCase {
	c := testCase{node: n, start: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	base := given{times: 1, response: policy.Response{Status: 200, Read: -1}} // read: all bytes sent
	base.request = policy.Request{Method: "GET", Path: "/"}
	var steps *yaml.Node
	d.Mapping(n, "a case",
		d.Word("name", "Statement that must hold.", &c.name).Required(),
		d.Scalar("start", "Instant of the start (default 2026-01-01T00:00:00Z).", func(n *yaml.Node, s string) {
			var err error
			if c.start, err = time.Parse(time.RFC3339, s); err != nil {
				d.Fault(n, "start is %q; use an instant, such as 2026-03-01T10:00:00Z", document.Shorten(s))
			}
		}),
		document.Key("given", "Requests of every step; a step may replace each key.", func(n *yaml.Node) { base = d.given(n, base) }),
		document.Key("steps", "Requests in the order of their times, each with its expected result.", func(n *yaml.Node) {
			if steps = n; d.Recording() {
				d.List(n, func(n *yaml.Node) { d.step(n, base, 0) })
			}
		}).Required(),
	)
	if c.name == "" {
		d.Fault(n, "a case without a name; set name to what must hold")
	}
	if steps == nil {
		d.Fault(n, "a case without steps; add a step, such as - {given: {request: GET /}, expect: allowed}")
		return c
	}
	var at time.Duration
	d.List(steps, func(n *yaml.Node) {
		s := d.step(n, base, at)
		at = s.at
		c.steps = append(c.steps, s)
	})
	return c
}

func (d decoder) step(n *yaml.Node, base given, at time.Duration) step {
	s := step{node: n, at: at, given: base}
	s.expect = expectation{remaining: -1}
	var after time.Duration
	var when *yaml.Node
	read := func(name, text string, into *time.Duration) document.Field {
		f := d.Duration(name, text, 0, sluice.MaxWindow, into)
		return document.Key(name, text, func(n *yaml.Node) {
			if when != nil {
				d.Fault(n, "a step is at a time since the start, or after the one before it; use one")
			}
			when = n
			f.Read(n)
		})
	}
	d.Mapping(n, "a step",
		read("at", "Time since the start (default: that of the step before).", &s.at),
		read("after", "Time since the step before.", &after),
		document.Key("given", "Requests of the step.", func(n *yaml.Node) { s.given = d.given(n, base) }),
		document.Key("expect", "Verdict of all requests, or a mapping.", func(n *yaml.Node) {
			s.verdict = n
			s.expect = d.expect(n)
		}).Required(),
	)
	if s.at < at {
		d.Fault(when, "is before the previous step; sort the steps by their times")
	}
	s.at += after
	if s.verdict == nil {
		d.Fault(n, "a step without expect; use %s, or one of them with a number", strings.Join(verdicts, ", "))
	}
	return s
}

// given reads requests. Missing fields are those of the case.
func (d decoder) given(n *yaml.Node, base given) given {
	g, host := base, base.request.Host
	d.Mapping(n, "given",
		d.Scalar("request", "Method, path and query, such as POST /posts?draft=1 (default GET /).", func(n *yaml.Node, s string) { d.requestLine(n, s, &g.request) }),
		d.Scalar("from", "Address of the client.", func(n *yaml.Node, s string) {
			addr, err := netip.ParseAddr(s)
			if err != nil {
				d.Fault(n, "from is %q; use an address, such as 203.0.113.7", document.Shorten(s))
			}
			g.request.Client = addr.Unmap().WithZone("")
		}),
		d.Scalar("host", "Host of the request.", func(_ *yaml.Node, s string) { host = s }),
		document.Key("headers", "Header fields of the request, each with its values.", func(n *yaml.Node) {
			g.request.Headers = d.values(n, "headers", textproto.CanonicalMIMEHeaderKey)
			if named := g.request.Headers["Host"]; len(named) == 1 {
				host = named[0]
			}
		}),
		document.Key("cookies", "Cookies, each with its values.", func(n *yaml.Node) {
			g.request.Cookies = d.values(n, "cookies", func(s string) string { return s })
		}),
		document.Key("claims", "Claims of a verified token.", func(n *yaml.Node) { g.request.Claims = d.textOf(n, "claims", "a claim") }),
		document.Key("cert", "Names in the client's verified certificate.", func(n *yaml.Node) { g.request.Certificates = d.textOf(n, "cert", "a name in a certificate") }),
		document.Key("descriptor", "Entries of Envoy's descriptor.", func(n *yaml.Node) { g.request.Descriptor = d.textOf(n, "descriptor", "an entry") }),
		d.Number("bytes", "Bytes of the body; -1: not known (default 0).", -1, sluice.MaxQuota, &g.request.Length),
		d.Number("times", "How many such requests are sent (default 1).", 1, maxTimes, &g.times),
		document.Key("response", "Response of the service behind.", func(n *yaml.Node) { d.response(n, &g.response) }),
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
func (d decoder) textOf(n *yaml.Node, what, each string) map[string]string {
	m := map[string]string{}
	d.Pairs(n, what, 64, func(key, value *yaml.Node) {
		if s, ok := d.Text(value, each); ok {
			m[key.Value] = s
		}
	})
	return m
}

func (d decoder) values(n *yaml.Node, what string, name func(string) string) map[string][]string {
	m := map[string][]string{}
	d.Pairs(n, what, 64, func(key, value *yaml.Node) {
		var values []string
		d.Texts(value, what, &values)
		m[name(key.Value)] = values
	})
	return m
}

func (d decoder) response(n *yaml.Node, r *policy.Response) {
	var status int64
	var headers map[string][]string
	d.Mapping(n, "response",
		d.Number("status", "Status (default 200).", 100, 599, &status),
		d.Number("bytes", "Bytes of the response (default 0).", 0, sluice.MaxQuota, &r.Written),
		d.Number("read", "Bytes of the request's body that were read (default: all).", 0, sluice.MaxQuota, &r.Read),
		d.Flag("unseen", "The client left before the response (default false).", &r.Unseen),
		d.Duration("took", "Time until its end (default 0s).", 0, 24*time.Hour, &r.Took),
		document.Key("headers", "Header fields of the response, each with its values.", func(n *yaml.Node) { headers = d.values(n, "headers", textproto.CanonicalMIMEHeaderKey) }),
	)
	if status > 0 {
		r.Status = int(status)
	}
	if headers != nil {
		r.Header = func(name string) []string { return headers[name] }
	}
}

// expect reads a verdict or a detailed expectation.
func (d decoder) expect(n *yaml.Node) expectation {
	e := expectation{counts: map[string]int64{}, remaining: -1, asked: map[string]*yaml.Node{}}
	m := d.Enter(n)
	if m == nil {
		return e
	}
	if m.Kind != yaml.MappingNode {
		var word string
		if d.Choice(n, "expect", &word, verdicts...); word != "" {
			e.counts[word] = -1 // all requests
		}
		return e
	}
	ask := func(f document.Field) document.Field {
		return document.Key(f.Name, f.Text, func(n *yaml.Node) {
			e.asked[f.Name] = n
			f.Read(n)
		})
	}
	fields := []document.Field{
		document.Key("verdict", "Verdict of all requests of the step.", func(n *yaml.Node) {
			var word string
			if d.Choice(n, "verdict", &word, verdicts...); word != "" {
				e.counts[word] = -1
			}
		}),
		ask(d.Word("rule", "Rule that binds the last request.", &e.rule)), ask(d.Word("level", "Its level.", &e.level)), ask(d.Word("limit", "Name of its limit.", &e.limit)),
		ask(d.Number("remaining", "Units left after the last request.", 0, sluice.MaxQuota, &e.remaining)),
		ask(d.Duration("retry_after", "Time until the last request, which was denied, would fit.", 0, maxRefill, &e.retryAfter)),
		ask(d.Duration("delay", "Delay of the last request.", 0, maxRefill, &e.delay)),
		ask(document.Key("would_deny", "Shadow rules, and candidates as RULE+NAME, that would have denied the last request; [] for none.", func(n *yaml.Node) {
			if m := d.Enter(n); m == nil || m.Kind == yaml.SequenceNode && len(m.Content) == 0 && !d.Recording() {
				return // none
			}
			d.Texts(n, "would_deny", &e.wouldDeny)
			slices.Sort(e.wouldDeny)
		})),
	}
	for _, v := range verdicts {
		var count int64
		f := d.Number(v, "Number of requests of the step with this verdict.", 0, maxTimes, &count)
		fields = append(fields, document.Key(v, f.Text, func(n *yaml.Node) {
			f.Read(n)
			e.counts[v] = count
		}))
	}
	d.Mapping(n, "expect", fields...)
	if all := slices.ContainsFunc(verdicts, func(v string) bool { return e.counts[v] < 0 }); all && len(e.counts) > 1 {
		d.Fault(n, "a verdict for all requests, and numbers; use one of the two")
	}
	return e
}

func plural(n int64, what string) string { return strconv.FormatInt(n, 10) + " " + what }

// requestLine reads "POST /path?query" or "/path".
func (d decoder) requestLine(n *yaml.Node, s string, p *policy.Request) {
	method, target, ok := strings.Cut(s, " ")
	if !ok {
		method, target = http.MethodGet, s
	}
	path, query, _ := strings.Cut(target, "?")
	values, err := url.ParseQuery(query)
	u, uerr := url.ParseRequestURI(target)
	if !strings.HasPrefix(path, "/") && path != "*" || strings.ContainsAny(target, " #") || err != nil || uerr != nil {
		d.Fault(n, "request is %q; use a method and a path, such as POST /posts?draft=1", document.Shorten(s))
		return
	}
	p.Method, p.Path, p.Queries = strings.ToUpper(method), u.EscapedPath(), values
	if !strings.HasPrefix(p.Path, "/") { // "*"
		p.Path = "/" + p.Path
	}
}
