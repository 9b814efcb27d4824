// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
)

// The instant up to which receipts of a key are void has a key of its own, which takes do
// not read. A reset and an add write it, and a refund reads it, in the same call as the
// states.

// voiding reports whether a job of the call reads or changes such an instant.
func (c *call) voiding() bool {
	return slices.ContainsFunc(c.jobs, func(j *job) bool {
		return j.op == sluice.OpRefund || j.op == sluice.OpReset || j.op == sluice.OpAdd
	})
}

// voidKeys returns the keys of the instants, one for each charge.
func (c *call) voidKeys() []string {
	if !c.voiding() {
		return nil
	}
	keys := make([]string, len(c.tags))
	for n, tag := range c.tags {
		keys[n] = tag + sepVoid
	}
	return keys
}

// readVoids reads the instants from their values.
func (c *call) readVoids(value func(n int) (string, error)) error {
	if c.voids = nil; !c.voiding() {
		return nil
	}
	c.voids = make([]int64, len(c.tags))
	for n := range c.voids {
		text, err := value(n)
		if err == nil && text != "" {
			c.voids[n], err = strconv.ParseInt(text, 10, 64)
		}
		if err != nil {
			return fmt.Errorf("the instant up to which receipts are void, at %q: %w", c.tags[n]+sepVoid, err)
		}
	}
	return nil
}

// voidOf returns the instant of the i-th limit.
func (c *call) voidOf(i int) int64 {
	if c.voids == nil {
		return 0
	}
	return c.voids[c.items[i].charge]
}

// keepVoids keeps the instants that a job has changed.
func (c *call) keepVoids(j *job, items []algo.Item) {
	if c.voids == nil || j.op == sluice.OpPeek {
		return
	}
	for i := range items {
		of := &c.voids[c.items[i].charge]
		*of = max(*of, items[i].Void)
	}
}

// nextVoid returns the new value of the n-th instant.
func (c *call) nextVoid(n int, was string) next {
	if c.voids[n] == 0 || strconv.FormatInt(c.voids[n], 10) == was {
		return next{was, 0}
	}
	v := next{value: strconv.FormatInt(c.voids[n], 10)}
	for i := range c.items {
		if it := &c.items[i]; it.charge == n {
			v.ends = max(v.ends, c.voids[n]+algo.Horizon(it.term)-sluice.MaxWait.Microseconds())
		}
	}
	return v
}
