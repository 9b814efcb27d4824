// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"strings"

	"github.com/sluicegate/sluice"
)

const forBlocks = "; use for example 10min after 20 denials/min"

// ParseBlock reads a block, which says when a key is blocked and for how long, with an
// optional name: "10min after 20 denials/min", "long: 1day after 100 denials/h". Its error
// is a [*sluice.TextError] or one of [sluice.Limit.Validate].
func ParseBlock(text string) (sluice.Limit, error) {
	words, at := fields(text)
	fail := func(i int, problem string) (sluice.Limit, error) {
		offset := len(text)
		if i < len(words) {
			offset = at[i]
		}
		return sluice.Limit{}, &sluice.TextError{Text: text, Offset: offset, Problem: problem + forBlocks}
	}
	first := 0 // the first word after the name
	if len(words) > 0 && strings.HasSuffix(words[0], ":") {
		first = 1
	}
	if len(words) <= first {
		return fail(first, "the length of the block is missing")
	}
	if len(words) <= first+1 || words[first+1] != "after" {
		return fail(first+1, "the number of denials is missing")
	}
	if len(words) <= first+3 {
		return fail(first+3, "the number of denials and their time are missing")
	}
	what, window, _ := strings.Cut(words[first+3], "/")
	switch {
	case what != "denials" && what != "denial":
		return fail(first+3, "the number of denials and their time are not valid")
	case window == "":
		return fail(first+4, "the time of the denials is missing")
	case len(words) > first+4:
		return fail(first+4, "there is text after the denials")
	}

	// The text of the limit is made of these words; a fault is reported at its word.
	var b strings.Builder
	var from, to []int // offset of each word in b, and in text
	put := func(word string, offset int) {
		from, to = append(from, b.Len()), append(to, offset)
		b.WriteString(word)
	}
	if first == 1 {
		put(words[0]+" ", at[0])
	}
	put(words[first+2], at[first+2])
	put("/"+window, at[first+3]+len(what))
	put(" block "+words[first], at[first]-len(" block "))
	l, err := sluice.ParseLimit(b.String())
	if fault, ok := errors.AsType[*sluice.TextError](err); ok {
		i := len(from) - 1
		for from[i] > fault.Offset {
			i--
		}
		problem := fault.Problem
		if before, ok := strings.CutSuffix(problem, "; use for example 20/min block 10min"); ok {
			problem = before + forBlocks
		}
		return sluice.Limit{}, &sluice.TextError{Text: text, Offset: max(to[i]+fault.Offset-from[i], 0), Problem: problem}
	}
	return l, err
}

// fields returns the words of a text and their offsets.
func fields(text string) (words []string, at []int) {
	offset := 0
	for word := range strings.FieldsSeq(text) {
		i := strings.Index(text[offset:], word) + offset
		words, at = append(words, word), append(at, i)
		offset = i + len(word)
	}
	return words, at
}

func isBlock(l sluice.Limit) bool {
	_, block := l.Algorithm.(sluice.Block)
	return block
}

// blocks compiles the blocks of a level. Every set of its limits includes them.
func (c *compiler) blocks(r *rule, l *Level, at place) {
	c.levelBlocks = nil
	if len(l.Blocks) == 0 {
		return
	}
	before := len(c.faults)
	here := at.in("Blocks")
	for i, b := range l.Blocks {
		c.limit(here.item(i), b)
		if !isBlock(b) {
			c.fault(here.item(i), "%v has no length; use for example 10min after 20 denials/min", b)
		}
		for _, other := range l.Blocks[:i] {
			if other.Filled().Name == b.Filled().Name {
				c.fault(here.item(i), "another block has the name %q and would count in one state; give one a name of its own", b.Filled().Name)
			}
		}
	}
	switch {
	case r.Shape:
		c.fault(here, "has no effect in a rule with shape, which denies nothing; leave it out")
	case r.When != nil && !r.When.ChargeFirst:
		c.fault(here, "counts requests that are denied, and a rule that counts responses only asks whether there is room; use charge: first, or leave it out")
	}
	if r.MaxWait > 0 {
		c.fault(here, "excludes max_wait, with which requests are delayed and not denied; leave out one of them")
	}
	if r.Lease != nil {
		c.fault(here, "counts denials, which a lease would hide from it; leave out the block or the lease")
	}
	if len(l.Limits)+len(l.Overrides) == 0 && l.Tiers == nil {
		c.fault(here, "counts the denials of limits, and there are none; in_flight does not count: add a limit, such as 100/min")
	}
	if len(c.faults) == before {
		c.levelBlocks = l.Blocks
	}
}
