// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/internal/amount"
	"github.com/sluicegate/sluice/policy"
)

// Report describes a file without faults.
type Report struct {
	File      string
	Version   string
	Listeners []Words // those with limits
	Rules     []Words
	Warnings  []Warning
	Hints     []Hint
}

// Words describe a rule or a listener.
type Words struct {
	Rule  string   `json:"name"` // name of the rule or listener
	Line  int      `json:"line"` // of the file, from 1
	Lines []string `json:"words"`
}

// Warning is about a setting that is allowed but makes no sense.
type Warning struct {
	File     string `json:"file"`
	Line     int    `json:"line"`               // of the rule or listener, or of a key in another file, from 1
	Column   int    `json:"column,omitempty"`   // of that key, from 1; else 0
	Rule     string `json:"rule,omitempty"`     // empty if it is not about a rule
	Listener string `json:"listener,omitempty"` // empty if it is not about a listener
	Problem  string `json:"text"`               // the problem and its remedy
}

// String returns FILE:LINE: and the warning, with the column behind the line if there is one.
func (w Warning) String() string {
	switch {
	case w.Column > 0:
		return fmt.Sprintf("%s:%d:%d: warning: %s", w.File, w.Line, w.Column, w.Problem)
	case w.Rule == "" && w.Listener == "":
		return fmt.Sprintf("%s:%d: warning: %s", w.File, w.Line, w.Problem)
	case w.Rule == "":
		return fmt.Sprintf("%s:%d: warning: listener %q: %s", w.File, w.Line, w.Listener, w.Problem)
	}
	return fmt.Sprintf("%s:%d: warning: rule %q: %s", w.File, w.Line, w.Rule, w.Problem)
}

// Hint is about a setting that may be wrong, depending on facts that the file lacks.
type Hint struct {
	File string `json:"file"`
	Line int    `json:"line"` // from 1
	Text string `json:"text"` // the fact to check, and the remedy
}

// String returns FILE:LINE: and the hint.
func (h Hint) String() string { return fmt.Sprintf("%s:%d: hint: %s", h.File, h.Line, h.Text) }

// Check describes every rule of c and every listener with limits, with its worst case, and
// warns, also of overrides that have expired by now.
func Check(c *config.Config, now time.Time) *Report {
	l := &Report{File: c.File, Version: c.Version, Warnings: Warnings(c, now)}
	for i := range c.Listen {
		if at := &c.Listen[i]; at.Limits.Limited() {
			l.Listeners = append(l.Listeners, Words{Rule: at.Name, Line: at.Line, Lines: listenerWords(c, at)})
		}
	}
	for i := range len(c.Policy.Rules()) {
		r := &c.Policy.Rules()[i]
		l.Rules = append(l.Rules, Words{Rule: r.Name, Line: c.Line(i), Lines: slices.Concat(listedWords(c, r.Name), words(c, r), profileWords(c.Platforms[r.Name]))})
	}
	l.Hints = slices.Concat(shared(c), invited(c), blockHints(c), nodesHints(c))
	return l
}

// Warnings returns the warnings about c, also those about overrides that have expired by now.
func Warnings(c *config.Config, now time.Time) (all []Warning) {
	for _, text := range proxyWarnings(c) {
		all = append(all, Warning{File: c.File, Line: c.ClientIP.Line, Problem: text})
	}
	for i := range c.Listen {
		at := &c.Listen[i]
		for _, text := range listenerWarnings(c, at) {
			all = append(all, Warning{File: c.File, Line: at.Line, Listener: at.Name, Problem: text})
		}
	}
	for i := range len(c.Policy.Rules()) {
		r := &c.Policy.Rules()[i]
		for _, text := range slices.Concat(warnings(c, i, now), unleased(c, i), tooManyKeys(c, i), tooLate(c, i), shortBlocks(r), occupied(r), unreached(c, r), forged(r), foreignPaths(r)) {
			all = append(all, Warning{File: c.File, Line: c.Line(i), Rule: r.Name, Problem: text})
		}
	}
	return all
}

// WriteText writes the rules, then the warnings and hints.
func (l *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, version %s: %s\n", l.File, l.Version, count(len(l.Rules), "rule"))
	section := func(what string, all []Words) {
		for _, words := range all {
			fmt.Fprintf(&b, "\n%s%s (line %d)\n", what, words.Rule, words.Line)
			for _, line := range words.Lines {
				b.WriteString("  " + line + "\n")
			}
		}
	}
	section("listener ", l.Listeners)
	section("", l.Rules)
	if len(l.Warnings)+len(l.Hints) > 0 {
		b.WriteByte('\n')
	}
	for _, warning := range l.Warnings {
		b.WriteString(warning.String() + "\n")
	}
	for _, hint := range l.Hints {
		b.WriteString(hint.String() + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func count[N int | int64](n N, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// warnings returns the settings without effect in the i-th rule.
func warnings(c *config.Config, i int, now time.Time) (texts []string) {
	r := &c.Policy.Rules()[i]
	chosen := profileLimits(c.Platforms[r.Name]) // their bursts are meant so
	var reported []sluice.Limit                  // limits that never deny, already reported
	add := func(format string, args ...any) { texts = append(texts, fmt.Sprintf(format, args...)) }
	if c.Store.Redis != "" && r.When != nil && !r.When.ChargeFirst && !r.Shadow {
		add("each node knows only its own pending responses, so a client that hangs up on one node hides failures from the others; write charge: first")
	}
	if r.MaxWait > 0 && !r.Shape && !waits(r) {
		add("max_wait delays nothing: nothing is charged before the response; leave it out, or write charge: first with when")
	}
	for j := range r.Levels {
		l := &r.Levels[j]
		sets := [][]policy.Limit{l.Limits}
		if l.Tiers != nil {
			for _, tier := range sortedKeys(l.Tiers.Limits) {
				sets = append(sets, l.Tiers.Limits[tier])
			}
		}
		for _, o := range l.Overrides {
			sets = append(sets, o.Limits)
			if !o.Expires.IsZero() && !o.Expires.After(now) {
				add("the override of %s expired on %s; remove it", keyText(l, o.Key), o.Expires.Format(time.DateOnly))
			}
		}
		texts = append(texts, crossing(sets)...)
		for _, set := range sets {
			more, some := pointless(r, set)
			texts, reported = append(texts, more...), append(reported, some...)
			for _, limit := range set {
				texts = append(texts, holding(r, l, limit)...)
				if !slices.Contains(chosen, limit.Limit) {
					texts = append(texts, odd(r, limit.Limit)...)
				}
				if limit.Grace != nil {
					texts = append(texts, odd(r, *limit.Grace)...)
				}
			}
		}
		for _, trial := range l.Candidates {
			if same(trial.Limits, l.Limits) && len(trial.Tiers) == 0 {
				add("the candidate %s equals the active limits; remove it, or try other limits", trial.Name)
			}
			for _, limit := range trial.Limits {
				if problem := r.NeverAdmits(policy.Limit{Limit: limit}); problem != "" {
					add("the candidate %s: %s", trial.Name, problem)
				}
			}
		}
	}
	texts = append(texts, covered(c, i, reported)...)
	for j := range texts {
		texts[j] = inUnits(r.Cost, texts[j])
	}
	return append(texts, free(c, i)...)
}

func same(a []sluice.Limit, b []policy.Limit) bool {
	return slices.EqualFunc(a, b, func(x sluice.Limit, y policy.Limit) bool { return y.Grace == nil && x.Filled() == y.Limit.Filled() })
}

// odd returns the settings without effect in a single limit.
func odd(r *policy.Rule, l sluice.Limit) (texts []string) {
	f := l.Filled()
	if r.Cost.Afterwards() && r.Cost.Of != policy.RequestBytes && !r.Shape {
		switch {
		case counts(f):
			if f.Debt == 0 && r.HoldFor == 0 { // a budget that is held has no other choice
				texts = append(texts, fmt.Sprintf("%v: one response of any size passes in each window; use a bucket, such as token-bucket, which keeps the client out for as long as the response is worth", l))
			}
		case l.Debt == sluice.NoDebt:
			texts = append(texts, fmt.Sprintf("%v forgets what a response costs above it, so that large responses are not limited; leave out debt 0", l))
		}
	}
	if text := unserved(l); text != "" {
		texts = append(texts, text)
	}
	burst := f.Burst
	if b, ok := f.Algorithm.(sluice.LeakyBucket); ok {
		burst = b.DelayAfter
		if wait := algo.WorstOf(l).Delay; !r.Shape && wait > 30*time.Second && (r.MaxWait == 0 || r.MaxWait > 30*time.Second) {
			texts = append(texts, fmt.Sprintf("%v delays a request for up to %v, longer than most clients wait; use a max_wait, a smaller burst, or nodelay", l, wait))
		}
	}
	if (r.Cost.Of == policy.RequestBytes || r.Cost.Of == policy.ResponseBytes) && !r.Shape && algo.WorstOf(l).Delay > 0 {
		texts = append(texts, fmt.Sprintf("%v delays a request as a whole, by the bytes that are known of it when it comes; use shape: true to slow bodies down, or nodelay", l))
	}
	if wait := algo.WorstOf(l).NextWait; wait > 30*time.Second {
		texts = append(texts, fmt.Sprintf("%v lets one request owe so much that the next ones of its key wait for up to %v, longer than most clients do; lower the debt", l, wait))
	}
	if late := algo.WorstOf(l).Late; late > 30*time.Second {
		texts = append(texts, fmt.Sprintf("%v serves a key that has been idle up to %v later, longer than most clients wait; shorten the warm-up", l, late))
	}
	if burst/10 < f.Quota {
		return texts
	}
	refill := time.Duration(float64(burst) / float64(f.Quota) * float64(f.Window)) // rounded, for a text
	if refill >= time.Minute {
		texts = append(texts, fmt.Sprintf("%v: a burst of %d makes the quota of %d all but meaningless: %s; lower the burst, or write the quota of a longer window",
			l, burst, f.Quota, algo.WorstOf(l)))
	}
	return texts
}

// pointless returns the limits of a list that can never deny because of another one in it.
func pointless(r *policy.Rule, set []policy.Limit) (texts []string, reported []sluice.Limit) {
	if r.Cost.Afterwards() {
		return nil, nil // a charge afterwards may exceed any limit
	}
	for i, loose := range set {
		for j, tight := range set {
			if i == j || tight.Grace != nil || !implies(tight.Limit, loose.Limit, r.MaxWait) {
				continue
			}
			if j > i && loose.Grace == nil && implies(loose.Limit, tight.Limit, r.MaxWait) {
				continue // they are equivalent: the later one is reported
			}
			texts = append(texts, never(loose, tight.Limit, "beside it"))
			reported = append(reported, loose.Limit)
			break
		}
	}
	return texts, reported
}

func never(loose policy.Limit, tight sluice.Limit, where string) string {
	verb := "can never deny"
	if loose.Grace != nil {
		verb = "can never be passed"
	}
	window := loose.Limit.Filled().Window
	return fmt.Sprintf("%v %s: %v, %s, lets at most %s pass in any %s; leave it out, or lower it",
		loose.Limit, verb, tight, where, amount.Of(algo.Bound(tight, window), tight.Unit == sluice.Bytes), amount.Length(window))
}

// covered returns the limits of the i-th rule that can never deny because of another rule that
// applies whenever it does, without those already reported.
func covered(c *config.Config, i int, reported []sluice.Limit) (texts []string) {
	p := c.Policy
	r := &p.Rules()[i]
	if r.Shadow || r.Cost.Afterwards() || len(r.Levels) != 1 {
		return nil
	}
	var m policy.Matches
	p.Match(p.Example(i).Attributes(), &m)
	for _, loose := range r.Levels[0].Limits {
		if slices.Contains(reported, loose.Limit) {
			continue
		}
		for k := range m.Len() {
			at, other := m.At(k), &p.Rules()[m.At(k)]
			if at == i || !beside(c, other.Name, r.Name) || !wider(other, r) || wider(r, other) && at > i {
				continue
			}
			tight := slices.IndexFunc(other.Levels[0].Limits, func(l policy.Limit) bool {
				return l.Grace == nil && implies(l.Limit, loose.Limit, r.MaxWait)
			})
			if tight >= 0 {
				texts = append(texts, never(loose, other.Levels[0].Limits[tight].Limit, fmt.Sprintf("of rule %q", other.Name)))
				break
			}
		}
	}
	return texts
}

// free warns if clients can state a cost of nothing for their requests and no rule with a
// fixed cost limits these.
func free(c *config.Config, i int) (texts []string) {
	p := c.Policy
	r := &p.Rules()[i]
	if r.Shadow || r.Cost.Of != policy.RequestHeader {
		return nil
	}
	var m policy.Matches
	p.Match(p.Example(i).Attributes(), &m)
	for k := range m.Len() {
		other := p.Rules()[m.At(k)]
		if other.Cost.Of != policy.Fixed {
			continue
		}
		other.Cost = r.Cost
		if wider(&other, r) && beside(c, other.Name, r.Name) && len(other.Levels[0].Limits) > 0 {
			return nil
		}
	}
	return []string{fmt.Sprintf("a client that sends %s: 0 is not limited, as that passes when all is spent; have a proxy in front set the field, or add a rule of the same match and key with a fixed cost",
		r.Cost.Header)}
}
