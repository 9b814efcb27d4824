// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package ratelimit

import (
	"bytes"
	"cmp"
	"slices"
)

// Way is a limit, and the entries of the descriptors that it is for.
type Way struct {
	Domain  string
	Entries []Condition
	Limit   *Limit
	// Metric says that the file names the limit's statistics by the values of entries.
	Metric bool
}

// Condition is what a limit says about an entry.
type Condition struct {
	Key, Value string // an empty Value is any; stars in it are any text
	Shared     bool   // all values of the pattern share a budget
	// Before are the values and patterns of the key that are looked up first, so that the limit
	// is not for them.
	Before []string
}

// Ways returns the ways to all limits, in the order of the files.
func (c *Config) Ways() (all []Way) {
	for domain, n := range c.domains {
		n.ways(Way{Domain: domain}, &all)
	}
	slices.SortFunc(all, func(a, b Way) int {
		return cmp.Or(cmp.Compare(a.Limit.File, b.Limit.File), cmp.Compare(a.Limit.Line, b.Limit.Line), cmp.Compare(a.Limit.Path, b.Limit.Path))
	})
	return all
}

// ways appends the ways to the limits of a descriptor, to which way leads, and of those below it.
func (n *node) ways(way Way, all *[]Way) {
	if n.limit != nil {
		way.Limit = n.limit
		*all = append(*all, way)
	}
	for _, child := range n.children {
		below := way
		below.Entries = append(slices.Clip(way.Entries), Condition{child.name, child.value, child.share, n.before(child)})
		below.Metric = way.Metric || child.detailed || child.valueToMetric
		child.ways(below, all)
	}
}

// before returns the values and patterns that are looked up before a child, and may be its.
func (n *node) before(child *node) (list []string) {
	if child.value != "" && child.pattern == nil {
		return nil
	}
	for _, o := range n.children {
		if o.name == child.name && o.value != "" && o.pattern == nil && (child.value == "" || matches(child.pattern, []byte(o.key))) {
			list = append(list, o.value)
		}
	}
	slices.Sort(list)
	for _, o := range n.wildcards {
		if o == child {
			break
		}
		if o.name == child.name && o.value != "" && !(child.pattern != nil && apart(o.pattern, child.pattern)) {
			list = append(list, o.value)
		}
	}
	return list
}

// apart reports that no text has both patterns, as their beginnings or their ends differ. It errs
// to false.
func apart(a, b [][]byte) bool {
	a1, b1, a2, b2 := a[0], b[0], a[len(a)-1], b[len(b)-1]
	return !bytes.HasPrefix(a1, b1) && !bytes.HasPrefix(b1, a1) || !bytes.HasSuffix(a2, b2) && !bytes.HasSuffix(b2, a2)
}
