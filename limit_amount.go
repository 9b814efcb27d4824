// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sluice

import (
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"
)

// fraction reads a quota that is a positive decimal fraction: for "2.50MB" it returns
// 5 over 2, and the length of the number in bytes. ok is false if s is no such fraction.
// The parts are 0 if they are too large.
func fraction(s string) (over, under int64, size int, ok bool) {
	digits := func(from int) int {
		for from < len(s) && (isDigit(s[from]) || s[from] == '_') {
			from++
		}
		return from
	}
	point := digits(0)
	size = digits(min(point+1, len(s)))
	if point == len(s) || s[point] != '.' || size == point+1 || strings.Trim(s[:size], "0_.") == "" {
		return 0, 0, 0, false
	}
	under = 1
	number := strings.ReplaceAll(s[:point], "_", "") + s[point+1:size]
	over, err := strconv.ParseInt(number, 10, 64)
	if err != nil || size-point > 18 { // more than 10 to the 18th overflows
		return 0, 0, size, true
	}
	for range size - point - 1 {
		under *= 10
	}
	for _, prime := range [...]int64{2, 5} {
		for over%prime == 0 && under%prime == 0 {
			over, under = over/prime, under/prime
		}
	}
	return over, under, size, true
}

// whole returns an error that says how to write a quota that is a fraction, nil
// if the quota is none.
func (p *parser) whole(quota, window string) error {
	over, under, size, ok := fraction(quota)
	if !ok {
		return nil
	}
	same := parser{text: sameRate(over, under, quota[size:], window)}
	calendar := slices.Contains(strings.Fields(p.text[p.next:]), "calendar")
	if over == 0 || calendar && under > 1 || same.rate(same.word()) != nil {
		return p.fail(p.pos, "%s is not a whole number, and no whole one is exactly this rate; use a whole number of units", quota)
	}
	return p.fail(p.pos, "%s is not a whole number; use %s, which is the same rate", quota, same.text)
}

// sameRate returns the text of a rate of over/under units in a window, without the window
// if the window's number is too large.
func sameRate(over, under int64, unit, window string) string {
	rate := strconv.FormatInt(over, 10) + unit + "/"
	if under == 1 {
		return rate + window
	}
	name := strings.TrimLeft(window, "0123456789")
	n := int64(1)
	if number := window[:len(window)-len(name)]; number != "" {
		n, _ = strconv.ParseInt(number, 10, 64) // a number that is too large is refused below
	}
	if under == 0 || n < 1 || n > int64(MaxWindow)/under {
		return rate
	}
	return rate + strconv.FormatInt(n*under, 10) + name
}

// amount reads a number of units, or a size in bytes if the quota is in bytes or
// mayChoose is true.
func (p *parser) amount(at int, s string, mayChoose bool) (int64, Unit, error) {
	digits := 0
	for digits < len(s) && (isDigit(s[digits]) || s[digits] == '_' && digits > 0 && isDigit(s[digits-1])) {
		digits++
	}
	n, err := strconv.ParseInt(strings.ReplaceAll(s[:digits], "_", ""), 10, 64)
	if err != nil || n > MaxQuota || s[digits-1] == '_' {
		return 0, 0, p.fail(at, "%q is not a whole number of units from 0 to %d; use such a number", s, int64(MaxQuota))
	}
	suffix := s[digits:]
	if suffix == "" {
		return n, Requests, nil
	}
	for _, size := range sizes {
		if size.name == suffix {
			if !mayChoose && p.limit.Unit != Bytes {
				return 0, 0, p.fail(at, "%q is in bytes but the quota is not; use bytes for both, or for none", s)
			}
			if hi, lo := bits.Mul64(uint64(n), uint64(size.n)); hi != 0 || lo > MaxQuota {
				return 0, 0, p.fail(at, "%q is more than %d bytes; use a smaller number", s, int64(MaxQuota))
			}
			return n * size.n, Bytes, nil
		}
	}
	return 0, 0, p.fail(at, "%q: %q is not a unit; use a plain number of requests, or bytes as B, KB, MB, GB, TB, KiB, MiB, GiB, TiB", s, suffix)
}

// length reads a length of time: n times unit. The unit is 0 if its name is unknown.
func (p *parser) length(at int, what, text string) (n int64, unit time.Duration, err error) {
	digits := 0
	for digits < len(text) && isDigit(text[digits]) {
		digits++
	}
	if n = 1; digits > 0 {
		if n, err = strconv.ParseInt(text[:digits], 10, 64); err != nil || n == 0 {
			return 0, 0, p.fail(at, "the %s %q must be a whole number of at least 1 with a unit", what, text)
		}
	}
	for _, d := range durations {
		if d.name == text[digits:] {
			if n > int64(MaxWindow/d.d) {
				return 0, 0, p.fail(at, "the %s %q is longer than %v", what, text, MaxWindow)
			}
			return n, d.d, nil
		}
	}
	return 0, 0, nil
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// number reads the argument of word: a number of units of at least least.
func (p *parser) number(word string, least int64, into *int64) error {
	arg := p.word()
	if arg == "" {
		return p.fail(p.pos, "%s needs a number of units behind it", word)
	}
	n, _, err := p.amount(p.pos, arg, false)
	if err != nil {
		return err
	}
	if n < least {
		return p.fail(p.pos, "%s must be at least %d", word, least)
	}
	*into = n
	return nil
}

// small reads the argument of word: a plain number from least to most.
func (p *parser) small(word string, least, most int, into *int) error {
	arg := p.word()
	n, err := strconv.Atoi(arg)
	if err != nil || !isDigit(arg[0]) || n < least || n > most {
		return p.fail(p.pos, "%s %q is not a number from %d to %d; use such a number", word, arg, least, most)
	}
	*into = n
	return nil
}

// lasting reads a length of time as the argument of a word.
func (p *parser) lasting(what, write string, into *time.Duration) error {
	arg := p.word()
	n, unit, err := p.length(p.pos, what, arg)
	if err == nil && unit == 0 {
		err = p.fail(p.pos, "%q is not %s", arg, write)
	}
	*into = time.Duration(n) * unit
	return err
}
