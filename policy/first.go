// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/sluicegate/sluice/internal/clientip"
	"github.com/sluicegate/sluice/internal/source"
)

// plainPart returns p, and the parts that it is made of, with their finders.
func plainPart(p Part) (k keyPart, err error) {
	k.Part = p
	if p.Source == source.IP {
		k.finder, err = clientip.New(clientip.Options{IPv4Bits: p.IPv4Bits, IPv6Bits: p.IPv6Bits})
	}
	if err != nil || p.Source != source.First && p.Source != source.All {
		return k, err
	}
	for _, of := range p.Parts() {
		part, err := plainPart(of)
		if err != nil {
			return k, err
		}
		k.of = append(k.of, part)
	}
	return k, nil
}

// Of returns the part to which a value of p belongs, and the value alone: for First the
// part that the request had, otherwise p. The value must be in the form that requests have.
func (p Part) Of(value string) (Part, string) {
	if i, of, ok := p.firstOf(value); ok {
		return p.made.of[i], of
	}
	return p, value
}

// firstOf returns the index of the part of First to which a value belongs, and the value
// alone.
func (p Part) firstOf(value string) (i int, of string, ok bool) {
	if p.Source != source.First || p.made == nil {
		return 0, "", false
	}
	number, of, ok := strings.Cut(value, ":")
	n, err := strconv.Atoi(number)
	if !ok || err != nil || n < 1 || n > len(p.made.of) || strconv.Itoa(n) != number {
		return 0, "", false
	}
	return n - 1, of, true
}

// after returns the text behind the part's name and "=". A network may be called ip.
func (p Part) after(text string) (value string, ok bool) {
	name := p.String() + "="
	switch {
	case p.Source == source.Header && len(text) >= len(name) && strings.EqualFold(text[:len(name)], name):
		return text[len(name):], true
	case p.Source == source.IP && strings.HasPrefix(text, "ip="):
		return text[len("ip="):], true
	default:
		return strings.CutPrefix(text, name)
	}
}

// firstWritten reads a value of First, as "ip=192.0.2.1" or in the form that requests have.
func (p *keyPart) firstWritten(text string) (string, error) {
	i, value, ok := p.firstOf(text)
	for j := range p.of {
		if given, is := p.of[j].after(text); is {
			i, value, ok = j, given, true
			break
		}
	}
	if !ok || i >= len(p.of) {
		return "", fmt.Errorf("%q is not clear, as the key has several parts; use for example %s=VALUE", text, p.Parts()[0])
	}
	if value == "" {
		return "", fmt.Errorf("an empty value of %v; no request has one, as it counts as missing", p.of[i].Part)
	}
	value, err := p.of[i].written(value)
	if err != nil {
		return "", fmt.Errorf("%v: %w", p.of[i].Part, err)
	}
	return strconv.Itoa(i+1) + ":" + value, nil
}
