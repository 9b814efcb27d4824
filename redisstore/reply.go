// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
)

var errReply = errors.New("the script's reply makes no sense: is it another program's?")

// found is what a script has to say of each limit of a call: the state as it
// was, or for a log a list of what every job saw of it.
type found struct {
	raw  string // that of the take script, which is of one limit
	list []rueidis.RedisMessage
}

// state returns the state of the i-th limit as it was.
func (f *found) state(i int) (string, error) {
	if f.list == nil {
		return f.raw, nil
	}
	return text(&f.list[i])
}

// replied reads a script's reply and sets c.now.
func (s *Store) replied(c *call, inv *invocation, res rueidis.RedisResult) (status, found, error) {
	if inv.program == s.programs.take {
		text, err := res.ToString()
		if err != nil {
			return 0, found{}, err
		}
		return s.repliedTake(c, text)
	}
	st, list, err := s.repliedList(c, res)
	return st, found{list: list}, err
}

// repliedTake reads the take script's reply: seconds, µs and the state.
func (s *Store) repliedTake(c *call, reply string) (status, found, error) {
	reply, other := strings.CutPrefix(reply, "!")
	seconds, rest, _ := strings.Cut(reply, " ")
	micros, raw, ok := strings.Cut(rest, " ")
	if !ok {
		return 0, found{}, errReply
	}
	if s.inject == nil {
		sec, err := strconv.ParseInt(seconds, 10, 64)
		if err != nil {
			return 0, found{}, err
		}
		us, err := strconv.ParseInt(micros, 10, 64)
		if err != nil {
			return 0, found{}, err
		}
		c.now = sec*1e6 + us
	}
	if other {
		return foreign, found{raw: raw}, nil
	}
	return done, found{raw: raw}, nil
}

func (s *Store) repliedList(c *call, res rueidis.RedisResult) (status, []rueidis.RedisMessage, error) {
	reply, err := res.ToArray()
	if err != nil {
		return 0, nil, err
	}
	if len(reply) < 2 {
		return 0, nil, errReply
	}
	st, err := reply[0].AsInt64()
	if err != nil {
		return 0, nil, err
	}
	if c.now, err = number(&reply[1]); err != nil {
		return 0, nil, err
	}
	if status(st) != outside && status(st) != beyond && len(reply) != 2+len(c.items) {
		return 0, nil, errReply
	}
	return status(st), reply[2:], nil
}

func number(m *rueidis.RedisMessage) (int64, error) {
	text, err := m.ToString()
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(text, 10, 64)
}

// serverTime returns the instant that TIME told.
func serverTime(reply []rueidis.RedisMessage) (int64, error) {
	if len(reply) < 2 {
		return 0, errReply
	}
	seconds, err := number(&reply[0])
	if err != nil {
		return 0, err
	}
	micros, err := number(&reply[1])
	return seconds*1e6 + micros, err
}

// text returns the string of a message, empty if it is nil.
func text(m *rueidis.RedisMessage) (string, error) {
	if m.IsNil() {
		return "", nil
	}
	return m.ToString()
}

// carry works out what the states that other limits wrote are worth under the
// call's, for the next attempt.
func (c *call) carry(f found) error {
	if c.undo {
		return fmt.Errorf("undo: %w", errChanging)
	}
	// What is carried over is worth that at this instant, and decided at it.
	c.at = c.now
	c.from, c.to = make([]string, len(c.items)), make([]string, len(c.items))
	for i := range c.items {
		it := &c.items[i]
		raw, err := f.state(i)
		if err != nil {
			return err
		}
		if raw == "" || strings.HasPrefix(raw, it.head) {
			continue
		}
		from, size, err := parseHead(it.term.Name, raw)
		if err != nil {
			return err
		}
		old, err := parseState(from, raw[size:])
		if err != nil {
			return err
		}
		c.from[i] = raw
		if state := algo.Carry(from, it.term, &old, c.now); !state.Zero() {
			c.beyond = c.beyond || state.A > sluice.MaxQuota && kindOf(it.term) != kindBucket
			c.to[i] = formatState(it.term, &state)
		}
	}
	return nil
}

// describe works out every job's decision from what the script found.
func (c *call) describe(f found) error {
	if f.list == nil {
		return c.describeTakes(f.raw)
	}
	items := make([]algo.Item, len(c.items))
	seen := make([][]rueidis.RedisMessage, len(c.items))
	for i := range c.items {
		it := &c.items[i]
		items[i].Term = it.term
		if kindOf(it.term) == kindLog {
			list, err := f.list[i].ToArray()
			if err != nil {
				return err
			}
			if len(list) != len(c.jobs) {
				return errReply
			}
			seen[i] = list
			continue
		}
		raw, err := f.state(i)
		if err != nil || raw == "" {
			if err != nil {
				return err
			}
			continue
		}
		if !strings.HasPrefix(raw, it.head) {
			return errReply
		}
		if items[i].State, err = parseState(it.term, raw[len(it.head):]); err != nil {
			return err
		}
	}
	return c.decide(items, func(n int) error {
		for i := range items {
			if seen[i] == nil {
				continue
			}
			raw, err := seen[i][n].ToString()
			if err != nil {
				return err
			}
			if items[i].State, err = parseSeen(raw); err != nil {
				return err
			}
		}
		return nil
	})
}

// describeTakes does what describe does for what the take script decides.
func (c *call) describeTakes(raw string) error {
	it := &c.items[0]
	var items [1]algo.Item
	items[0].Term = it.term
	if raw != "" {
		if !strings.HasPrefix(raw, it.head) {
			return errReply
		}
		var err error
		if items[0].State, err = parseState(it.term, raw[len(it.head):]); err != nil {
			return err
		}
	}
	for _, j := range c.jobs {
		before := items[0].State
		items[0].Cost, items[0].Written = j.req.Cost, false
		j.decision = algo.Decide(j.req, items[:], c.now)
		if !items[0].Written {
			items[0].State = before
		}
	}
	return nil
}

// decide decides the jobs one after the other. Before each it calls see.
func (c *call) decide(items []algo.Item, see func(n int) error) error {
	c.before = states(items)
	for n, j := range c.jobs {
		if err := see(n); err != nil {
			return err
		}
		for i := range items {
			items[i].Cost = j.cost(c.items[i].charge)
		}
		j.decide(items, c.now, len(c.jobs) == 1 && !c.whole)
	}
	c.after = states(items)
	return nil
}
