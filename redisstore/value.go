// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/internal/logentry"
	"github.com/sluicegate/sluice/redisstore/internal/transport"
)

// A key's value is, in the first format, one state behind the head of the limit
// that wrote it. What that format cannot say begins with two bytes that nodes
// which know no other refuse: as a head it would be one of 255 bytes, of an
// algorithm that is none. The second byte is the format, above three bits that
// are set.
//
//	0  a state as before, and of a bucket behind it since when its writer has
//	   been the only one and when its last reservation is due; or a log in which
//	   denials are distinguished from admitted units
//	1  several states of a key, as the limits of one name that it is used under
//	   count in different ways: how many, and each with its length before it
//	2  a histogram whose entries have as many bits for an instant as they need, in
//	   the place of 52, and where it is enough words of 7 bytes
const (
	extended     = "\xff\x07"
	severalForms = "\xff\x0f"
	packed       = "\xff\x17"
	formatBits   = 3
	lastFormat   = 2
)

// markOf returns the mark of the format in which s, which t wrote, is kept: none
// where the first has room for what it says.
func markOf(t *sluice.Term, s *algo.State) string {
	switch {
	case t.Algorithm == sluice.SlidingHistogram:
		return packed
	case t.Burst > 0 && !s.Plain() || countsDenials(t) || t.Algorithm == sluice.SlidingLog && logentry.Refusals(s.Ring, s.Head, s.Len):
		return extended
	}
	return ""
}

// headOf returns what a value begins with that is a state of t. Of a bucket it is
// that of the first format.
func headOf(t *sluice.Term) string {
	return markOf(t, &algo.State{}) + string(appendHead(nil, &t.Limit))
}

// countsDenials reports whether states of t distinguish denials from admitted units.
func countsDenials(t *sluice.Term) bool { return t.CountDenied && t.Algorithm == sluice.SlidingLog }

// formatOne returns a value of one state, which t wrote.
func formatOne(t *sluice.Term, s *algo.State) string {
	mark := markOf(t, s)
	b := formatState([]byte(mark), t, s)
	if t.Burst > 0 && mark == extended {
		b = appendInt(appendInt(b, s.Since), s.Last)
	}
	return string(b)
}

// formatValue returns the value of states, each with By set.
func formatValue(list []algo.State) string {
	switch len(list) {
	case 0:
		return ""
	case 1:
		return formatOne(list[0].By, &list[0])
	}
	b := append([]byte(severalForms), byte(len(list)))
	for i := range list {
		one := formatOne(list[i].By, &list[i])
		b = append(binary.AppendUvarint(b, uint64(len(one))), one...)
	}
	return string(b)
}

// parseValue returns the states of a value, each with By set.
func (s *Store) parseValue(it *item, raw string) (list []algo.State, err error) {
	switch {
	case raw == "":
		return nil, nil
	case !strings.HasPrefix(raw, severalForms):
		state, err := s.parseOne(it, raw)
		return []algo.State{state}, err
	}
	rest := raw[len(severalForms):]
	if rest == "" {
		return nil, errState
	}
	count := int(rest[0])
	rest = rest[1:]
	for range count {
		size, n := binary.Uvarint([]byte(rest[:min(len(rest), binary.MaxVarintLen64)]))
		if n <= 0 || size > uint64(len(rest)-n) {
			return nil, errState
		}
		state, err := s.parseOne(it, rest[n:n+int(size)])
		if err != nil {
			return nil, err
		}
		list, rest = append(list, state), rest[n+int(size):]
	}
	if rest != "" {
		return nil, errState
	}
	return list, nil
}

// parseOne reads a value of one state.
func (s *Store) parseOne(it *item, raw string) (algo.State, error) {
	body, mark, err := cutFormat(raw)
	if err != nil {
		return algo.State{}, err
	}
	by, size := it.term, len(it.plainHead)
	if !strings.HasPrefix(body, it.plainHead) {
		if by, size, err = s.writers.of(it.term.Name, body); err != nil {
			return algo.State{}, err
		}
	}
	state, err := parseMarked(by, body[size:], mark)
	state.By = by
	return state, err
}

// cutFormat returns the value without the mark of its format, and that mark.
func cutFormat(raw string) (body, mark string, err error) {
	if len(raw) < 2 || raw[0] != extended[0] || raw[1]&(1<<formatBits-1) != 1<<formatBits-1 {
		return raw, "", nil
	}
	switch format := raw[1] >> formatBits; format {
	case 0, 2:
		return raw[len(extended):], raw[:len(extended)], nil
	case 1:
		return "", "", errors.New("the state has forms within forms: another program wrote this key")
	default:
		return "", "", fmt.Errorf("the state has format %d, this program knows up to %d: upgrade it", format, lastFormat)
	}
}

// parseMarked reads what follows a head, in the format that the mark says.
func parseMarked(t *sluice.Term, body, mark string) (algo.State, error) {
	const size = 14
	switch histogram := t.Algorithm == sluice.SlidingHistogram; {
	case mark == packed && histogram:
		return parseState(t, body, formatOf(t).Bytes())
	case mark == packed:
		return algo.State{}, errState
	case histogram: // as the release before wrote it
		s, err := parseState(t, body, wholeWord)
		algo.Repack(t, &s)
		return s, err
	case mark != extended || t.Burst == 0:
		return parseState(t, body, wholeWord)
	case len(body) < size:
		return algo.State{}, errState
	}
	tail := reader{s: body[len(body)-size:]}
	s, err := parseState(t, body[:len(body)-size], wholeWord)
	s.Since, s.Last = tail.int(7), tail.int(7)
	return s, err
}

// wholeWord is how many bytes the words of a log have.
const wholeWord = 8

// readOwn returns the state of the i-th limit from a value that it wrote itself,
// or none.
func (c *call) readOwn(i int, raw string) (algo.State, error) {
	it := &c.items[i]
	if raw == "" {
		return algo.State{}, nil
	}
	body, mark, err := cutFormat(raw)
	if err != nil || !strings.HasPrefix(body, it.plainHead) {
		return algo.State{}, errors.Join(transport.ErrReply, err)
	}
	return parseMarked(it.term, body[len(it.plainHead):], mark)
}

// matters returns until when a state that t wrote says anything, in µs: until it
// is idle, and, where receipts of other limits may be about, as long as these
// could be given back.
func matters(t *sluice.Term, s *algo.State) int64 {
	if s.Since == 0 {
		return s.Idle
	}
	return max(s.Idle, s.Since+algo.Horizon(t)-sluice.MaxWait.Microseconds())
}

// kept returns the states that must be kept after a decision at now, each with
// By set, and until when they matter. A balance that owes nothing may still report
// whose receipts count.
func kept(it *algo.Item, now int64) (list []algo.State, ends int64) {
	all := it.Keep(nil)
	if it.State.Zero() && it.State.Since > 0 {
		all = append(all, algo.State{Since: it.State.Since, By: it.Term})
	}
	for i := range all {
		if end := matters(all[i].By, &all[i]); end > now {
			list, ends = append(list, all[i]), max(ends, end)
		}
	}
	return list, ends
}
