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

// replied reads a script's reply and sets c.now. It returns what there was to
// say of each limit.
func (s *Store) replied(c *call, inv *invocation, res rueidis.RedisResult) (status, []rueidis.RedisMessage, error) {
	reply, err := res.ToArray()
	if err != nil {
		return 0, nil, err
	}
	if len(reply) < 2 {
		return 0, nil, errReply
	}
	if inv.program == s.programs.take {
		if s.inject == nil {
			if c.now, err = serverTime(reply[1:]); err != nil {
				return 0, nil, err
			}
		}
		if len(reply) > 3 {
			return foreign, reply[:1], nil
		}
		return done, reply[:1], nil
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
func (c *call) carry(replies []rueidis.RedisMessage) error {
	if c.undo {
		return fmt.Errorf("undo: %w", errChanging)
	}
	// What is carried over is worth that at this instant, and decided at it.
	c.at = c.now
	c.from, c.to = make([]string, len(c.items)), make([]string, len(c.items))
	for i := range c.items {
		it := &c.items[i]
		raw, err := text(&replies[i])
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
func (c *call) describe(replies []rueidis.RedisMessage) error {
	items := make([]algo.Item, len(c.items))
	seen := make([][]rueidis.RedisMessage, len(c.items))
	for i := range c.items {
		it := &c.items[i]
		items[i].Term = it.term
		if kindOf(it.term) == kindLog {
			list, err := replies[i].ToArray()
			if err != nil {
				return err
			}
			if len(list) != len(c.jobs) {
				return errReply
			}
			seen[i] = list
			continue
		}
		raw, err := text(&replies[i])
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
