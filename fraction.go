// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sluice

import (
	"slices"
	"strconv"
	"strings"
)

// fraction reads a quota that is a decimal fraction of more than zero: of
// "2.50MB" it returns 5 over 2, and how many bytes of s are the number. It is
// not ok if s is none, and the parts are 0 if they are too large.
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

// whole returns a fault that says how to write a quota that is a fraction, nil
// if it is none.
func (p *parser) whole(quota, window string) error {
	over, under, size, ok := fraction(quota)
	if !ok {
		return nil
	}
	same := parser{text: sameRate(over, under, quota[size:], window)}
	calendar := slices.Contains(strings.Fields(p.text[p.next:]), "calendar")
	if over == 0 || calendar && under > 1 || same.rate(same.word()) != nil {
		return p.fail(p.pos, "%s is not a whole number, and no whole one is exactly this rate; write a whole number of units", quota)
	}
	return p.fail(p.pos, "%s is not a whole number; write %s, which is the same rate", quota, same.text)
}

// sameRate is over/under units in a window, as the text of a rate, or one that
// is none if the window's number is too large.
func sameRate(over, under int64, unit, window string) string {
	rate := strconv.FormatInt(over, 10) + unit + "/"
	if under == 1 {
		return rate + window
	}
	name := strings.TrimLeft(window, "0123456789")
	n := int64(1)
	if number := window[:len(window)-len(name)]; number != "" {
		n, _ = strconv.ParseInt(number, 10, 64) // one that is too large makes no window
	}
	if under == 0 || n < 1 || n > int64(MaxWindow)/under {
		return rate
	}
	return rate + strconv.FormatInt(n*under, 10) + name
}
