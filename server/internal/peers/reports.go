// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/sluicegate/sluice/server/internal/report"
)

// patience is the longest time for which a first watch waits for reports.
const patience = 3 * time.Second

var errAnswer = errors.New("peers: the store's answer is not that of our script")

// last is the result of the last read, guarded by Peers.mu.
type last struct {
	nodes   map[string]*node // by id
	unread  int
	now     time.Time         // by the store's clock
	read    time.Time         // the same instant, by this process's clock
	taken   time.Time         // when reports may be read again
	watches map[string]*watch // by rule; "" is the watch of the nodes
}

// node is a node, with the size of its report in bytes. late is the start of the last watch
// for which its report came late and was read alone.
type node struct {
	report.Seen
	size int
	late time.Time
}

// watch is the start of a watch of the nodes or of a rule, by the store's clock, and the time
// when this node last announced it to the store, by this process's clock.
type watch struct{ since, announced time.Time }

// Reports returns the reports of the other nodes, with details of these rules. The first watch
// waits for the reports, for at most Options.Patience. If the store does not answer, Reports
// returns the result of the last read.
func (n *Peers) Reports(ctx context.Context, rules []string) report.Fleet {
	n.mu.Lock()
	defer n.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, 2*n.Patience)
	defer cancel()
	err := n.Conn.Err()
	if err == nil {
		err = n.announce(ctx, rules)
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
	f.Live = n.Live()
	return f
}

// announce writes to the store that a caller watches the nodes, and which rules.
func (n *Peers) announce(ctx context.Context, rules []string) error {
	l := &n.last
	for rule, of := range l.watches {
		if time.Since(of.announced) > watchFor {
			delete(l.watches, rule)
		}
	}
	all := append([]string{""}, rules...)
	if !slices.ContainsFunc(all, func(rule string) bool {
		of := l.watches[rule]
		return of == nil || time.Since(of.announced) > watchFor/5
	}) {
		return nil
	}
	list, err := n.eval(ctx, watchScript, []string{keyWatch}, append([]string{millis(watchFor), strconv.Itoa(report.MostLookedAt)}, rules...)...)
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
		if l.watches[rule] == nil {
			l.watches[rule] = &watch{since: now}
			l.taken = time.Time{}
		}
		l.watches[rule].announced = time.Now()
	}
	return nil
}

// complete reports whether all nodes have reported the rules of the watch, or have had the
// time to do so.
func (n *Peers) complete(rules []string) bool {
	l := &n.last
	for _, rule := range append([]string{""}, rules...) {
		since := l.watches[rule].since
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

// lacks reports whether a report has a rule without its details.
func lacks(r *report.Report, rule string) bool {
	return r != nil && slices.ContainsFunc(r.Rules, func(o report.Rule) bool { return o.Name == rule && o.Detail == nil })
}

// listEvery is the greatest age of the list of nodes in an answer.
func (n *Peers) listEvery() time.Duration { return n.Every / 2 }

// since returns the last change of the rules of the watch.
func (l *last) since() (at time.Time) {
	for _, of := range l.watches {
		if of.since.After(at) {
			at = of.since
		}
	}
	return at
}

// read reads the list of nodes, and the reports that have changed. After a change of the
// watch it waits until all nodes have written one, and reads all at once; if last is
// set it does not wait. Later reports are read as they come: they do not wait until
// the others may be read again.
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
			s.Report, s.Fault, s.size = nil, nil, 0 // forget the report
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
	case ahead > 0: // read each once: its text may claim to be older, and be long
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

// lines are the lines that the other nodes have written about themselves.
type lines struct {
	now      time.Time // by the store's clock
	nodes    []*node
	reported []string // when each node has written a report, stamped; empty: it has none
	unread   int      // number of nodes whose line cannot be read
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

// take reads the reports of nodes. It delays the next read by the bytes that it reads, even
// if it does not read all of the reports.
func (n *Peers) take(ctx context.Context, ids []string) error {
	slices.Sort(ids)
	// room bounds the kept bytes, and work the bytes read now.
	bytes, room, work := 0, report.MostTogether, report.MostTogether
	for id, s := range n.last.nodes {
		if _, changes := slices.BinarySearch(ids, id); !changes {
			room -= s.size
		}
	}
	defer func() {
		if now := time.Now(); n.last.taken.After(now) { // late reports delay the others only by their bytes
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

// report reads a node's report into at most room bytes, and returns the bytes that it took.
// A report that cannot be used is dropped.
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
