// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package ratelimit

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/sluicegate/sluice"
)

// extended are the keys of a rate_limit that the service does not have, and refuses.
var extended = [...]string{"limits", "slots", "ttl"}

// extend reads the extended keys of a rate_limit. Those that it lacks are nil.
func (r *reader) extend(l *Limit, n, unit, limits, slots, ttl *yaml.Node) {
	if unit != nil || l.PerUnit > 0 || l.Unlimited {
		r.fault(cmp.Or(limits, slots, ttl), "limits and slots replace unit, requests_per_unit and unlimited; remove one or the other")
	}
	switch {
	case limits != nil && (slots != nil || ttl != nil):
		r.fault(cmp.Or(slots, ttl), "limits excludes slots and ttl; use a descriptor for each")
	case limits != nil:
		r.limits(&l.Limits, limits)
	case slots == nil || ttl == nil:
		r.fault(n, "slots and ttl belong together; use for example slots: 10 and ttl: 60s")
	default:
		r.slots(&l.Slots, slots, ttl)
	}
}

// limits reads a limit in sluice's text, or a list of them.
func (r *reader) limits(into *[]sluice.Limit, n *yaml.Node) {
	items, before := []*yaml.Node{n}, len(r.faults)
	if m := r.enter(n); m != nil && m.Kind == yaml.SequenceNode {
		items = m.Content
	}
	for _, item := range items {
		v, _ := r.scalarOf(item)
		if v == nil {
			continue
		}
		limit, err := sluice.ParseLimit(v.Value)
		bucket, _ := limit.Algorithm.(sluice.TokenBucket)
		if place, ok := errors.AsType[*sluice.TextError](err); ok {
			at := *v
			if at.Column += place.Offset; !plain(v) {
				at.Column++ // the quote
			}
			r.fault(&at, "limit %q: %s", shorten(v.Value), place.Problem)
		} else if err != nil {
			r.each(v, fmt.Sprintf("limit %q: ", shorten(v.Value)), errors.Unwrap(err))
		} else if limit.Debt > 0 && !bucket.NextWaits {
			r.fault(v, "limit %q: debt has no effect, as hits that do not fit are not counted; remove it, and use unit and requests_per_unit for hits that are known after the response", shorten(v.Value))
		}
		*into = append(*into, limit)
	}
	switch {
	case len(r.faults) > before:
	case len(*into) == 0:
		r.fault(n, "limits is empty; use for example limits: 100/min")
	default:
		plan, err := sluice.Compile("limits", *into...)
		if err != nil {
			r.each(n, "", errors.Unwrap(err))
			return
		}
		for i := range plan.Len() {
			if plan.Term(i).Queues {
				r.fault(n, "limit %q delays requests, which Envoy cannot; add nodelay", (*into)[i])
			}
		}
	}
}

// each adds a fault for each line of an error about limits.
func (r *reader) each(n *yaml.Node, about string, err error) {
	for line := range strings.SplitSeq(err.Error(), "\n") {
		r.fault(n, "%s%s", about, strings.TrimPrefix(line, "sluice: limit: "))
	}
}

// slots reads how many slots there are, and how long one is held that nobody releases.
func (r *reader) slots(into *sluice.SlotLimit, slots, ttl *yaml.Node) {
	var most uint32
	var text string
	r.number(&most)(slots)
	r.text(&text)(ttl)
	lasts, err := time.ParseDuration(text)
	if err != nil {
		r.fault(ttl, "ttl is %q; use a time with its unit, such as 60s", shorten(text))
		return
	}
	*into = sluice.SlotLimit{Name: "slots", Cap: int64(most), TTL: lasts}
	if err := into.Validate(); err != nil {
		r.each(slots, "", err)
	}
}

// owner checks that a descriptor with slots is one of owners, which its statistics do not name.
func (r *reader) owner(at *yaml.Node, n *node) {
	switch {
	case n.key != Owner:
		r.fault(at, "slots are for a descriptor of owners, not for %q; move them into one below, as - key: owner, without a value", shorten(n.key))
	case n.detailed || n.valueToMetric:
		r.fault(at, "detailed_metric and value_to_metric would make statistics for each owner; remove them beside slots")
	}
}
