// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package fleetview

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sluicegate/sluice/server/internal/report"
)

const (
	mostNamed = 5 // nodes in a note
	// mostSkew is the largest difference of a node's clock from the store's, and mostGone the
	// longest time for which the heartbeat of a gone node may be counted.
	mostSkew = 5 * time.Second
	mostGone = time.Minute
)

// note adds the notes, the gravest first.
func (f *Fleet) note(self *report.Node, others *report.Fleet, sum *report.Sum) {
	if !f.Shared {
		return
	}
	if others.Err != nil {
		f.noteStore(others)
		return // the rest is not known now
	}
	f.noteNodes(others)
	if text := DifferentUpstreams(self, others); text != "" {
		f.say("warn", "%s", text)
	}
	if apart := f.named(func(n *Node) bool { return n.Apart && !n.Silent }); len(apart) > 0 {
		f.say("note", "%s: shares no rule with this node", list(apart))
	}
	config := func(n *Node) string { return n.Config }
	if len(f.have(func(n *Node) string { return n.Rules })) > 1 {
		f.differ("warn", "configurations", config)
	} else {
		f.differ("note", "files of the same rules", config)
	}
	f.differ("warn", "versions of sluice", func(n *Node) string { return n.Version })
	if sum.More > 0 {
		f.say("note", "the counts of %d rules are not in the sum: a node reports at most %d rules, those with most denials and requests", sum.More, report.MostRules)
	}
}

func (f *Fleet) say(kind, format string, args ...any) {
	f.Notes = append(f.Notes, Note{kind, fmt.Sprintf(format, args...)})
}

func (f *Fleet) noteStore(others *report.Fleet) {
	was := "others were never read"
	switch n := len(others.Nodes); {
	case others.Now.IsZero():
	case n == 1:
		was = fmt.Sprintf("the other one was read %s ago", others.Ago.Round(time.Second))
	default:
		was = fmt.Sprintf("the %d others were read %s ago", n, others.Ago.Round(time.Second))
	}
	f.say("bad", "the store does not answer: these are the counts of this node alone; %s: %v", was, others.Err)
}

// noteNodes adds the notes about missing and faulty nodes.
func (f *Fleet) noteNodes(others *report.Fleet) {
	silent, unsummed := f.named(func(n *Node) bool { return n.Silent }), make(map[string][]string)
	if len(silent) > 0 {
		f.say("warn", "%s: no report for more than %d s; their counts are not in the sum", list(silent), int(report.Silent.Seconds()))
	}
	gone := int64(0)
	for i := range f.Nodes {
		n := &f.Nodes[i]
		if !n.Summed && !n.Silent {
			unsummed[n.Why] = append(unsummed[n.Why], n.Label())
		}
		if n.Silent && n.Seen > mostGone.Seconds() {
			gone++
		}
	}
	for _, why := range slices.Sorted(maps.Keys(unsummed)) {
		f.say("warn", "%s: not in the sum: %s", list(unsummed[why]), why)
	}
	if f.Unreported = others.Live - (int64(len(f.Nodes)) - gone) - int64(others.Unread); f.Unreported > 0 {
		f.say("warn", "%s: their counts are not in the sum; their logs have the cause", nodesDo(f.Unreported, "does not report", "do not report"))
	}
	f.Unreported = max(f.Unreported, 0)
	if others.Unread > 0 {
		f.say("warn", "%s reports that cannot be read: they have another version or another secret_file, or are of another program", nodesDo(int64(others.Unread), "writes", "write"))
	}
	if stale := f.named(func(n *Node) bool { return n.Failed && !n.Silent }); len(stale) > 0 {
		f.say("warn", "%s: the configuration's file has errors and was not loaded; the previous version stays active", list(stale))
	}
	if away := f.named(func(n *Node) bool { return !n.StoreUp && !n.Silent }); len(away) > 0 {
		f.say("warn", "%s: requests are decided without the store", list(away))
	}
	for i := range others.Nodes {
		s := &others.Nodes[i]
		skew := time.UnixMilli(s.Clock).Sub(s.Last)
		if !others.Silent(s) && math.Abs(skew.Seconds()) > mostSkew.Seconds() {
			f.say("warn", "%s: its clock is %s off the store's clock: its requests count at wrong times", s.Label(), skew.Round(time.Second))
		}
	}
}

// DifferentUpstreams names the nodes that share a rule with self but send requests to
// another upstream, and says how to repair that. It is empty if there are none.
func DifferentUpstreams(self *report.Node, others *report.Fleet) string {
	under, at := "", make(map[string][]string)
	add := func(n *report.Node) { at[n.Upstream] = append(at[n.Upstream], n.Label()) }
	add(self)
	for i := range others.Nodes {
		s := &others.Nodes[i]
		rule, shares := self.Shares(&s.Node)
		if !shares || others.Silent(s) {
			continue
		}
		if s.Upstream != self.Upstream {
			under = rule
		}
		add(&s.Node)
	}
	if under == "" {
		return ""
	}
	return fmt.Sprintf("nodes of different upstreams count under the name %s, and share its limits: %s. "+
		"If they are different services, give each a prefix of its own (?prefix= in the store's URL), or name the rules of each (--name, or in its file); "+
		"with names alone all of these nodes count where failure: local divides limits",
		under, eachHas(at))
}

// have returns the labels of the nodes by the value of of.
func (f *Fleet) have(of func(*Node) string) map[string][]string {
	have := make(map[string][]string)
	for i := range f.Nodes {
		if n := &f.Nodes[i]; !n.Silent && !n.Apart {
			have[of(n)] = append(have[of(n)], n.Label())
		}
	}
	return have
}

// differ adds a note if nodes differ in a value, with the value of each.
func (f *Fleet) differ(kind, what string, of func(*Node) string) {
	have := f.have(of)
	if len(have) < 2 {
		return
	}
	f.say(kind, "nodes run different %s: %s", what, eachHas(have))
}

// eachHas lists the values and the nodes that have them.
func eachHas(have map[string][]string) string {
	var parts []string
	for _, what := range slices.Sorted(maps.Keys(have)) {
		parts = append(parts, fmt.Sprintf("%s at %s", what, list(have[what])))
	}
	return strings.Join(parts, "; ")
}

// named returns the labels of the nodes for which is holds.
func (f *Fleet) named(is func(*Node) bool) (labels []string) {
	for i := range f.Nodes {
		if is(&f.Nodes[i]) {
			labels = append(labels, f.Nodes[i].Label())
		}
	}
	return labels
}

// Label returns the label of the node with an id, or the id if there is no such node.
func (f *Fleet) Label(id string) string {
	for i := range f.Nodes {
		if f.Nodes[i].ID == id {
			return f.Nodes[i].Label()
		}
	}
	return id
}

func list(labels []string) string {
	if more := len(labels) - mostNamed; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(labels[:mostNamed], ", "), more)
	}
	return strings.Join(labels, ", ")
}

func nodesDo(n int64, one, many string) string {
	if n == 1 {
		return "1 node " + one
	}
	return fmt.Sprintf("%d nodes %s", n, many)
}
