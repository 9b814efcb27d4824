// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"cmp"
	"slices"
	"strings"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/policy"
)

const (
	second = int64(1e6) // in µs
	minute = 60 * second
)

// scope counts the keys of one level of a rule, or of one of its trials.
type scope struct {
	rule, level, mode string
	requests, denied  int64
	keys              map[string]*key
	limits            []*limit
}

// key counts the requests of one key.
type key struct {
	name             string
	requests, denied int64
	first            int64 // instant of the first denial
	windows          []keyWindow
}

type keyWindow struct {
	of *limit
	window
}

// limit counts what one limit does.
type limit struct {
	of          *sluice.Term
	length      int64 // of its window in µs
	denied      int64
	undelivered int64 // denials although the true window had room
	worst       int64 // units in a true window
	worstAt     int64
	worstKey    string
	joined      bool
}

// key returns the counts of a key.
func (s *scope) key(name string) *key {
	k := s.keys[name]
	if k == nil {
		k = &key{name: strings.Clone(name)} // name may be part of a block of the log
		s.keys[k.name] = k
	}
	return k
}

// limit returns the counts of a limit.
func (s *scope) limit(of *sluice.Term) *limit {
	for _, l := range s.limits {
		if l.of == of {
			return l
		}
	}
	l := &limit{of: of, length: of.Window.Microseconds()}
	s.limits = append(s.limits, l)
	return l
}

// window returns the true window of a key under a limit.
func (k *key) window(of *limit) *window {
	for i := range k.windows {
		if k.windows[i].of == of {
			return &k.windows[i].window
		}
	}
	k.windows = append(k.windows, keyWindow{of: of})
	return &k.windows[len(k.windows)-1].window
}

// admit counts units of a key that a limit has admitted.
func (l *limit) admit(k *key, at, units int64) {
	w := k.window(l)
	if sum := w.add(at, units, l.length); sum > l.worst {
		l.worst, l.worstAt, l.worstKey = sum, at, k.name
	}
	l.joined = l.joined || w.joined
}

// deny counts a denial of units by a limit.
func (l *limit) deny(k *key, at, units int64) {
	l.denied++
	w := k.window(l)
	if w.advance(at, l.length); w.sum+units <= l.of.Quota {
		l.undelivered++
	}
}

// deny counts a denied request of a key.
func (s *scope) deny(k *key, at int64) {
	s.denied++
	if k.denied++; k.denied == 1 {
		k.first = at
	}
}

// scopes finds scopes by what they count. Mode distinguishes the trials of a rule.
type scopes struct {
	byLevel map[scopeID]*scope
	list    []*scope
	last    scopeID
	found   *scope
}

type scopeID struct {
	rule  *policy.Rule
	level *policy.Level
	mode  string
}

func (s *scopes) of(rule *policy.Rule, level *policy.Level, mode string) *scope {
	id := scopeID{rule, level, mode}
	if s.found != nil && s.last == id {
		return s.found
	}
	of := s.byLevel[id]
	if of == nil {
		of = &scope{rule: rule.Name, mode: mode, keys: make(map[string]*key)}
		if level != nil {
			of.level = level.Name
		}
		s.byLevel[id] = of
		s.list = append(s.list, of)
	}
	s.last, s.found = id, of
	return of
}

// peak finds the second with the most requests.
type peak struct {
	second, n, most, at int64
	later               map[int64]int64 // of delayed requests
}

// advance ends all seconds before that of now.
func (p *peak) advance(now int64) {
	to := now / second
	if to == p.second {
		return
	}
	p.end(p.second, p.n)
	p.second, p.n = to, 0
	if len(p.later) == 0 {
		return
	}
	for s, n := range p.later {
		switch {
		case s < to:
			p.end(s, n)
		case s == to:
			p.n = n
		default:
			continue
		}
		delete(p.later, s)
	}
}

// end notes the number of a second that is over.
func (p *peak) end(s, n int64) {
	if n > p.most || n == p.most && s < p.at {
		p.most, p.at = n, s
	}
}

// add counts a request at an instant that is not before the last now.
func (p *peak) add(at int64) {
	s := at / second
	if s == p.second {
		p.n++
		return
	}
	if p.later == nil {
		p.later = make(map[int64]int64)
	}
	p.later[s]++
}

// mostBins is how many bins a series has at most; beyond it their length is doubled.
const mostBins = 4096

// series counts requests by minute, or by longer bins if the log is long.
type series struct {
	length int64
	bins   []Bin
}

// Bin counts the requests of a span of time.
type Bin struct {
	From    int64 `json:"from"` // Unix seconds
	Allowed int64 `json:"allowed"`
	Denied  int64 `json:"denied"` // or refused
}

func (s *series) add(at int64, passes bool) {
	if s.length == 0 {
		s.length = minute
	}
	from := (at - at%s.length) / second
	n := len(s.bins)
	if n == 0 || s.bins[n-1].From != from {
		if n == mostBins {
			s.double()
			s.add(at, passes)
			return
		}
		s.bins = append(s.bins, Bin{From: from})
		n++
	}
	if passes {
		s.bins[n-1].Allowed++
	} else {
		s.bins[n-1].Denied++
	}
}

// double makes the bins twice as long.
func (s *series) double() {
	s.length *= 2
	joined := s.bins[:0]
	for _, b := range s.bins {
		b.From -= b.From % (s.length / second)
		if n := len(joined); n > 0 && joined[n-1].From == b.From {
			joined[n-1].Allowed += b.Allowed
			joined[n-1].Denied += b.Denied
			continue
		}
		joined = append(joined, b)
	}
	s.bins = joined
}

// sortedKeys returns the keys with denials, those with the most first.
func (s *scopes) sortedKeys() (all []DeniedKey) {
	for _, of := range s.list {
		for _, k := range of.keys {
			if k.denied > 0 {
				all = append(all, DeniedKey{Rule: of.name(), Mode: of.mode, Key: k.name, Requests: k.requests, Denied: k.denied, Share: share(k.denied, k.requests), First: instant(k.first)})
			}
		}
	}
	slices.SortFunc(all, func(a, b DeniedKey) int {
		return cmp.Or(cmp.Compare(b.Denied, a.Denied), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Mode, b.Mode))
	})
	return all
}

func (s *scope) name() string {
	if s.level == "" {
		return s.rule
	}
	return s.rule + "/" + s.level
}

// deniedKeys returns how many keys had a denial.
func (s *scope) deniedKeys() (n int) {
	for _, k := range s.keys {
		if k.denied > 0 {
			n++
		}
	}
	return n
}
