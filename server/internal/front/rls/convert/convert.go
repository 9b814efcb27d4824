// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package convert turns files of envoyproxy/ratelimit into rules of sluice's file. Rules decide
// descriptors as the files do; what differs is noted by line.
package convert

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/server/internal/front/rls/ratelimit"
)

// ErrNoLimits is returned by Convert, with its notes, for files without a limit that can be
// converted.
var ErrNoLimits = errors.New("no limit that can be converted")

// Convert returns the limits of files as a file of sluice's with a listener, and notes about what
// differs, in the order of their lines. The error has the faults of the files. Check returns the
// faults of a file of sluice's.
func Convert(files []ratelimit.File, check func(yaml []byte) (problems []string)) (yaml []byte, notes config.Faults, err error) {
	limits, notes, err := ratelimit.Parse(files, true)
	if err != nil {
		return nil, notes, err
	}
	c := &converter{notes: notes, names: make(map[string]bool), orders: make(map[string]ratelimit.Way), hosts: make(map[string]string)}
	for _, way := range limits.Ways() {
		c.limit(way)
	}
	order := func(name string) int {
		return slices.IndexFunc(files, func(f ratelimit.File) bool { return f.Name == name })
	}
	slices.SortStableFunc(c.notes, func(a, b config.Fault) int {
		return cmp.Or(order(a.File)-order(b.File), a.Line-b.Line)
	})
	if c.rules.Len() == 0 {
		return nil, c.notes, ErrNoLimits
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# Converted from %s. Without a note, hits are decided as before. Of all rules:\n"+
		"# - hits_addend: 0 is denied when nothing is left; before, when more hits than the limit were counted\n"+
		"# - is_negative_hits: a window counts no more hits than its limit, so those that come back leave room at once\n"+
		"# - entries may come in any order, and must have a value; limits that requests bring do not apply\n"+
		"# - values are those of their key alone; before, user with the value * was for user_agent, too\n"+
		"# - if the store fails, hits are allowed; failure: closed denies them\n"+
		"listen: {address: 127.0.0.1:8081, serve: rls}\nrules:\n%s", strings.Map(printable, files[0].Name), c.rules.String())
	for _, problem := range check([]byte(b.String())) {
		c.notes = append(c.notes, config.Fault{File: files[0].Name, Problem: "the rules together: " + problem})
	}
	return []byte(b.String()), c.notes, nil
}

// converter collects rules and notes.
type converter struct {
	rules  strings.Builder
	notes  config.Faults
	names  map[string]bool
	orders map[string]ratelimit.Way // by domain and sorted keys
	hosts  map[string]string        // domain by host
}

// note adds a note about a limit.
func (c *converter) note(l *ratelimit.Limit, format string, args ...any) {
	c.notes = append(c.notes, config.Fault{File: l.File, Line: l.Line, Problem: fmt.Sprintf(format, args...)})
}

// limit writes the rule of a limit.
func (c *converter) limit(way ratelimit.Way) {
	l := way.Limit
	c.differences(way)
	if l.Unlimited || !c.expressible(way) {
		return
	}
	var match, except, by []string
	for _, e := range way.Entries {
		value := cmp.Or(e.Value, "*")
		match = append(match, quote(e.Key)+": "+quote(value))
		if len(e.Before) > 0 {
			except = append(except, quote(e.Key)+": "+list(e.Before))
		}
		if strings.Contains(value, "*") && !e.Shared {
			by = append(by, "descriptor."+e.Key)
		}
	}
	limits := sluice.Limit{Quota: int64(l.PerUnit), Window: l.Unit.Window(), Algorithm: sluice.FixedWindow{}, CountDenied: true}.String()
	if len(l.Limits) > 0 {
		var own []string
		for _, limit := range l.Limits {
			own = append(own, limit.String())
		}
		limits = list(own)
	}
	fmt.Fprintf(&c.rules, "  - name: %s   # line %d\n    match:\n", quote(c.name(l)), l.Line)
	if host := c.host(way); host != "" {
		fmt.Fprintf(&c.rules, "      host: %s\n", quote(host))
	}
	fmt.Fprintf(&c.rules, "      descriptor: {%s}\n", strings.Join(match, ", "))
	if len(except) > 0 {
		fmt.Fprintf(&c.rules, "      except_descriptor: {%s}\n", strings.Join(except, ", "))
	}
	if len(by) > 0 {
		fmt.Fprintf(&c.rules, "    by: %s\n", list(by))
	}
	fmt.Fprintf(&c.rules, "    limits: %s", limits)
	if l.Unit == ratelimit.Month || l.Unit == ratelimit.Year {
		fmt.Fprintf(&c.rules, "   # as before; of the calendar: %d/%v calendar UTC", l.PerUnit, l.Unit)
	}
	c.rules.WriteByte('\n')
	if l.Shadow {
		c.rules.WriteString("    mode: shadow\n")
	}
}

// differences notes what a rule does not have.
func (c *converter) differences(way ratelimit.Way) {
	l := way.Limit
	for _, difference := range []struct {
		on   bool
		text string
	}{
		{l.Quota, "quota_mode is not kept: the rule denies the request by itself"},
		{len(l.Replaces) > 0, "replaces is not kept: the limit that is replaced applies, too"},
		{l.Metadata != nil, "metadata is not kept: answers do not have it"},
		{way.Metric, "detailed_metric and value_to_metric are not kept: metrics have the names of rules"},
	} {
		if difference.on {
			c.note(l, "%s", difference.text)
		}
	}
}

// expressible reports whether a rule can have the conditions of a limit.
func (c *converter) expressible(way ratelimit.Way) bool {
	l, keys := way.Limit, make([]string, 0, len(way.Entries))
	for _, e := range way.Entries {
		switch {
		case slices.Contains(keys, e.Key):
			c.note(l, "not kept: rules do not match two entries of the key %q; leave the limit in a file, under rls: {files: FILE}", e.Key)
			return false
		case slices.Contains(e.Before, "*"):
			c.note(l, "left out: it never applies, as the file has the value * of %q before it", e.Key)
			return false
		case strings.Contains(e.Key, "*"):
			c.note(l, "not kept: a star in the key %q; name the keys", e.Key)
			return false
		}
		keys = append(keys, e.Key)
	}
	if l.Slots.Cap > 0 {
		c.note(l, "not kept: rules have no slots of owners here; leave them in a file, under rls: {files: FILE}")
		return false
	}
	if l.PerUnit == 0 && len(l.Limits) == 0 {
		c.note(l, "not kept: a limit of 0 denies all, and no rule does; leave it in a file, under rls: {files: FILE}")
		return false
	}
	same := func(o ratelimit.Way) bool {
		return slices.EqualFunc(way.Entries, o.Entries, func(a, b ratelimit.Condition) bool { return a.Key == b.Key })
	}
	sorted := strings.Join(append([]string{way.Domain}, slices.Sorted(slices.Values(keys))...), "\x00")
	if first, there := c.orders[sorted]; !there {
		c.orders[sorted] = way
	} else if !same(first) {
		c.note(l, "the limit on line %d has the same keys in another order: rules match any order, and both may apply", first.Limit.Line)
	}
	return true
}

// host returns the host that stands for a domain, empty if none does.
func (c *converter) host(way ratelimit.Way) string {
	host := ratelimit.HostOf(way.Domain)
	_, err := policy.ParseHost(host)
	first, there := c.hosts[host]
	c.hosts[host] = way.Domain
	switch {
	case err != nil:
		c.note(way.Limit, "the domain %q is no host: the rule applies to all domains", way.Domain)
		return ""
	case there && first != way.Domain:
		c.note(way.Limit, "the domain %q is the host %s, as %q is: the rules of both apply to both", way.Domain, host, first)
	}
	return host
}

var notInName = regexp.MustCompile(`[^a-z0-9._]+`)

// name makes a unique name of a rule from that of its limit, or from its path.
func (c *converter) name(l *ratelimit.Limit) string {
	const most = 56
	base := strings.Trim(notInName.ReplaceAllString(strings.ToLower(cmp.Or(l.Name, l.Path)), "-"), "-")
	base = base[max(len(base)-most, 0):]
	name := base
	for n := 2; name == "" || c.names[name]; n++ {
		name = fmt.Sprintf("%s-%d", base, n)
	}
	c.names[name] = true
	return name
}

func printable(r rune) rune {
	if strconv.IsPrint(r) {
		return r
	}
	return '?'
}

func list(values []string) string {
	quoted := make([]string, len(values))
	for i, v := range values {
		quoted[i] = quote(v)
	}
	if len(quoted) == 1 {
		return quoted[0]
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

var (
	plain      = regexp.MustCompile(`^[A-Za-z/][A-Za-z0-9._/-]*$`)
	wordOfYAML = regexp.MustCompile(`(?i)^(null|true|false|yes|no|on|off|y|n)$`)
)

// quote writes a text so that YAML reads it unchanged.
func quote(s string) string {
	if plain.MatchString(s) && !wordOfYAML.MatchString(s) {
		return s
	}
	return strconv.Quote(s)
}
