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
)

// A value is a header, the head of the limit that wrote it, and the state. The header is
// a byte with the version of the format and a byte of flags.
const (
	version     = 1
	headerBytes = 2

	// flagMultiForm marks a value with the states of several limits of one name, which
	// count in different ways. The header is followed by their number and, for each,
	// its length, flags, head and state.
	flagMultiForm = 1 << 0
	// flagSince marks the state of a bucket that is followed by two instants: when its
	// limit became the only writer, and when its last reservation is due.
	flagSince = 1 << 1
	// flagBeside marks a value with open holds beside it. The header is followed by the
	// instant at which the next of them ends: see holds.go. No script decides on such a
	// value, or on one with an unknown flag.
	flagBeside = 1 << 2

	flagsKnown = flagMultiForm | flagSince
)

// headOf returns the header and the head of a value that holds one state, written by t.
func headOf(t *sluice.Term) string { return string(appendHead([]byte{version, 0}, t)) }

// checkHeader returns an error if this program cannot read a value.
func checkHeader(raw string) error {
	switch {
	case raw[0] != version:
		return otherVersion(raw)
	case len(raw) < headerBytes:
		return errState
	}
	return checkFlags(raw[1])
}

func otherVersion(raw string) error {
	return fmt.Errorf("the value has format %d, this program knows format %d: upgrade the program, or delete the key if another one wrote it", raw[0], version)
}

func checkFlags(flags byte) error {
	if flags&^flagsKnown != 0 {
		return fmt.Errorf("the value has the flags %#x, this program knows %#x: upgrade the program", flags, flagsKnown)
	}
	return nil
}

// appendState appends the flags, head and state of s, with By set.
func appendState(b []byte, s *algo.State) []byte {
	if s.By.Burst == 0 || s.Since == 0 && s.Last == 0 {
		return formatState(appendHead(append(b, 0), s.By), s.By, s)
	}
	b = formatState(appendHead(append(b, flagSince), s.By), s.By, s)
	return appendInt(appendInt(b, s.Since), s.Last)
}

// formatValue returns the value of states, each with By set.
func formatValue(list []algo.State) string {
	switch len(list) {
	case 0:
		return ""
	case 1:
		return string(appendState([]byte{version}, &list[0]))
	}
	b := []byte{version, flagMultiForm, byte(len(list))}
	for i := range list {
		one := appendState(nil, &list[i])
		b = append(binary.AppendUvarint(b, uint64(len(one))), one...)
	}
	return string(b)
}

// parseValue returns the states of a value, each with By set.
func (s *Store) parseValue(it *item, raw string) ([]algo.State, error) {
	if raw == "" {
		return nil, nil
	}
	raw, _, err := splitNext(raw)
	if err == nil {
		err = checkHeader(raw)
	}
	if err != nil {
		return nil, err
	}
	if raw[1]&flagMultiForm == 0 {
		state, err := s.parseOne(it, raw[1:])
		return []algo.State{state}, err
	}
	rest := raw[headerBytes:]
	if raw[1] != flagMultiForm || rest == "" {
		return nil, errState
	}
	list, rest := make([]algo.State, rest[0]), rest[1:]
	for i := range list {
		size, n := binary.Uvarint([]byte(rest[:min(len(rest), binary.MaxVarintLen64)]))
		if n <= 0 || size == 0 || size > uint64(len(rest)-n) || rest[n]&flagMultiForm != 0 {
			return nil, errState
		}
		var err error
		if list[i], err = s.parseOne(it, rest[n:n+int(size)]); err != nil {
			return nil, err
		}
		rest = rest[n+int(size):]
	}
	if rest != "" {
		return nil, errState
	}
	return list, nil
}

// parseOne reads a state that appendState has written.
func (s *Store) parseOne(it *item, raw string) (algo.State, error) {
	flags, body, by, size := raw[0], raw[1:], it.term, len(it.head)-headerBytes
	err := checkFlags(flags)
	if err == nil && !strings.HasPrefix(body, it.head[headerBytes:]) {
		by, size, err = s.writers.of(it.term.Name, body)
	}
	if err != nil {
		return algo.State{}, err
	}
	state, err := parseBody(by, flags, body[size:])
	state.By = by
	return state, err
}

// parseBody reads the part of a state after the head of t.
func parseBody(t *sluice.Term, flags byte, body string) (algo.State, error) {
	if flags&flagSince == 0 {
		return parseState(t, body)
	}
	const size = 14
	if t.Burst == 0 || len(body) < size {
		return algo.State{}, errState
	}
	tail := reader{s: body[len(body)-size:]}
	s, err := parseState(t, body[:len(body)-size])
	s.Since, s.Last = tail.int(7), tail.int(7)
	return s, err
}

// readOwn returns the state of the i-th limit from a value that this limit wrote. Without
// a value the state is zero.
func (c *call) readOwn(i int, raw string) (algo.State, error) {
	it := &c.items[i]
	if raw == "" {
		return algo.State{}, nil
	}
	if err := checkHeader(raw); err != nil || !strings.HasPrefix(raw[headerBytes:], it.head[headerBytes:]) {
		return algo.State{}, errors.Join(errReply, err)
	}
	return parseBody(it.term, raw[1], raw[len(it.head):])
}

// matters returns the instant in µs until which a state that t wrote is needed: it is then
// idle, and no receipt of another limit can be refunded any more.
func matters(t *sluice.Term, s *algo.State) int64 {
	if s.Since == 0 {
		return s.Idle
	}
	return max(s.Idle, s.Since+algo.Horizon(t)-sluice.MaxWait.Microseconds())
}

// kept returns the states that must be kept after a decision at now, each with By set, and
// the instant until which they are needed. They include a balance without debt as long as
// its Since decides which receipts count.
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
