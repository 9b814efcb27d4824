// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/config/internal/document"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
)

// Schema returns a JSON Schema (draft 2020-12) of a file of cases, for editors.
func Schema() []byte {
	return document.Schema("cases of sluice's configuration", func(d *document.Decoder, root *yaml.Node) { decoder{d}.cases(root) })
}

// Results are the results of a file of cases. They may be used concurrently if no caller
// changes them.
type Results struct {
	File  string
	Cases []Result
}

// Result is the result of a case.
type Result struct {
	Name     string
	Line     int            // from 1
	Failures []config.Fault // unmet expectations; none: the case passes
}

// Failed returns the number of cases that failed.
func (r *Results) Failed() (n int) {
	for i := range r.Cases {
		if len(r.Cases[i].Failures) > 0 {
			n++
		}
	}
	return n
}

// WriteText writes a line for each case, followed by its failures.
func (r *Results) WriteText(w io.Writer) error {
	var b strings.Builder
	for _, c := range r.Cases {
		verdict := "ok  "
		if len(c.Failures) > 0 {
			verdict = "FAIL"
		}
		fmt.Fprintf(&b, "%s %s\n", verdict, c.Name)
		for _, f := range c.Failures {
			b.WriteString("     " + f.Error() + "\n")
		}
	}
	fmt.Fprintf(&b, "%s: %d of %d cases hold\n", r.File, len(r.Cases)-r.Failed(), len(r.Cases))
	_, err := io.WriteString(w, b.String())
	return err
}

// Run runs the cases in a file of that name and content under c's policy. Each case has
// its own store from newStore, with a clock that only the steps advance, so that the same
// cases have the same results everywhere. The error is [config.Faults] if the file cannot be read, or
// that of ctx.
func Run(ctx context.Context, c *config.Config, name string, data []byte, newStore func(now func() time.Time) sluice.Store) (*Results, error) {
	d := decoder{document.New(name)}
	var cases []testCase
	if root := d.Document(data); root != nil {
		cases = d.cases(root)
	}
	if faults := document.Problems[config.Fault](d.Decoder); len(faults) > 0 {
		return nil, config.Faults(faults)
	}
	results := &Results{File: name}
	described := c.Policy // the rules of descriptors
	if at := slices.IndexFunc(c.Listen, func(l config.Listener) bool { return l.Serve == "rls" }); at >= 0 {
		described = c.PolicyOf(&c.Listen[at])
	}
	for i := range cases {
		run := runner{file: name, policy: c.Policy, described: described, newStore: newStore, allow: c.Allow, deny: c.Deny, token: c.Tokens != nil && c.Tokens.Required}
		result := Result{Name: cases[i].name, Line: cases[i].node.Line}
		if err := run.story(ctx, &cases[i]); err != nil {
			return nil, err
		}
		result.Failures = run.failures
		results.Cases = append(results.Cases, result)
	}
	return results, nil
}

// runner runs one case.
type runner struct {
	file      string
	policy    *policy.Policy
	described *policy.Policy // of descriptors
	newStore  func(now func() time.Time) sluice.Store
	allow     []netip.Prefix
	deny      []netip.Prefix
	token     bool // a token is required
	failures  []config.Fault
}

// admits reports whether the file admits a client.
func (r *runner) admits(client netip.Addr) bool {
	in := func(networks []netip.Prefix) bool {
		return slices.ContainsFunc(networks, func(p netip.Prefix) bool {
			if p.Addr().Is4In6() && p.Bits() >= 96 {
				p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
			}
			return p.Contains(client)
		})
	}
	return !in(r.deny) && (len(r.allow) == 0 || in(r.allow))
}

func (r *runner) story(ctx context.Context, c *testCase) error {
	now := c.start
	clock := func() time.Time { return now }
	var failed error
	o := evaluate.Options{
		Name: "config", Policy: r.policy, Store: r.newStore(clock), Now: clock, CallerWaits: true,
		OnError: func(_ context.Context, _ policy.Attributes, err error) { failed = errors.Join(failed, err) },
	}
	requests, err := evaluate.New(o)
	if err != nil {
		return err
	}
	o.Policy = r.described
	descriptors, err := evaluate.New(o)
	if err != nil {
		return err
	}
	var call evaluate.Call
	for i := range c.steps {
		s := &c.steps[i]
		now = c.start.Add(s.at)
		if !r.admits(s.given.request.Client) {
			r.compare(i, s, map[string]int64{forbidden: s.given.times}, new(evaluate.Verdict), "allow and deny do not let in "+addressOf(s))
			continue
		}
		if r.token && s.given.request.Claims == nil {
			s.given.request.Token = &policy.TokenError{Problem: "a token is needed, and none was sent", Missing: true}
		}
		eval := requests
		if s.given.request.Descriptor != nil {
			eval = descriptors
		}
		counts := map[string]int64{}
		for range s.given.times {
			if err := ctx.Err(); err != nil {
				return err
			}
			eval.Decide(ctx, s.given.request.Attributes(), &call)
			if call.Evaluated == nil { // its client has left
				return call.Err
			}
			counts[wordOf(call.Evaluated)]++
			call.Settle(ctx, s.given.response)
			if failed != nil {
				return fmt.Errorf("config: case %q, step %d: %w", c.name, i+1, failed)
			}
		}
		v := call.Evaluated
		r.compare(i, s, counts, v, describe(v))
	}
	return nil
}

// wordOf returns the verdict in the words of a case.
func wordOf(v *evaluate.Verdict) string {
	switch {
	case v.Refused != nil:
		return "refused"
	case !v.Allowed:
		return "denied"
	}
	for range v.Warnings() {
		return "warned"
	}
	return "allowed"
}

// compare adds the differences from a step's expectation. Why explains the last request.
func (r *runner) compare(i int, s *step, counts map[string]int64, v *evaluate.Verdict, why string) {
	e := &s.expect
	fail := func(what, format string, args ...any) {
		n := e.asked[what]
		if n == nil {
			n = s.verdict
		}
		r.failures = append(r.failures, config.Fault{
			File: r.file, Line: n.Line, Column: n.Column,
			Problem: fmt.Sprintf("step %d: ", i+1) + fmt.Sprintf(format, args...),
		})
	}
	for _, word := range verdicts {
		want, said := e.counts[word]
		if want < 0 {
			want = s.given.times
		}
		if got := counts[word]; said && got != want {
			fail("verdict", "want %s, got %s (%s)", plural(want, word), listCounts(counts), why)
			return // the rest would repeat it
		}
	}
	binding, ok := v.Binding(nil)
	if !ok {
		binding = evaluate.Outcome{Rule: &policy.Rule{}, Level: &policy.Level{}, Limit: &sluice.Term{}}
	}
	check := func(what string, want, got any) {
		if e.asked[what] != nil && want != got {
			fail(what, "want %s %v, got %v (%s)", what, want, got, why)
		}
	}
	if v.Refused != nil && e.asked["rule"] != nil {
		check("rule", e.rule, v.Refused.Rule)
	} else {
		check("rule", e.rule, binding.Rule.Name)
	}
	check("level", e.level, binding.Level.Name)
	check("limit", e.limit, binding.Limit.Name)
	check("remaining", e.remaining, v.Decision.Remaining)
	check("retry_after", e.retryAfter, v.Decision.RetryAfter)
	check("delay", e.delay, v.Decision.Delay)
	if e.asked["would_deny"] == nil {
		return
	}
	var got []string
	for side := range v.Trials() {
		name := side.Rule.Name
		if side.Candidate != nil {
			name += "+" + side.Candidate.Name
		}
		if !side.Allowed {
			got = append(got, name)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, e.wouldDeny) {
		fail("would_deny", "want denials of candidates by %v, got %v", e.wouldDeny, got)
	}
}

func addressOf(s *step) string {
	if addr := s.given.request.Client; addr.IsValid() {
		return addr.String()
	}
	return "a client without an address; use one under from"
}

func listCounts(counts map[string]int64) string {
	var parts []string
	for _, word := range verdicts {
		if n := counts[word]; n > 0 {
			parts = append(parts, plural(n, word))
		}
	}
	return strings.Join(parts, ", ")
}

// describe returns the outcome of the last request and the reason.
func describe(v *evaluate.Verdict) string {
	if v.Refused != nil {
		return fmt.Sprintf("the last was refused by rule %s: %v", v.Refused.Rule, v.Refused)
	}
	if f := v.InFlight; f != nil {
		return fmt.Sprintf("the last was denied by rule %s: %d requests are in flight", f.Rule.Name, f.Decision.Held)
	}
	o, ok := v.Binding(nil)
	if !ok {
		return "no rule applies to the last"
	}
	name := o.Rule.Name
	if o.Level.Name != "" {
		name += "/" + o.Level.Name
	}
	d := &v.Decision
	switch {
	case v.Allowed && d.Delay > 0:
		return fmt.Sprintf("the last was delayed by %v by rule %s, %s, with %d left", d.Delay, name, o.Limit.Name, d.Remaining)
	case v.Allowed:
		return fmt.Sprintf("the last was allowed with %d left of rule %s, %s", d.Remaining, name, o.Limit.Name)
	case d.TooLarge:
		return fmt.Sprintf("the last was denied by rule %s, %s: it can never fit", name, o.Limit.Name)
	default:
		return fmt.Sprintf("the last was denied for %v by rule %s, %s", d.RetryAfter, name, o.Limit.Name)
	}
}
