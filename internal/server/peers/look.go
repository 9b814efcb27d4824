// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/sluicegate/sluice/internal/server/report"
)

// patience is how long a first look waits for what nodes report.
const patience = 3 * time.Second

var errAnswer = errors.New("peers: the store's answer is not that of our script")

// last is what was read last, guarded by Peers.mu.
type last struct {
	nodes  map[string]*node // by id
	unread int
	now    time.Time          // by the store's clock
	read   time.Time          // the same, by ours
	taken  time.Time          // after which reports may be read again
	looked map[string]*looked // rules; "": that somebody looks at all
}

// node is a node, how many bytes its report takes, and since when something was looked at
// when its report was last read before those of others.
type node struct {
	report.Seen
	size int
	late time.Time
}

// looked is since when something is looked at, by the store's clock, and when the store
// was told so last, by ours.
type looked struct{ since, told time.Time }

// Look returns what the other nodes report, of these rules in detail. At first it waits
// for them, for some seconds at most. If the store does not answer it returns what was
// read last.
func (n *Peers) Look(ctx context.Context, rules []string) report.Fleet {
	n.mu.Lock()
	defer n.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, 2*n.Patience)
	defer cancel()
	err := n.Conn.Err()
	if err == nil {
		err = n.tell(ctx, rules)
	}
	for end := time.Now().Add(n.Patience); err == nil; {
		last := time.Now().After(end)
		if err = n.read(ctx, last); err != nil || last || n.complete(rules) {
			break
		}
		select {
		case <-time.After(n.Every / 10):
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	f := report.Fleet{Nodes: sorted(n.last.nodes), Now: n.last.now, Unread: n.last.unread, Err: err}
	if !n.last.read.IsZero() {
		f.Ago = time.Since(n.last.read)
	}
	f.Live = n.live()
	return f
}

// tell says that somebody looks, and at what.
func (n *Peers) tell(ctx context.Context, rules []string) error {
	l := &n.last
	for rule, of := range l.looked {
		if time.Since(of.told) > lookFor {
			delete(l.looked, rule)
		}
	}
	all := append([]string{""}, rules...)
	if !slices.ContainsFunc(all, func(rule string) bool {
		of := l.looked[rule]
		return of == nil || time.Since(of.told) > lookFor/5
	}) {
		return nil
	}
	list, err := n.eval(ctx, lookScript, []string{keyLook}, append([]string{millis(lookFor), strconv.Itoa(report.MostLookedAt)}, rules...)...)
	if err != nil {
		return err
	}
	if len(list) != 1 {
		return errAnswer
	}
	now, _, ok := stamped(list[0])
	if !ok {
		return errAnswer
	}
	for _, rule := range all {
		if l.looked[rule] == nil {
			l.looked[rule] = &looked{since: now}
			l.taken = time.Time{}
		}
		l.looked[rule].told = time.Now()
	}
	return nil
}

// complete reports whether all nodes have reported what is looked at, or have had the
// time to.
func (n *Peers) complete(rules []string) bool {
	l := &n.last
	for _, rule := range append([]string{""}, rules...) {
		since := l.looked[rule].since
		if l.now.Sub(since) > n.Patience {
			continue
		}
		for _, s := range l.nodes {
			silent := l.now.Sub(s.Last) > report.Silent
			if !silent && (s.At.Before(since) || lacks(s.Report, rule)) {
				return false
			}
		}
	}
	return true
}

// lacks reports whether a report has a rule without the details.
func lacks(r *report.Report, rule string) bool {
	return r != nil && slices.ContainsFunc(r.Rules, func(o report.Rule) bool { return o.Name == rule && o.Detail == nil })
}

// listEvery is how old the list of nodes may be that is shown, but for what comes in
// the moment of a look.
func (n *Peers) listEvery() time.Duration { return n.Every / 2 }

// since is when what is looked at changed last.
func (l *last) since() (at time.Time) {
	for _, of := range l.looked {
		if of.since.After(at) {
			at = of.since
		}
	}
	return at
}

// read reads the list of nodes, and those reports that are others than before: when
// something is looked at anew all at once, when all nodes have written one, unless it is
// the last moment. Nodes that write theirs later are read when they come, and do not
// wait until the others may be read again.
func (n *Peers) read(ctx context.Context, last bool) error {
	l := &n.last
	if time.Since(l.read) < n.listEvery() && time.Now().Before(l.taken) {
		return nil
	}
	lines, err := n.lines(ctx)
	if err != nil {
		return err
	}
	nodes, now, all := make(map[string]*node), lines.now, true
	since := l.since()
	var changed, late []string
	for i, s := range lines.nodes {
		if old := l.nodes[s.ID]; old != nil {
			s.Report, s.At, s.Fault, s.size, s.late = old.Report, old.At, old.Fault, old.size, old.late
		}
		nodes[s.ID] = s
		at, _, ok := stamped(lines.reported[i])
		switch {
		case !ok:
			s.Report, s.Fault, s.size = nil, nil, 0 // it is forgotten
		case !at.Equal(s.At):
			changed = append(changed, s.ID)
			if s.At.Before(since) && !at.Before(since) && s.late.Before(since) {
				late = append(late, s.ID)
			}
		}
		all = all && (!at.Before(since) || now.Sub(s.Last) > report.Silent)
	}
	l.nodes, l.unread, l.now, l.read = nodes, lines.unread, now, time.Now()
	if !all && !last && now.Sub(since) < n.Patience {
		return nil
	}
	switch ahead := time.Until(l.taken); {
	case ahead > pause(report.MostTogether):
		return nil
	case ahead > 0: // once each: its text may say that it is older, and be long
		changed = late
		for _, id := range late {
			nodes[id].late = since
		}
	}
	if len(changed) == 0 {
		return nil
	}
	return n.take(ctx, changed)
}

// lines is what the other nodes have written about themselves.
type lines struct {
	now      time.Time // by the store's clock
	nodes    []*node
	reported []string // when each has written a report, stamped; empty: it has not
	unread   int      // nodes whose line cannot be read
}

// lines reads the list of nodes.
func (n *Peers) lines(ctx context.Context) (l lines, err error) {
	list, err := n.eval(ctx, listScript, []string{keyNodes, keyReports}, n.id, strconv.Itoa(mostNodes), strconv.Itoa(report.MostNodeBytes+100))
	if err != nil {
		return l, err
	}
	if len(list)%3 != 1 {
		return l, errAnswer
	}
	now, _, ok := stamped(list[0])
	if !ok {
		return l, errAnswer
	}
	l.now = now
	for i := 1; i < len(list); i += 3 {
		s, ok := n.seen(list[i], list[i+1])
		if !ok {
			l.unread++
			continue
		}
		l.nodes, l.reported = append(l.nodes, s), append(l.reported, list[i+2])
	}
	return l, nil
}

// seen reads a node's line.
func (n *Peers) seen(id, text string) (s *node, ok bool) {
	s = new(node)
	at, sealed, ok := stamped(text)
	if !ok {
		return s, false
	}
	line, err := n.Conn.Unseal(keyNodes+id, sealed)
	if err != nil {
		return s, false
	}
	s.Last = at
	s.Node, err = report.DecodeNode(id, line)
	return s, err == nil
}

// take reads the reports of nodes. The next ones wait so long that it does not read too
// much, whether it reads all of these or not.
func (n *Peers) take(ctx context.Context, ids []string) error {
	slices.Sort(ids)
	// Room is of what is kept, and work of what is read now.
	bytes, room, work := 0, report.MostTogether, report.MostTogether
	for id, s := range n.last.nodes {
		if _, changes := slices.BinarySearch(ids, id); !changes {
			room -= s.size
		}
	}
	defer func() {
		if now := time.Now(); n.last.taken.After(now) { // late ones put off the others by their bytes only
			n.last.taken = n.last.taken.Add(pause(bytes))
		} else {
			n.last.taken = now.Add(max(n.Every-n.listEvery()/2, pause(bytes)))
		}
	}()
	for len(ids) > 0 {
		list, err := n.eval(ctx, takeScript, []string{keyReports}, append([]string{strconv.Itoa(mostTaken)}, ids...)...)
		if err != nil {
			return err
		}
		if len(list) != len(ids) {
			return errAnswer
		}
		var later []string
		for i, text := range list {
			if text == "later" && i > 0 {
				later = append(later, ids[i])
				continue
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			bytes += len(text)
			s := n.last.nodes[ids[i]]
			work -= n.report(s, text, min(room, work))
			room -= s.size
		}
		ids = later
	}
	return nil
}

// report reads a node's report, for which there is so much room, and returns how much
// that took. One that cannot be used is none.
func (n *Peers) report(s *node, text string, room int) (took int) {
	s.Report, s.Fault, s.size = nil, nil, 0
	at, sealed, ok := stamped(text)
	if !ok {
		return 0
	}
	s.At = at
	data, err := n.Conn.Unseal(keyReports+s.ID, sealed)
	if err == nil {
		s.Report, took, err = report.Decode(s.ID, data, room)
	}
	if s.Fault = err; err == nil {
		s.size = took
	}
	return took
}

// compare compares pairs of texts, the first first.
func compare(pairs ...string) int {
	for i := 0; i+1 < len(pairs); i += 2 {
		if c := cmp.Compare(pairs[i], pairs[i+1]); c != 0 {
			return c
		}
	}
	return 0
}
