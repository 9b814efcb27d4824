// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
)

// A script counts to 2^53. A limit whose units and debt are more than that
// together is decided here, on the state that the server had, which is then
// replaced if nobody has changed it meanwhile: two round trips, and more where
// others press the same key.

// countable reports whether a script can count the units of t.
func countable(t *sluice.Term) bool {
	return t.Debt <= sluice.MaxQuota-max(t.Quota, t.Burst)
}

// swaps reports whether the call must be decided here.
func (c *call) swaps() bool {
	if c.beyond {
		return true
	}
	for i := range c.items {
		if !countable(c.items[i].term) {
			return true
		}
	}
	return false
}

// swapAttempts is how often a state is looked at again because it has changed.
const swapAttempts = 64

var errContended = errors.New("others changed the key again and again meanwhile")

// swap decides the call.
func (s *Store) swap(ctx context.Context, c *call) error {
	c.whole = true
	keys := make([]string, len(c.items))
	for i := range c.items {
		keys[i] = c.items[i].key
	}
	for range swapAttempts {
		look := &invocation{program: s.programs.swap, keys: keys, args: []string{"1"}}
		reply, err := look.do(ctx, s).ToArray()
		if err != nil {
			return err
		}
		if len(reply) != 3+len(keys) {
			return errReply
		}
		if err := s.setNow(c, reply); err != nil {
			return err
		}
		args, changed, err := s.decideHere(c, reply[3:])
		if err != nil || !changed {
			return err
		}
		replace := &invocation{program: s.programs.swap, keys: keys, args: args}
		reply, err = replace.do(ctx, s).ToArray()
		if err != nil {
			return err
		}
		if len(reply) != 3 {
			return errReply
		}
		if n, err := reply[0].AsInt64(); err != nil || n == 1 {
			return err
		}
	}
	return errContended
}

// setNow sets the instant of the decision: the server's or, if it has only just
// passed there, that of keys in another slot.
func (s *Store) setNow(c *call, reply []rueidis.RedisMessage) error {
	if s.inject != nil {
		c.now = s.inject()
		return nil
	}
	now, err := serverTime(reply[1:])
	if err != nil {
		return err
	}
	if c.now = now; c.at > 0 && now >= c.at && now-c.at < graceMicros/2 {
		c.now = c.at
	}
	return nil
}

// graceMicros is how long keys outlive their states, in µs.
const graceMicros = 1_000_000

// decideHere decides the jobs over the states that were found. It returns the
// arguments of the script that replaces them, and whether there is need to.
func (s *Store) decideHere(c *call, found []rueidis.RedisMessage) (args []string, changed bool, err error) {
	items, raw := make([]algo.Item, len(c.items)), make([]string, len(c.items))
	for i := range items {
		items[i].Term = c.items[i].term
		if raw[i], err = text(&found[i]); err != nil {
			return nil, false, err
		}
		if items[i].State, err = c.read(i, raw[i]); err != nil {
			return nil, false, err
		}
	}
	if err := c.decide(items, func(int) error { return nil }); err != nil {
		return nil, false, err
	}
	looks := true
	for _, j := range c.jobs {
		looks = looks && j.op == sluice.OpPeek
	}
	if looks {
		return nil, false, nil
	}
	how := "PXAT"
	if s.inject != nil {
		how = "PX"
	}
	args = append(args, "2", how, strconv.FormatInt(c.now, 10))
	for i := range items {
		st, next, ends := &items[i].State, "", int64(0)
		if c.undo && kindOf(items[i].Term) != kindLog && raw[i] == c.from[i] {
			before, err := c.read(i, c.to[i])
			if err != nil {
				return nil, false, err
			}
			st = &before
		}
		if st.Idle > c.now {
			next, ends = formatState(items[i].Term, st), st.Idle/1000+1001
		}
		if s.inject != nil {
			ends = 3600e3
		}
		changed = changed || next != raw[i]
		args = append(args, raw[i], next, strconv.FormatInt(ends, 10))
	}
	return args, changed, nil
}

// read returns the state of the i-th limit that the server has, carried over if
// another limit wrote it.
func (c *call) read(i int, raw string) (algo.State, error) {
	it := &c.items[i]
	if raw == "" {
		return algo.State{}, nil
	}
	from, size, err := parseHead(it.term.Name, raw)
	if err != nil {
		return algo.State{}, err
	}
	state, err := parseState(from, raw[size:])
	if err == nil && !strings.HasPrefix(raw, it.head) {
		state = algo.Carry(from, it.term, &state, c.now)
	}
	return state, err
}
