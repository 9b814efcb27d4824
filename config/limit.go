// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/config/internal/document"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/profile"
)

// like holds the limits that others replace, see [sluice.ParseLimit].
type like struct{ limits, graces []sluice.Limit }

func likeOf(l *policy.Level) (of like) {
	for _, limit := range l.Limits {
		of.limits = append(of.limits, limit.Limit)
		if limit.Grace != nil {
			of.graces = append(of.graces, *limit.Grace)
		}
	}
	return of
}

// limitList reads one or more limits: "100/min", "soft 100/min grace 500/day", {soft: 100/min,
// grace: 500/day}, or {like: nginx}, which may stand for several.
func (d *decoder) limitList(n *yaml.Node, of like) (limits []policy.Limit) {
	d.List(n, func(n *yaml.Node) {
		m := d.Enter(n)
		if m == nil {
			return
		}
		if m.Kind == yaml.MappingNode {
			limits = append(limits, d.limitKeys(m, of)...)
		} else if l, ok := d.limitText(m, of); ok {
			limits = append(limits, l)
		}
	})
	return limits
}

// none reports whether n says that there are no limits.
func none(n *yaml.Node) bool {
	n = document.Resolved(n)
	return n.Kind == yaml.ScalarNode && n.Value == noLimits
}

const noLimits = "none"

func (d *decoder) limitKeys(n *yaml.Node, of like) (limits []policy.Limit) {
	var soft, grace *sluice.Limit
	var platform *yaml.Node
	read := func(into **sluice.Limit, like []sluice.Limit) func(*yaml.Node) {
		return func(n *yaml.Node) {
			if s, ok := d.Text(n, "a limit"); ok {
				if l, ok := d.limit(n, s, 0, like); ok {
					*into = &l
				}
			}
		}
	}
	if meant := meantByKeys(n); meant != "" {
		d.Fault(n, "a limit is a text; use %s", meant)
		return nil
	}
	before := d.Count()
	d.Mapping(n, "a limit", document.Key("soft", "Limit above which requests are allowed with a warning.", read(&soft, of.limits)), document.Key("grace", "Limit above which they are denied.", read(&grace, of.graces)),
		document.Key("like", "Platform that gives the limits.", func(n *yaml.Node) {
			platform = n
			limits = d.likeLimits(n)
		}))
	switch {
	case d.Count() > before:
		return nil
	case platform != nil && (soft != nil || grace != nil):
		d.Fault(platform, "like excludes soft and grace, as a platform's limits are hard; leave out soft and grace")
		return nil
	case platform != nil:
		return limits
	case soft == nil || grace == nil:
		d.Fault(n, "a soft limit needs a grace limit; set both, such as {soft: 100/min, grace: 500/day}")
		return nil
	}
	return []policy.Limit{{Limit: *soft, Grace: grace}}
}

func (d *decoder) limitText(n *yaml.Node, of like) (policy.Limit, bool) {
	text, ok := d.Text(n, "a limit")
	if !ok {
		return policy.Limit{}, false
	}
	if text == noLimits {
		d.Fault(n, "none is for a tier without limits, or for a rule with limits in its tiers only, and excludes other limits; exempt single keys by exempt: {keys: …}")
		return policy.Limit{}, false
	}
	if meant := meantByLimit(text); meant != "" {
		d.Fault(n, "limit %q: %s", document.Shorten(text), meant)
		return policy.Limit{}, false
	}
	soft, isSoft := strings.CutPrefix(text, "soft ")
	if !isSoft {
		l, ok := d.limit(n, text, 0, of.limits)
		return policy.Limit{Limit: l}, ok
	}
	const word = " grace "
	at := strings.Index(soft, word)
	if at < 0 {
		d.FaultAt(n, len(text), "a soft limit needs a grace limit behind it; use for example: soft 100/min grace 500/day")
		return policy.Limit{}, false
	}
	l, ok := d.limit(n, soft[:at], len("soft "), of.limits)
	grace, ok2 := d.limit(n, soft[at+len(word):], len("soft ")+at+len(word), of.graces)
	return policy.Limit{Limit: l, Grace: &grace}, ok && ok2
}

// meantByLimit returns the remedy for a word that is no limit, or "" if it may be one.
func meantByLimit(text string) string {
	word := strings.ToLower(strings.TrimSpace(strings.TrimPrefix(text, "like ")))
	if _, ok := profile.Get(word); ok {
		return "is a platform; use like: " + word + " in place of limits, or {like: " + word + "} among them"
	}
	if slices.Contains([]string{noLimits, "unlimited", "no", "off"}, word) {
		return "use none, without others, for a tier without limits"
	}
	return ""
}

// limit reads the text of a limit, which begins at an offset in the node's text.
func (d *decoder) limit(n *yaml.Node, text string, offset int, like []sluice.Limit) (sluice.Limit, bool) {
	if l, ok := d.limits[text]; ok && len(like) == 0 {
		return l, true
	}
	l, err := sluice.ParseLimit(text, like...)
	if err == nil {
		if len(like) == 0 {
			d.limits[text] = l
		}
		return l, true
	}
	if place, ok := errors.AsType[*sluice.TextError](err); ok {
		d.FaultAt(n, offset+place.Offset, "limit %q: %s", document.Shorten(text), place.Problem)
		return l, false
	}
	found := false
	for _, err := range flatten(err) {
		if fault, ok := errors.AsType[*sluice.LimitError](err); ok {
			found = true
			if fault.Field == "Quota" && strings.HasPrefix(fault.Problem, "0 ") {
				d.FaultAt(n, offset, "limit %q admits nothing; use deny for networks that may send nothing, or remove the rule", document.Shorten(text))
				continue
			}
			d.FaultAt(n, offset, "limit %q: %s: %s", document.Shorten(text), limitWord(fault.Field), fault.Problem)
		}
	}
	if !found {
		d.FaultAt(n, offset, "limit %q: %v", document.Shorten(text), err)
	}
	return l, false
}

// limitWord returns the word for a field in a limit's text.
func limitWord(field string) string {
	switch field {
	case "InitialDeficit":
		return "initial"
	case "BlockFor":
		return "block"
	case "WeekStart":
		return "week-starts"
	}
	var b strings.Builder
	for i, c := range field {
		if i > 0 && 'A' <= c && c <= 'Z' {
			b.WriteByte('-')
		}
		b.WriteRune(c)
	}
	return strings.ToLower(b.String())
}

// slots reads a limit of concurrent requests or connections: 10, or {cap: 10, ttl: 1m}.
func (d *decoder) slots(n *yaml.Node, name, may, most, ends string) *sluice.SlotLimit {
	l := &sluice.SlotLimit{}
	before := d.Count()
	short, limit := d.Number(name, "", 1, maxSlots, &l.Cap), d.Number("cap", most, 1, maxSlots, &l.Cap)
	mapped := d.MappingOr(n, name, short.Read, limit, d.Duration("ttl", ends, time.Millisecond, sluice.MaxWindow, &l.TTL))
	if mapped && l.Cap == 0 && d.Count() == before {
		d.Fault(n, "%s without a cap; set how many %s at once, such as cap: 10", name, may)
	}
	return l
}

// flatten returns the joined errors of err, or err alone.
func flatten(err error) []error {
	for err != nil {
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			return joined.Unwrap()
		}
		next := errors.Unwrap(err)
		if next == nil {
			return []error{err}
		}
		err = next
	}
	return nil
}

// cost reads 1, request-bytes, response-bytes, milliseconds, or a header's number with its
// accepted maximum.
func (d *decoder) cost(n *yaml.Node, c *policy.Cost) {
	m := d.Enter(n)
	if m == nil {
		return
	}
	const forms = "use a number, request-bytes, response-bytes, milliseconds, or {response_header: X-Cost, most: 1000, estimate: 1}"
	if m.Kind != yaml.MappingNode {
		s, ok := d.Text(m, "cost")
		switch {
		case !ok:
		case s == "request-bytes":
			c.Of = policy.RequestBytes
		case s == "response-bytes":
			c.Of = policy.ResponseBytes
		case s == "milliseconds":
			c.Of = policy.Milliseconds
		default:
			v, err := strconv.ParseInt(s, 10, 64)
			if err != nil || v < 1 || v > sluice.MaxQuota {
				d.Fault(n, "cost is %q; %s", document.Shorten(s), forms)
			}
			c.Units = v
		}
		return
	}
	var request, response string
	before := d.Count()
	d.Mapping(m, "cost",
		d.Word("request_header", "Header field of the request with its cost.", &request),
		d.Word("response_header", "Header field of the response with its cost.", &response),
		d.Number("most", "The largest number that is trusted.", 1, sluice.MaxQuota, &c.Most),
		d.Number("estimate", "Units charged on arrival (default 1).", 1, sluice.MaxQuota, &c.Units),
	)
	switch {
	case d.Count() > before:
	case (request == "") == (response == ""):
		d.Fault(n, "a cost is in one header; %s", forms)
	case c.Most == 0:
		d.Fault(n, "without most one wrong header could use up a budget; set the largest number to accept, such as most: 1000")
	}
	c.Of, c.Header = policy.RequestHeader, request
	if response != "" {
		c.Of, c.Header = policy.ResponseHeader, response
	}
}

// when reads the responses that count: 401, 4xx, 500-503, or a list of these.
func (d *decoder) when(n *yaml.Node) *policy.When {
	w := &policy.When{}
	statuses := func(n *yaml.Node) {
		d.Each(n, "response", func(n *yaml.Node, s string) {
			status, ok := parseStatus(s)
			if !ok {
				d.Fault(n, "response is %q; use a status, a class or a range, such as 401, 4xx or 500-503", document.Shorten(s))
				return
			}
			w.Status = append(w.Status, status)
		})
	}
	if m := d.Enter(n); m == nil {
		return w
	} else if m.Kind != yaml.MappingNode {
		d.Fault(n, "when is %s; list the responses that count, such as {response: [401, 4xx]}", document.Kind(m))
		return w
	}
	before := d.Count()
	d.Mapping(n, "when", document.Key("response", "Statuses that count: 401, 4xx or 500-503.", statuses), document.Key("charge", "first: charge requests on arrival, and refund those that do not count (default: charge those that count, once the response is known).", func(n *yaml.Node) {
		var word string
		d.Choice(n, "charge", &word, "first")
		w.ChargeFirst = word == "first"
	}))
	if len(w.Status) == 0 && d.Count() == before {
		d.Fault(n, "when without response; list the responses that count, such as response: [401, 4xx]")
	}
	return w
}

func parseStatus(s string) (policy.Status, bool) {
	if len(s) == 3 && s[1:] == "xx" && '1' <= s[0] && s[0] <= '5' {
		return policy.Class(int(s[0] - '0')), true
	}
	from, to, isRange := strings.Cut(s, "-")
	if !isRange {
		to = from
	}
	a, err := strconv.ParseUint(from, 10, 16)
	b, err2 := strconv.ParseUint(to, 10, 16)
	return policy.Status{From: int(a), To: int(b)}, err == nil && err2 == nil && 100 <= a && a <= b && b <= 599
}

// foreign maps the parts of a limit to their keys in other limiters.
var foreign = map[string][]string{
	"quota":  {"rate", "limit", "quota", "count", "max", "requests", "requests_per_unit", "average", "events", "units"},
	"window": {"per", "period", "window", "unit", "interval", "duration", "every"},
	"burst":  {"burst", "capacity", "max_burst"},
}

// meantByKeys returns the remedy for a mapping with the keys of other limiters, or "" for any
// other mapping.
func meantByKeys(n *yaml.Node) string {
	parts, known := map[string]string{}, false
	for i := 0; i+1 < len(n.Content); i += 2 {
		for part, keys := range foreign {
			if slices.Contains(keys, strings.ToLower(n.Content[i].Value)) {
				parts[part], known = document.Resolved(n.Content[i+1]).Value, true
			}
		}
	}
	if !known {
		return ""
	}
	if quota, window, joined := strings.Cut(parts["quota"], "/"); joined {
		parts["quota"], parts["window"] = quota, window
	}
	text := parts["quota"] + "/" + windowWord(parts["window"])
	if _, err := strconv.ParseUint(parts["burst"], 10, 63); err == nil {
		text += " burst " + parts["burst"]
	}
	if _, err := sluice.ParseLimit(text); err != nil {
		return "60/min burst 10"
	}
	return text
}

// windowWord returns the window for a text of other limiters, such as 60s or minute.
func windowWord(text string) string {
	text = strings.ToLower(strings.TrimSpace(text))
	for word, others := range map[string][]string{
		"s": {"second", "seconds", "sec", "1s", "1000ms"}, "min": {"minute", "minutes", "m", "1m", "60s", "1m0s"},
		"h": {"hour", "hours", "1h", "60m", "3600s"}, "day": {"days", "d", "24h", "86400s"},
	} {
		if slices.Contains(others, text) {
			return word
		}
	}
	if _, err := strconv.ParseUint(text, 10, 63); err == nil {
		return windowWord(text + "s")
	}
	return text
}
