// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/policy/evaluate"
	"github.com/sluicegate/sluice/server/internal/cli"
	"github.com/sluicegate/sluice/server/internal/explain"
	"github.com/sluicegate/sluice/server/internal/serve"
)

var explainCommand = cli.Command{
	Name: "explain", Args: "[METHOD] URL", Summary: "show how a request would be decided, and why",
	Doc: `shows for every rule whether it matches the request, and the difference if not; the key; and the arithmetic of every limit. It charges nothing and changes nothing. URL is a path, or a whole URL if a rule matches by host. A token in the header is verified as a request's is, unless there is a --claim.

It asks a running sluice, or with --config reads FILE, where nothing was spent yet.

    sluice explain /orders --client 192.0.2.7 --header "X-User: ada"
    sluice explain POST https://api.example/login --claim sub=7 --config sluice.yaml
    sluice explain http://shop/ --descriptor user=ada
`,
	Flags: slices.Concat([]cli.Flag{
		{Name: "client", Value: "ADDRESS", Doc: "where the request comes from (default: not known)"},
		{Name: "header", Letter: "H", Value: "FIELD", Repeat: true, Doc: `a header field, such as "X-User: ada"`},
		{Name: "claim", Value: "NAME=VALUE", Repeat: true, Doc: "a claim of the request's token"},
		{Name: "cert", Value: "NAME=VALUE", Repeat: true, Doc: "a name in its client certificate"},
		{Name: "descriptor", Value: "KEY=VALUE", Repeat: true, Doc: "an entry of its descriptor, whose domain is the host of the URL"},
		{Name: "body-bytes", Value: "N", Doc: "its Content-Length (default: not known)"},
		{Name: "listener", Value: "NAME", Doc: "the name or the address of the listener that it comes to (default: all rules apply, and to a descriptor those of the first with serve: rls)"},
		{Name: "config", Value: "FILE", Doc: "a configuration file, instead of a running sluice"},
		{Name: "all", Doc: "name all rules that do not match, not only the first"},
	}, adminFlags, []cli.Flag{jsonFlag}),
	Run: runExplain,
}

// runExplain explains how a request would be decided.
func runExplain(ctx context.Context, c *cli.Call) error {
	q, err := explainRequest(c.Args, c.Values)
	switch {
	case err != nil:
		return &cli.UsageError{Err: err}
	case c.Given("config") && (c.Given("admin") || c.Given("token-file")):
		return cli.Usagef("--config reads a file, and --admin asks a running sluice; give one of them")
	}
	e, err := explanation(ctx, q, c.Values)
	if err != nil {
		return err
	}
	return c.Show(e, explanationText(e, c.Given("all")))
}

func explanation(ctx context.Context, q *explain.Request, values cli.Values) (*evaluate.Explanation, error) {
	if name := values.One("config"); name != "" {
		c, err := loadFile(name)
		if err != nil {
			return nil, err
		}
		return serve.Explain(ctx, c, q)
	}
	c, err := newAdminClient(values)
	if err != nil {
		return nil, err
	}
	e := new(evaluate.Explanation)
	return e, c.call(ctx, http.MethodPost, "/v1/explain", q, e)
}

func explainRequest(rest []string, values cli.Values) (*explain.Request, error) {
	q := &explain.Request{Client: values.One("client"), Listener: values.One("listener"), Headers: make(map[string][]string)}
	switch len(rest) {
	case 1:
		q.URL = rest[0]
	case 2:
		q.Method, q.URL = rest[0], rest[1]
	default:
		return nil, fmt.Errorf("expected a URL, and before it a method unless that is GET, got %d arguments", len(rest))
	}
	for _, line := range values["header"] {
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			return nil, fmt.Errorf(`--header %q: expected one such as "X-User: ada"`, line)
		}
		name = http.CanonicalHeaderKey(strings.TrimSpace(name))
		q.Headers[name] = append(q.Headers[name], strings.TrimSpace(value))
	}
	var err error
	if q.Claims, err = pairs("claim", values["claim"]); err != nil {
		return nil, err
	}
	if q.Certificate, err = pairs("cert", values["cert"]); err != nil {
		return nil, err
	}
	if q.Descriptor, err = pairs("descriptor", values["descriptor"]); err != nil {
		return nil, err
	}
	if text := values.One("body-bytes"); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("--body-bytes %q: expected a number of bytes, such as 1024", text)
		}
		q.BodyBytes = &n
	}
	return q, nil
}

// pairs reads NAME=VALUE of a flag, nil if there are none.
func pairs(flag string, texts []string) (map[string]string, error) {
	if len(texts) == 0 {
		return nil, nil //nolint:nilnil // there are none
	}
	m := make(map[string]string)
	for _, text := range texts {
		name, value, ok := strings.Cut(text, "=")
		if _, twice := m[name]; !ok || name == "" || twice {
			return nil, fmt.Errorf("--%s %q: expected each once, as NAME=VALUE", flag, text)
		}
		m[name] = value
	}
	return m, nil
}

// mostDifferent is the most rules that do not match and are named without --all.
const mostDifferent = 8

// explanationText writes an explanation for people: the verdict first.
func explanationText(e *evaluate.Explanation, all bool) string {
	var b strings.Builder
	b.WriteString(verdictText(e))
	other := 0
	for i := range e.Rules {
		if r := &e.Rules[i]; r.Matches {
			writeExplainedRule(&b, r, e.Why)
		} else {
			other++
		}
	}
	if other += e.MoreUnmatched; other == 0 {
		return b.String()
	}
	b.WriteString("\ndo not match\n")
	written := 0
	for i := range e.Rules {
		if r := &e.Rules[i]; !r.Matches && (all || written < mostDifferent) {
			fmt.Fprintf(&b, "  %s: %s\n", r.Name, strings.Join(r.Differences, "; "))
			written++
		}
	}
	if written < other {
		hint := ""
		if !all {
			hint = "; name them with --all"
		}
		fmt.Fprintf(&b, "  and %d more%s\n", other-written, hint)
	}
	return b.String()
}

// verdictText describes the verdict in a line or two.
func verdictText(e *evaluate.Explanation) string {
	text, d := e.Verdict, &e.Decision
	if d.Degraded {
		text += ", as the store is unavailable"
	}
	switch {
	case e.Why != "":
		text += ": " + e.Why
	case len(e.Violated) > 0 && e.Verdict != evaluate.Denied.String():
		text += "; in shadow mode it would be denied by " + strings.Join(e.Violated, ", ")
	case len(e.Violated) > 0:
		text += " by " + strings.Join(e.Violated, ", ")
		if e.Rule != "" && !slices.Contains(e.Violated, e.Rule) {
			text += ", of the rule " + e.Rule
		}
	}
	switch {
	case e.Verdict != evaluate.Denied.String():
	case d.TooLarge:
		text += "\nit never passes"
	case d.RetryAfter > 0 && d.At > 0:
		text += fmt.Sprintf("\nit would pass in %v, at %s", d.RetryAfter, d.At.Time().Add(d.RetryAfter).Format("2006-01-02 15:04:05.999999 UTC"))
	case d.RetryAfter > 0:
		text += fmt.Sprintf("\nit would pass when another request ends, or in %v at most", d.RetryAfter)
	}
	if d.Delay > 0 {
		text += fmt.Sprintf(", delayed by %v", d.Delay)
	}
	return text + "\n"
}

// writeExplainedRule writes a rule of an explanation. It omits the note that the verdict line
// already has.
func writeExplainedRule(b *strings.Builder, r *evaluate.RuleExplanation, said string) {
	fmt.Fprintf(b, "\nrule %s", r.Name)
	if r.Mode != "enforce" {
		fmt.Fprintf(b, " (%s)", r.Mode)
	}
	b.WriteByte('\n')
	if r.Exempt {
		b.WriteString("  matches, and exempts the client's network\n")
	}
	for _, note := range r.Notes {
		if note != said {
			fmt.Fprintf(b, "  %s\n", note)
		}
	}
	for i := range r.Levels {
		writeExplainedLevel(b, &r.Levels[i], said)
	}
}

func writeExplainedLevel(b *strings.Builder, l *evaluate.LevelExplanation, said string) {
	b.WriteString("  ")
	if l.Name != "" {
		b.WriteString(l.Name + ": ")
	}
	b.WriteString(keyText(l.Parts, ""))
	if l.Tier != "" {
		b.WriteString(", tier " + l.Tier)
	}
	if l.Override != "" {
		b.WriteString(", override: " + l.Override)
	}
	b.WriteByte('\n')
	if l.Note != "" && l.Note != said {
		fmt.Fprintf(b, "    %s\n", l.Note)
	}
	if f := l.InFlight; f != nil {
		fmt.Fprintf(b, "    in flight: %d of %d used, %d free\n", f.Decision.Held, f.Limit.Cap, f.Decision.Free)
	}
	for i := range l.Limits {
		kind := ""
		switch limit := &l.Limits[i]; {
		case limit.Grace:
			kind = "grace "
		case limit.Soft:
			kind = "soft "
		}
		writeReason(b, "    ", kind, &l.Limits[i].Reason)
	}
	for _, c := range l.Candidates {
		what := "would deny"
		switch {
		case c.Skipped != "":
			what = "is not evaluated: " + c.Skipped
		case c.Allowed:
			what = "would allow"
		}
		fmt.Fprintf(b, "    candidate: %s %s\n", c.Name, what)
		for i := range c.Limits {
			writeReason(b, "      ", "", &c.Limits[i])
		}
	}
}

func writeReason(b *strings.Builder, indent, kind string, l *sluice.Reason) {
	b.WriteString(indent + kind + l.Limit.String() + "\n")
	for _, line := range l.Lines {
		b.WriteString(indent + "  " + line + "\n")
	}
	if len(l.Changes) > 0 {
		b.WriteString(indent + "  would pass with " + strings.Join(l.Changes, ", or ") + "\n")
	}
}
