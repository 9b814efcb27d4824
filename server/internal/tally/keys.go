// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package tally

import (
	"strconv"
	"sync"

	"github.com/sluicegate/sluice/internal/keyhash"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
	"github.com/sluicegate/sluice/server/internal/sketch"
)

// mostFine is the most rules with sketches of the finer precision: the others take a quarter
// of the memory.
const mostFine = 64

// room bounds the number of rules with sketches.
type room struct {
	mu        sync.Mutex
	fine, all int
	secret    *keyhash.Secret // nil before first use
}

// hashed are sketches of keys, with the secret of their hashes.
type hashed struct {
	*sketch.Keys
	secret *keyhash.Secret
}

// Share makes t hash keys with a secret that clients must not know, instead of its own:
// sketches of nodes with the same secret can be merged. A key has another hash under another
// secret and would count twice, so the sketches start again unless the secret is unchanged.
func (t *Tally) Share(secret [32]byte) {
	s := keyhash.Of(secret)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.room.share(&s, t.index())
}

// Hashed returns a name of the secret that hashes keys, or "" before first use.
func (t *Tally) Hashed() string {
	t.room.mu.Lock()
	defer t.room.mu.Unlock()
	if t.room.secret == nil {
		return ""
	}
	return strconv.FormatUint(t.room.secret.Sum(0, "which secret"), 36)
}

func (r *room) share(secret *keyhash.Secret, in *index) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.secret != nil && *r.secret == *secret {
		return
	}
	r.secret, r.fine, r.all = secret, 0, 0
	for _, c := range in.rules {
		c.recent.full.Store(false)
		c.recent.keys.Store(nil)
	}
}

// count counts the sketches of a new index, and lets the other rules try again.
func (r *room) count(in *index) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fine, r.all = 0, 0
	for _, c := range in.rules {
		c.recent.full.Store(false)
		if keys := c.recent.keys.Load(); keys != nil {
			r.all++
			if keys.Precision() == sketch.Fine {
				r.fine++
			}
		}
	}
}

// keysOf returns the sketches of a rule, which it makes if there is room, or nil.
func (r *room) keysOf(of *recent) *hashed {
	if keys := of.keys.Load(); keys != nil || of.full.Load() {
		return keys
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if keys := of.keys.Load(); keys != nil {
		return keys
	}
	if r.all >= MostRecent {
		of.full.Store(true)
		return nil
	}
	precision := sketch.Coarse
	if r.fine < mostFine {
		precision = sketch.Fine
		r.fine++
	}
	r.all++
	if r.secret == nil {
		own := keyhash.New()
		r.secret = &own
	}
	keys := &hashed{sketch.New(precision), r.secret}
	of.keys.Store(keys)
	return keys
}

// charged counts the keys that a request was charged to, and the used shares of their limits.
func (t *Tally) charged(in *index, v *evaluate.Verdict) {
	if v.InFlight != nil {
		if c := in.rules[v.InFlight.Rule.Name]; c != nil {
			if keys := t.room.keysOf(c.recent); keys != nil {
				keys.Seen(keys.hash(v.InFlight.Level, v.InFlight.Key))
			}
		}
		return // no limit was evaluated
	}
	var keys *hashed
	var rule *policy.Rule
	var level *policy.Level
	var hash uint64
	known := v.Err == nil && !v.Decision.Degraded // the remaining units of the limits are known
	for o := range v.Outcomes() {
		if o.Rule != rule {
			rule, level, keys = o.Rule, nil, nil
			if c := in.rules[rule.Name]; c != nil {
				keys = t.room.keysOf(c.recent)
			}
		}
		if keys == nil {
			continue
		}
		if o.Level != level {
			level, hash = o.Level, keys.hash(o.Level, o.Key)
			keys.Seen(hash)
		}
		switch {
		case !known || o.Limit.Block.For > 0 && o.Allowed:
		case !o.Allowed:
			keys.Used(hash, 1000)
		default:
			full := max(o.Limit.Full, 1)
			keys.Used(hash, uint32((full-min(max(o.Remaining, 0), full))*1000/full))
		}
	}
}

// shadowKey counts the key of a shadow rule, as denied if it would have been: of several
// levels the key of the one whose limit binds.
func (t *Tally) shadowKey(c *counted, s *evaluate.Trial) {
	if s.Err != nil || s.Limit == nil {
		return
	}
	keys := t.room.keysOf(c.recent)
	if keys == nil {
		return
	}
	hash := keys.secret.Sum(0, s.Key)
	keys.Seen(hash)
	if !s.Allowed {
		keys.Denied(hash)
	}
}

// hash returns the hash of a key, which differs between levels.
func (h *hashed) hash(l *policy.Level, key string) uint64 {
	hash := h.secret.Sum(0, key)
	for i := range len(l.Name) {
		hash = (hash ^ uint64(l.Name[i])) * 0x9E3779B97F4A7C15
	}
	return hash
}

// rescued counts a denial of r for those of its candidates that would have allowed the
// request.
func (in *index) rescued(v *evaluate.Verdict, r *policy.Rule) {
	for s := range v.Trials() {
		if s.Candidate == nil || s.Rule != r || !s.Allowed {
			continue
		}
		if c := in.rules[r.Name]; c != nil {
			if of := c.candidates[candidateName(s.Level, s.Candidate)]; of != nil {
				of.Rescued.Add(1)
			}
		}
	}
}

// turn begins another half hour.
func (c *counted) turn() {
	for _, list := range c.levels {
		list.turn()
	}
	c.mark.turn(c.Unstated.Load())
	for _, candidate := range c.candidates {
		candidate.mark.turn(candidate.Rescued.Load())
	}
}
