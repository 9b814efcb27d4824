// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
)

// A script decides the states that its own limit wrote. All others are decided here, on
// the server's values, which a second script replaces unless they have changed meanwhile.
// That takes two round trips or, if no script has returned the values before, three, and
// more if other callers change the same key. It applies to a key whose limit was changed,
// until the new limit has written it; to a key under limits of several forms; to a limit with
// an initial deficit, while the start of its rule counts; to an add and a conversion; to a key
// with open holds; and to a request that names a hold. Such requests that wait for each other
// on one key share a swap, as requests that a script decides share its call.

// rare reports whether no script can decide a request.
func rare(req *sluice.Request) bool {
	return req.Op == sluice.OpAdd || req.Op == sluice.OpConvert || req.Hold != nil
}

// swaps reports whether the call needs the start of a rule, or has an operation that no script
// decides.
func (s *Store) swaps(c *call) bool {
	for _, j := range c.jobs {
		if rare(j.req) {
			return true
		}
	}
	for i := range c.items {
		it := &c.items[i]
		if withholds(it.term) && it.series.stale(s.clock()) {
			return true
		}
	}
	return false
}

// swapPause is the longest pause before a value is read again, for each time that it has
// changed, up to swapPauses times.
const (
	swapPause  = 100 * time.Microsecond
	swapPauses = 64
)

var errContended = errors.New("others changed the key again and again meanwhile")

// swap decides the call on found, the values of its keys at c.now. If found is nil it reads
// the values. Only one of this store's calls on a key swaps at a time.
func (s *Store) swap(ctx context.Context, c *call, found []string) error {
	c.held = c.names()
	keys, fields := c.swapKeys()
	if c.held {
		found = nil
	}
	turn := s.swapping.of(keys[0])
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
	default:
		found = nil // the values change meanwhile
		select {
		case turn <- struct{}{}:
			defer func() { <-turn }()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if c.at > 0 {
		found = nil // the instant of the decision depends on the server's
	}
	// Of the calls that swap a key one succeeds each time, so all do in the end. The
	// time depends on the load of the server.
	for n := 0; ; n++ {
		if n > 2 && !wait(ctx, rand.N(time.Duration(min(n, swapPauses))*swapPause)) { //nolint:gosec // it only has to differ
			return fmt.Errorf("%w: %w", errContended, ctx.Err())
		}
		if found == nil {
			var err error
			if _, found, err = s.exchange(ctx, c, keys, append([]string{"1"}, fields...)); err != nil {
				return err
			}
		}
		found = found[:len(keys)]
		next, more, err := s.decideHere(ctx, c, found)
		if errors.Is(err, errHeld) {
			c.held, found = true, nil
			keys, fields = c.swapKeys()
			continue
		}
		if err != nil {
			return err
		}
		done := next == nil
		if !done {
			if done, found, err = s.replace(ctx, c, keys, fields, found, next, more); err != nil {
				return err
			}
		}
		if done {
			c.noteDecided()
			return nil
		}
	}
}

// swapKeys returns the keys of the values that the call reads and replaces and, in their order,
// the fields of those that are hashes.
func (c *call) swapKeys() (keys, fields []string) {
	for i := range c.items {
		keys = append(keys, c.items[i].key)
	}
	keys = append(keys, c.voidKeys()...)
	fields = make([]string, len(keys))
	hashes, names := c.holdFields()
	return append(keys, hashes...), append(fields, names...)
}

// exchange runs the script that reads or replaces values, and reports whether it has
// replaced them. If not, it returns the values and sets c.now to the server's instant or,
// if that has just passed c.at, to c.at.
func (s *Store) exchange(ctx context.Context, c *call, keys, args []string) (done bool, found []string, err error) {
	res := newInvocation(s.programs.swap, keys, args...).do(ctx, s)
	reply, err := res.list(3)
	if err != nil {
		return false, nil, err
	}
	if len(reply) == 3 {
		return true, nil, nil
	}
	if len(reply) != 3+len(keys) {
		return false, nil, errReply
	}
	found = make([]string, len(keys))
	for i := range found {
		if found[i], err = reply[3+i].text(); err != nil {
			return false, nil, err
		}
	}
	if s.inject != nil {
		c.now = s.inject()
		return false, found, nil
	}
	now, err := serverTime(reply, 1)
	if err != nil {
		return false, nil, err
	}
	if c.now = now; c.at > 0 && now >= c.at && now-c.at < graceMicros/2 {
		c.now = c.at
	}
	return false, found, s.notBefore(c, found, now)
}

// notBefore moves c.now forward to the latest entry of a log. Otherwise the receipt would
// name an instant at which the log has no entry.
func (s *Store) notBefore(c *call, found []string, clock int64) error {
	for i := range c.items {
		it := &c.items[i]
		if c.now == clock || kindOf(it.term) != kindLog {
			continue
		}
		list, err := s.parseValue(it, found[i])
		if err != nil {
			return err
		}
		for k := range list {
			if st := &list[k]; st.By.Form == it.term.Form && !st.Reserved && st.Idle-it.term.Micros <= clock {
				c.now = max(c.now, st.Idle-it.term.Micros)
			}
		}
	}
	return nil
}

// graceMicros is the time in µs by which keys outlive their states.
const graceMicros = 1_000_000

// next is a new value and the instant in µs until which it is needed.
type next struct {
	value string
	ends  int64
}

// decideHere decides the jobs over the values in found. It returns the new values, or nil if
// none has changed, and the other fields that have changed. The error is errHeld if holds must
// be read.
func (s *Store) decideHere(ctx context.Context, c *call, found []string) ([]next, []field, error) {
	keys := make([]swapped, len(c.items))
	for i := range keys {
		raw := found[i]
		if c.undo && raw != "" && raw == c.from[i] {
			raw = c.to[i]
			keys[i].undone = true
		}
		_, ends, err := splitNext(raw)
		if err != nil {
			return nil, nil, err
		}
		if keys[i].states, err = s.parseValue(&c.items[i], raw); err != nil {
			return nil, nil, err
		}
		if keys[i].flagged, keys[i].next = ends > 0, ends; ends > 0 && !c.held && !keys[i].undone && c.endsHolds(ends) {
			return nil, nil, errHeld
		}
		keys[i].value, keys[i].written = raw, keys[i].undone
	}
	if err := s.learnStarts(ctx, c, keys); err != nil {
		return nil, nil, err
	}
	values := found[len(c.items) : len(c.items)+len(c.voidKeys())]
	if err := c.readVoids(func(n int) (string, error) { return values[n], nil }); err != nil {
		return nil, nil, err
	}
	if c.held {
		if err := s.readHolds(ctx, c, keys, found[len(c.items)+len(values):]); err != nil {
			return nil, nil, err
		}
	}
	for _, j := range c.jobs {
		c.swapNext(j, keys)
	}
	c.before = found[:len(c.items)]
	c.after = make([]string, len(keys))
	list, changed := make([]next, len(keys), len(found)), false
	for i := range keys {
		k := &keys[i]
		list[i] = next{found[i], 0}
		if k.written || k.holds != nil && k.holds.Written {
			list[i].value, list[i].ends = withNext(formatValue(k.states), k.next), ends(k.states)
		}
		if k.undone && len(k.states) > 0 {
			list[i] = next{k.value, ends(k.states)}
		}
		changed = changed || list[i].value != found[i]
		c.after[i] = list[i].value
	}
	for n, was := range values {
		v := c.nextVoid(n, was)
		list, changed = append(list, v), changed || v.value != was
	}
	var more []field
	if _, fields := c.holdFields(); len(fields) > 0 {
		n := len(fields) / len(keys)
		for i := range keys {
			of, beside := keys[i].keepHolds(&c.items[i], fields[i*n:(i+1)*n])
			list, more, changed = append(list, of...), append(more, beside...), changed || keys[i].holds.Written
		}
	}
	if !changed {
		return nil, nil, nil
	}
	return list, more, nil
}

// endsHolds reports whether a call that names no hold needs the holds of a key. next is the
// instant at which the next of them ends.
func (c *call) endsHolds(next int64) bool {
	return next <= c.now || next-c.now > sluice.MaxHold.Microseconds() ||
		slices.ContainsFunc(c.jobs, func(j *job) bool { return j.req.Op == sluice.OpReset || j.req.Op == sluice.OpAdd })
}

// swapped holds the states of a key that are decided here.
type swapped struct {
	value   string
	states  []algo.State
	ends    int64 // the instant until which they are needed, if they were written
	holds   *holds
	flagged bool  // whether the value has the flag of open holds
	next    int64 // the instant at which the next hold ends, 0 if none is open
	start   int64
	written bool
	undone  bool // whether an undo has restored them
}

// ends returns the instant until which any of states is needed.
func ends(states []algo.State) (last int64) {
	for i := range states {
		last = max(last, matters(states[i].By, &states[i]))
	}
	return last
}

// learnStarts sets the starts of the rules that depend on one.
func (s *Store) learnStarts(ctx context.Context, c *call, keys []swapped) (err error) {
	for i := range keys {
		if it := &c.items[i]; withholds(it.term) {
			if keys[i].start, err = s.startOf(ctx, it, c.now); err != nil {
				return err
			}
		}
	}
	return nil
}

// swapNext decides a job over the states that the previous job has left.
func (c *call) swapNext(j *job, keys []swapped) {
	items := make([]algo.Item, len(keys))
	for i := range items {
		k, it := &keys[i], &c.items[i]
		charge := j.req.Nth(it.charge)
		items[i] = it.decided(k.states, c.now)
		items[i].Cost, items[i].Counted, items[i].Start, items[i].Void = charge.Cost, charge.Counted, k.start, c.voidOf(i)
		k.beside(&items[i], c.now)
	}
	j.decide(items, c.now)
	c.keepVoids(j, items)
	for i := range items {
		k := &keys[i]
		if items[i].Written && (j.op != sluice.OpPeek || k.holds != nil && j.req.Op == sluice.OpPeek) && !k.undone { // a peek ends holds
			k.states, k.ends = kept(&items[i], c.now)
			k.written = true
		}
		if k.holds != nil && !k.undone {
			k.next = k.holds.Next
			k.flagged = k.next > 0 && len(k.states) > 0
		}
	}
}

// decided returns the item for a decision at now over copies of states.
func (it *item) decided(states []algo.State, now int64) algo.Item {
	d := algo.Item{Term: it.term}
	list := make([]algo.State, 0, len(states))
	for n := range states {
		if st := &states[n]; !st.Zero() || st.By.Form == it.term.Form {
			list = append(list, copyOf(st))
		}
	}
	d.Pick(list)
	if st := &d.State; st.Zero() {
		st.By = nil // it only holds Since
	}
	it.fresh(&d.State, now)
	return d
}

// replace replaces the values in found by list. If one has changed meanwhile, it reports
// false and returns the present values.
func (s *Store) replace(ctx context.Context, c *call, keys, fields, found []string, list []next, more []field) (bool, []string, error) {
	for _, f := range more {
		keys, fields, found, list = append(keys, f.key), append(fields, f.name), append(found, f.was), append(list, f.next)
	}
	how := "PXAT"
	if s.inject != nil {
		how = "PX"
	}
	args := []string{"2", how, strconv.FormatInt(c.now, 10)}
	for i := range list {
		ends := list[i].ends/1000 + 1001
		if s.inject != nil {
			ends = 3600e3
		}
		args = append(args, found[i], list[i].value, strconv.FormatInt(ends, 10))
	}
	args = append(args, fields...)
	return s.exchange(ctx, c, keys, args)
}

// turns lets only one of a store's calls swap the values of a key at a time. Keys whose
// hashes share a turn wait for each other, too.
type turns struct {
	seed  maphash.Seed
	turns [64]chan struct{}
}

func newTurns() *turns {
	t := &turns{seed: maphash.MakeSeed()}
	for i := range t.turns {
		t.turns[i] = make(chan struct{}, 1)
	}
	return t
}

func (t *turns) of(key string) chan struct{} {
	return t.turns[maphash.String(t.seed, key)%uint64(len(t.turns))]
}
