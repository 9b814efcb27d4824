// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"strings"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/policy"
)

const second = int64(1e6) // in µs

// scope counts the requests of one level of a rule, or of a trial.
type scope struct {
	Rule
	keys   map[string]*key
	limits []*limit
}

type scopeID struct {
	rule  *policy.Rule
	level *policy.Level
	mode  string
}

// key counts the requests of one key.
type key struct {
	DeniedKey
	windows []keyWindow
}

type keyWindow struct {
	of *limit
	window
}

// limit counts what one limit does.
type limit struct {
	Limit
	of     *sluice.Term
	length int64 // of its window in µs
}

// scope returns the counts of a level; mode distinguishes trials.
func (r *run) scope(rule *policy.Rule, level *policy.Level, mode string) *scope {
	id := scopeID{rule, level, mode}
	if r.scoped != nil && r.last == id {
		return r.scoped
	}
	s := r.byLevel[id]
	if s == nil {
		s = &scope{Rule: Rule{Rule: rule.Name, Mode: mode}, keys: make(map[string]*key)}
		if level != nil && level.Name != "" {
			s.Rule.Rule += "/" + level.Name
		}
		r.byLevel[id], r.scopes = s, append(r.scopes, s)
	}
	r.last, r.scoped = id, s
	return s
}

// request counts a request of a key.
func (s *scope) request(name string) *key {
	k := s.keys[name]
	if k == nil {
		name = strings.Clone(name) // it may be part of a block of the log
		k = &key{DeniedKey: DeniedKey{Rule: s.Rule.Rule, Mode: s.Mode, Key: name}}
		s.keys[name] = k
	}
	s.Requests++
	k.Requests++
	return k
}

// deny counts the denial of a request of a key.
func (s *scope) deny(k *key, at int64) {
	s.Denied++
	if k.Denied++; k.Denied == 1 {
		k.First = instant(at)
		s.DeniedKeys++
	}
}

// limit returns the counts of a limit.
func (s *scope) limit(of *sluice.Term) *limit {
	for _, l := range s.limits {
		if l.of == of {
			return l
		}
	}
	text := of.Limit
	if text.Name = ""; text.Filled().Name != of.Name {
		text.Name = of.Name // it was given
	}
	l := &limit{of: of, length: of.Window.Microseconds(), Limit: Limit{Rule: s.Rule.Rule, Limit: text.String(), Window: of.Window.Seconds()}}
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

// admit counts units of a key that the limit has admitted.
func (l *limit) admit(k *key, at, units int64) {
	w := k.window(l)
	if sum := w.add(at, units, l.length); sum > l.WorstWindow {
		l.WorstWindow, l.WorstKey, l.WorstAt = sum, k.Key, instant(at)
	}
	l.LowerBound = l.LowerBound || w.joined
}

// deny counts a denial of units by the limit.
func (l *limit) deny(k *key, at, units int64) {
	l.Denied++
	w := k.window(l)
	if w.advance(at, l.length); w.sum+units <= l.of.Quota {
		l.Undelivered++
	}
}

// peak finds the second with the most requests.
type peak struct {
	second, n, at, most int64
	later               map[int64]int64 // of delayed requests
}

// add counts a request that is passed on at the instant at, which is not before now.
func (p *peak) add(now, at int64) {
	p.advance(now / second)
	if s := at / second; s == p.second {
		p.n++
	} else {
		if p.later == nil {
			p.later = make(map[int64]int64)
		}
		p.later[s]++
	}
}

// advance ends the seconds before one.
func (p *peak) advance(to int64) {
	if to == p.second {
		return
	}
	p.end(p.second, p.n)
	p.second, p.n = to, p.later[to]
	delete(p.later, to)
	for s, n := range p.later {
		if s < to {
			p.end(s, n)
			delete(p.later, s)
		}
	}
}

func (p *peak) end(s, n int64) {
	if n > p.most || n == p.most && s < p.at {
		p.most, p.at = n, s
	}
}

// mostBins is how many bins a series has at most; beyond it their length is doubled.
const mostBins = 4096

// add counts a request by minute, or by longer bins if the log is long.
func (s *Series) add(at int64, passes bool) {
	from, n := at/second-at/second%s.Seconds, len(s.Bins)
	if n == mostBins && s.Bins[n-1].From != from {
		all := s.Bins
		s.Bins, s.Seconds = s.Bins[:0], 2*s.Seconds
		for _, b := range all {
			b.From -= b.From % s.Seconds
			if n := len(s.Bins); n > 0 && s.Bins[n-1].From == b.From {
				b.Allowed, b.Denied = b.Allowed+s.Bins[n-1].Allowed, b.Denied+s.Bins[n-1].Denied
				s.Bins = s.Bins[:n-1]
			}
			s.Bins = append(s.Bins, b)
		}
		s.add(at, passes)
		return
	}
	if n == 0 || s.Bins[n-1].From != from {
		s.Bins = append(s.Bins, Bin{From: from})
		n++
	}
	if passes {
		s.Bins[n-1].Allowed++
	} else {
		s.Bins[n-1].Denied++
	}
}

func instant(at int64) time.Time { return time.UnixMicro(at).UTC() }
