// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"errors"
	"strconv"
	"strings"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
)

// found holds a script's result for each limit of a call: the state before the call or,
// for a log, a list of the parts that every job has read.
type found struct {
	raw   string  // from a short reply, for one limit and, for a log, one job
	list  []Reply // nil, or a reply whose results begin at stated
	count int
}

// stated is the index of the first state in the reply of a general script.
const stated = 2

// state returns the state of the i-th limit before the call.
func (f *found) state(i int) (string, error) {
	if f.list == nil {
		return f.raw, nil
	}
	return f.list[stated+i].text()
}

// values returns all results.
func (f *found) values() ([]string, error) {
	if f.list == nil {
		return []string{f.raw}, nil
	}
	list := make([]string, f.count)
	for i := range list {
		var err error
		if list[i], err = f.state(i); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// replied reads a script's reply and sets c.now.
func (s *Store) replied(c *call, inv *invocation, res *Reply) (status, found, error) {
	if inv.short && res.List == nil {
		text, err := res.text()
		if err != nil {
			return 0, found{}, err
		}
		return s.repliedShort(c, text)
	}
	voids := len(c.voidKeys())
	st, list, err := c.read(res, voids)
	return st, found{list: list, count: len(c.items) + voids}, err
}

// repliedShort reads a short reply: seconds, µs and the state.
func (s *Store) repliedShort(c *call, reply string) (status, found, error) {
	reply, other := strings.CutPrefix(reply, "!")
	seconds, rest, _ := strings.Cut(reply, " ")
	micros, raw, ok := strings.Cut(rest, " ")
	if !ok {
		return 0, found{}, errReply
	}
	if s.inject == nil {
		sec, err := strconv.ParseInt(seconds, 10, 64)
		us, err2 := strconv.ParseInt(micros, 10, 64)
		if err := errors.Join(err, err2); err != nil {
			return 0, found{}, err
		}
		c.now = sec*1e6 + us
	}
	if other {
		return otherLimit, found{raw: raw}, nil
	}
	return done, found{raw: raw}, nil
}

// serverTime returns the instant of a TIME command, whose parts are the elements i and i+1
// of a reply.
func serverTime(reply []Reply, i int) (int64, error) {
	seconds, err := reply[i].int()
	micros, err2 := reply[i+1].int()
	return seconds*1e6 + micros, errors.Join(err, err2)
}

// read reads the reply of a general script, which has more values after the states, and
// sets c.now.
func (c *call) read(res *Reply, more int) (status, []Reply, error) {
	reply, err := res.list(stated)
	if err != nil {
		return 0, nil, err
	}
	st, err := reply[0].int()
	if err != nil {
		return 0, nil, err
	}
	if c.now, err = reply[1].int(); err != nil {
		return 0, nil, err
	}
	if (status(st) == done || status(st) == otherLimit) && len(reply) != stated+len(c.items)+more {
		return 0, nil, errReply
	}
	return status(st), reply, nil
}

// describe computes every job's decision from the results of the script.
func (c *call) describe(f found) error {
	items := c.room.found[:]
	if len(c.items) > 1 {
		items = make([]algo.Item, len(c.items))
	}
	var seen [][]Reply
	for i := range c.items {
		it := &c.items[i]
		items[i].Term = it.term
		if f.list == nil && kindOf(it.term) == kindLog {
			if len(c.jobs) > 1 {
				return errReply
			}
			var err error
			if items[i].State, err = parseSeen(it.term, f.raw); err != nil {
				return err
			}
			continue
		}
		if kindOf(it.term) == kindLog {
			list, err := f.list[stated+i].list(0)
			if err != nil {
				return err
			}
			if len(list) != len(c.jobs) {
				return errReply
			}
			if seen == nil {
				seen = make([][]Reply, len(c.items))
			}
			seen[i] = list
			continue
		}
		raw, err := f.state(i)
		if err != nil {
			return err
		}
		if items[i].State, err = c.readOwn(i, raw); err != nil {
			return err
		}
	}
	if f.list != nil {
		if err := c.readVoids(func(n int) (string, error) { return f.state(len(c.items) + n) }); err != nil {
			return err
		}
	}
	c.before = c.valuesOf(items)
	var room [4]algo.State
	for n, j := range c.jobs {
		if err := see(items, seen, n); err != nil {
			return err
		}
		c.decideNext(j, items, room[:0], n == len(c.jobs)-1 && !c.part)
	}
	c.after = c.valuesOf(items)
	return nil
}

// see sets the states of logs in items to those that the n-th job has read.
func see(items []algo.Item, seen [][]Reply, n int) error {
	for i := range seen {
		if seen[i] == nil {
			continue
		}
		raw, err := seen[i][n].text()
		if err != nil {
			return err
		}
		if items[i].State, err = parseSeen(items[i].Term, raw); err != nil {
			return err
		}
	}
	return nil
}

// decideNext decides a job over the items that the previous job has left, and restores the
// states that it does not write, which it keeps in before. It does not do so for the last
// job.
func (c *call) decideNext(j *job, items []algo.Item, before []algo.State, last bool) {
	for i := range items {
		charge := j.req.Nth(c.items[i].charge)
		items[i].Cost, items[i].Counted, items[i].Void = charge.Cost, charge.Counted, c.voidOf(i)
		if !last {
			// The next job sees the old state unless this one writes it.
			before = append(before, copyOf(&items[i].State))
		}
		c.items[i].fresh(&items[i].State, c.now)
	}
	j.decide(items, c.now)
	c.keepVoids(j, items)
	for i := range before {
		if !items[i].Written || j.op == sluice.OpPeek {
			items[i].State = before[i]
		}
	}
}

// valuesOf returns the values of states of fixed size if an undo may need them.
func (c *call) valuesOf(items []algo.Item) []string {
	if !c.part {
		return nil
	}
	values := make([]string, len(items))
	for i := range items {
		it := items[i]
		if kindOf(it.Term) != kindLog {
			list, _ := kept(&it, c.now)
			values[i] = formatValue(list)
		}
	}
	return values
}
