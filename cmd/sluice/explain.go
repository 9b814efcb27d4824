// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/internal/serve"
	"github.com/sluicegate/sluice/internal/server/admin"
)

const explainUsage = `  sluice explain [METHOD] URL [--client ADDRESS] [--header "NAME: VALUE"]...
                 [--claim NAME=VALUE]... [--cert NAME=VALUE]... [--body-bytes N]
                 [--config FILE] [--all] [--json]

says what would become of a request, and why: of every rule whether it matches or
what of its match says no, whose budget the request draws on, and of every limit
the arithmetic. Nothing is charged, and nothing changes. URL is a path, or all of
a URL where a rule asks for the host. A token in the header is verified as a
request's is, unless there is a --claim.

It asks a running sluice, or with --config reads FILE, where nothing was spent yet.

  --client ADDRESS   where the request comes from (default: not known)
  --body-bytes N     its Content-Length (default: not known)
  --all              name all rules that do not match, not only the first
  --json             write it as JSON
  --admin ADDRESS    where sluice is (default 127.0.0.1:9090)
  --token-file FILE  holds its token, if it has one

  sluice explain /orders --client 192.0.2.7 --header "X-User: ada"
  sluice explain POST https://api.example/login --claim sub=7 --config sluice.yaml
`

// runExplain says what would become of a request.
func runExplain(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	values, rest, err := splitArgs(args, []string{"all", "json"}, "client", "header", "H", "claim", "cert", "body-bytes", "config", "admin", "token-file")
	var q *admin.ExplainRequest
	if err == nil {
		q, err = explainRequest(rest, values)
	}
	if err == nil && values["config"] != nil && (values["admin"] != nil || values["token-file"] != nil) {
		err = errors.New("explain: --config reads a file, and --admin asks a running sluice; give one of them")
	}
	if err != nil {
		return usageError(stderr, err, explainUsage)
	}
	e, err := explain(ctx, q, values)
	switch {
	case err != nil:
	case values["json"] != nil:
		var doc []byte
		if doc, err = json.MarshalIndent(e, "", "  "); err == nil {
			_, err = stdout.Write(append(doc, '\n'))
		}
	default:
		_, err = io.WriteString(stdout, explanationText(e, values["all"] != nil))
	}
	return ended(stderr, err)
}

func explain(ctx context.Context, q *admin.ExplainRequest, values map[string][]string) (*admin.Explanation, error) {
	if name := last(values["config"]); name != "" {
		c, err := config.Load(name)
		if err != nil {
			return nil, err
		}
		return serve.Explain(ctx, c, q)
	}
	c, err := newAdminClient(values)
	if err != nil {
		return nil, err
	}
	e := new(admin.Explanation)
	return e, c.call(ctx, http.MethodPost, "/v1/explain", q, e)
}

func explainRequest(rest []string, values map[string][]string) (*admin.ExplainRequest, error) {
	q := &admin.ExplainRequest{Client: last(values["client"]), Headers: make(map[string][]string)}
	switch len(rest) {
	case 1:
		q.URL = rest[0]
	case 2:
		q.Method, q.URL = rest[0], rest[1]
	default:
		return nil, fmt.Errorf("explain: names %d methods and URLs; it needs a URL, and before it a method unless that is GET", len(rest))
	}
	for _, line := range slices.Concat(values["header"], values["H"]) {
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			return nil, fmt.Errorf(`explain: --header %q: write one such as "X-User: ada"`, line)
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
	if text := last(values["body-bytes"]); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("explain: --body-bytes %q is not a number of bytes", text)
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
			return nil, fmt.Errorf("explain: --%s %q: write each once, as NAME=VALUE", flag, text)
		}
		m[name] = value
	}
	return m, nil
}

// mostDifferent is how many rules that do not match are named without --all.
const mostDifferent = 8

// explanationText writes an explanation for people: the verdict first.
func explanationText(e *admin.Explanation, all bool) string {
	var b strings.Builder
	b.WriteString(verdictText(e))
	other := 0
	for i := range e.Rules {
		if r := &e.Rules[i]; r.Matches {
			writeExplainedRule(&b, r)
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

// verdictText says what becomes of the request, in a line or two.
func verdictText(e *admin.Explanation) string {
	text := e.Verdict
	if e.Degraded {
		text += ", as the store is away"
	}
	switch {
	case e.Why != "":
		text += ": " + e.Why
	case len(e.Violated) > 0:
		text += " by " + strings.Join(e.Violated, ", ")
		if e.Rule != "" && !slices.Contains(e.Violated, e.Rule) {
			text += ", of the rule " + e.Rule
		}
	}
	switch {
	case e.Verdict != "denied":
	case e.TooLarge:
		text += "\nit never passes"
	case e.RetryAfter > 0 && !e.At.IsZero():
		text += fmt.Sprintf("\nit would pass in %v, at %s", e.RetryAfter, e.At.Add(e.RetryAfter).UTC().Format("2006-01-02 15:04:05.999999 UTC"))
	case e.RetryAfter > 0:
		text += fmt.Sprintf("\nit would pass when another request ends, or in %v at most", e.RetryAfter)
	}
	if e.Delay > 0 {
		text += fmt.Sprintf(", after it was held back for %v", e.Delay)
	}
	return text + "\n"
}

func writeExplainedRule(b *strings.Builder, r *admin.ExplainedRule) {
	fmt.Fprintf(b, "\nrule %s", r.Name)
	if r.Mode != "enforce" {
		fmt.Fprintf(b, " (%s)", r.Mode)
	}
	b.WriteByte('\n')
	if r.Exempt {
		b.WriteString("  matches, and exempts the client's network\n")
	}
	for _, note := range r.Notes {
		fmt.Fprintf(b, "  %s\n", note)
	}
	for i := range r.Levels {
		writeExplainedLevel(b, &r.Levels[i])
	}
}

func writeExplainedLevel(b *strings.Builder, l *admin.ExplainedLevel) {
	b.WriteString("  ")
	if l.Name != "" {
		b.WriteString(l.Name + ": ")
	}
	b.WriteString(keyText(l.Parts, ""))
	if l.Plan != "" {
		b.WriteString(", plan " + l.Plan)
	}
	if l.Override != "" {
		b.WriteString(", limits of its own: " + l.Override)
	}
	b.WriteByte('\n')
	if l.Note != "" {
		fmt.Fprintf(b, "    %s\n", l.Note)
	}
	if f := l.InFlight; f != nil {
		fmt.Fprintf(b, "    in flight: %d of %d run, %d more may\n", f.Held, f.Cap, f.Free)
	}
	for i := range l.Limits {
		writeExplainedLimit(b, "    ", &l.Limits[i])
	}
	for _, c := range l.Trials {
		what := "would deny"
		if c.Allowed {
			what = "would allow"
		}
		fmt.Fprintf(b, "    on trial: %s %s\n", c.Name, what)
		for i := range c.Limits {
			writeExplainedLimit(b, "      ", &c.Limits[i])
		}
	}
}

func writeExplainedLimit(b *strings.Builder, indent string, l *admin.ExplainedLimit) {
	b.WriteString(indent)
	if l.Kind != "" {
		b.WriteString(l.Kind + " ")
	}
	b.WriteString(l.Limit + "\n")
	for _, line := range l.Lines {
		b.WriteString(indent + "  " + line + "\n")
	}
	if len(l.Changes) > 0 {
		b.WriteString(indent + "  would pass with " + strings.Join(l.Changes, ", or ") + "\n")
	}
}
