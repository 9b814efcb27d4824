// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/internal/source"
)

// PartError is the error of a request that cannot be charged because of a value that the
// client sent or left out.
type PartError struct {
	Rule    string // the rule that needs the part
	Part    Part
	Problem string // the fault; never holds a value that the client sent
	Missing bool   // the request has no such part, or an empty one
	// Err is the error of [Attributes], such as a [*TokenError]; may be nil.
	Err error
}

// Error returns the part, if there is one, and the problem.
func (e *PartError) Error() string {
	part := e.Part.String()
	if named(e.Part.Source) && e.Part.Source != source.Func {
		part = e.Part.Source + " " + e.Part.Name
	}
	switch {
	case part == "": // of an error of Attributes.Claim
		return e.Problem
	case e.ofToken():
		return part + ": " + e.Problem
	}
	return part + " " + e.Problem
}

// Unwrap returns Err.
func (e *PartError) Unwrap() error { return e.Err }

func (e *PartError) ofToken() bool {
	_, ok := errors.AsType[*TokenError](e.Err)
	return ok
}

// unusable returns the error for a value of the request that cannot be used.
func (r *rule) unusable(p *keyPart, problem string) *PartError {
	return &PartError{Rule: r.Name, Part: p.Part, Problem: problem}
}

// value returns the part's value, "" if the request has none. The error says why a value
// cannot be used: a [*PartError] is the client's fault.
func (r *rule) value(p *keyPart, m *Matches, by hit) (value string, fault error) {
	a := m.found.attributes
	if p.finder != nil { // of an address
		if !m.found.client.IsValid() {
			return "", nil
		}
		return m.found.groupBy(p.finder), nil
	}
	var values []string
	var err error
	most := bounds.MaxValueBytes
	switch p.Source {
	case source.Header:
		values = a.Header(p.Name)
	case source.Query:
		values, err = a.Query(p.Name)
	case source.Cookie:
		values, err = a.Cookie(p.Name)
	case source.Path:
		if n := p.segment(); n > 0 {
			var problem string
			if value, problem = segmentAt(a.Path(), n); problem != "" {
				return "", r.unusable(p, problem)
			}
			break
		}
		var ok bool
		if value, ok = m.wildcard(r, p.Name, by); !ok {
			return "", r.unusable(p, "has an escaped slash that can be read in two ways; send the path in its shortest form")
		}
	case source.Claim:
		value, err = a.Claim(p.Name)
	case source.Certificate:
		if c, ok := a.(certified); ok {
			value, err = c.Certificate(p.Name)
		}
	case source.Descriptor:
		if d, ok := a.(described); ok {
			values, _ = d.Descriptor(p.Name)
		}
	case source.Host:
		value = a.Host()
	case source.Method:
		value = a.Method()
	case source.Func:
		return r.called(p, a)
	case source.First, source.All:
		most = sluice.MaxKeyBytes
		if value, err = r.made(p, m, by); err != nil {
			return "", err
		}
	}
	if err != nil {
		fault := &PartError{Rule: r.Name, Part: p.Part, Problem: err.Error(), Err: err}
		if bad, ok := errors.AsType[*PartError](err); ok { // of a claim
			fault.Problem, fault.Err = bad.Problem, bad.Err
		}
		return "", fault
	}
	if len(values) > 1 {
		return "", r.unusable(p, "is sent more than once; send it once")
	}
	if len(values) == 1 {
		value = values[0]
	}
	if len(value) > most {
		return "", r.unusable(p, fmt.Sprintf("is longer than %d bytes", most))
	}
	return value, nil
}

// called returns the value that a function computes.
func (r *rule) called(p *keyPart, a Attributes) (string, error) {
	value, err := p.Part.made.value(a)
	switch {
	case err == nil && len(value) > bounds.MaxValueBytes:
		return "", r.unusable(p, fmt.Sprintf("is longer than %d bytes", bounds.MaxValueBytes))
	case err == nil:
		return value, nil
	}
	bad, ok := errors.AsType[*PartError](err)
	switch {
	case !ok:
		return "", fmt.Errorf("policy: rule %q: %s: %w", r.Name, p.Name, err)
	case bad.Missing:
		return "", nil
	}
	return "", &PartError{Rule: r.Name, Part: p.Part, Problem: bad.Problem, Err: bad.Err}
}

// made returns the value of a part that is made of others.
func (r *rule) made(p *keyPart, m *Matches, by hit) (string, error) {
	values := make([]string, 0, 4) // most have no more, and these are not allocated
	for i := range p.of {
		value, err := r.value(&p.of[i], m, by)
		switch {
		case err != nil:
			return "", err
		case p.Source == source.First && value != "":
			return strconv.Itoa(i+1) + ":" + value, nil
		case p.Source == source.All && value == "":
			return "", nil
		}
		values = append(values, value)
	}
	if p.Source == source.First {
		return "", nil
	}
	return encodeKey(values), nil
}

// Key returns the key of the request at a level of the i-th rule that matched. ok is false if
// the level does not apply, as the rule exempts the client's network, the request lacks a part
// that may be missing, or its key is exempt. The error says why the request cannot be charged:
// a [*PartError] is the client's fault, any other error that of a function.
func (m *Matches) Key(i int, l *CompiledLevel) (key string, ok bool, err error) {
	by := m.hits[i]
	r := &m.of.rules[by.rule]
	if len(r.ExemptNetworks) > 0 && within(r.ExemptNetworks, m.found.client) {
		return "", false, nil
	}
	m.values = m.values[:0]
	for i := range l.parts {
		p := &l.parts[i]
		value, err := r.value(p, m, by)
		if err != nil {
			return "", false, err
		}
		if value == "" {
			if l.Missing == Skip {
				return "", false, nil
			}
			if l.Missing == Refuse {
				return "", false, &PartError{Rule: r.Name, Part: p.Part, Problem: "is missing", Missing: true}
			}
		}
		if len(l.parts) == 1 {
			key = value
			break
		}
		m.values = append(m.values, value)
	}
	if len(l.parts) > 1 {
		key = encodeKey(m.values)
	}
	if len(key) > sluice.MaxKeyBytes {
		return "", false, &PartError{Rule: r.Name, Part: l.parts[0].Part, Problem: "and what else the key is made of is too long"}
	}
	if len(l.exempt) > 0 {
		if _, exempt := l.exempt[key]; exempt {
			return "", false, nil
		}
	}
	return key, true, nil
}

var escapeKey = strings.NewReplacer("%", "%25", "|", "%7C")

// Tier returns the value of the attribute that chooses among the level's tiers, for the i-th
// rule that matched. It is "" if the level has no tiers, or the request has no usable value.
// The error is that of a token that is not usable, or of a function.
func (m *Matches) Tier(i int, l *CompiledLevel) (string, error) {
	if l.Tiers == nil {
		return "", nil
	}
	by := m.hits[i]
	value, err := m.of.rules[by.rule].value(&l.tierPart, m, by)
	bad, ok := err.(*PartError) //nolint:errorlint // value returns no other kind of it
	if ok && !bad.ofToken() {
		return "", nil
	}
	return value, err
}

// Parts returns the values of a level's key by the texts of its parts, for the i-th rule that
// matched, and the first part that the request lacks, "" if it has all. A value that cannot be
// used counts as missing.
func (m *Matches) Parts(i int, l *CompiledLevel) (values map[string]string, lacks string) {
	by := m.hits[i]
	values = make(map[string]string, len(l.parts))
	for j := range l.parts {
		part := l.parts[j].Part
		value, _ := m.of.rules[by.rule].value(&l.parts[j], m, by) // its error is that of Key
		if value != "" {
			part, value = part.Of(value)
		} else if lacks == "" {
			lacks = part.String()
		}
		values[part.String()] = value
	}
	return values, lacks
}

// encodeKey makes a key of the values of its parts, as [Matches.Key] returns it. Two lists of
// one length never make the same key, as an unescaped bar only separates values.
func encodeKey(values []string) string {
	switch len(values) {
	case 0:
		return ""
	case 1:
		return values[0]
	}
	size := len(values) - 1
	plain := true
	for _, v := range values {
		size += len(v)
		plain = plain && strings.IndexByte(v, '%') < 0 && strings.IndexByte(v, '|') < 0
	}
	var b strings.Builder
	b.Grow(size)
	for i, v := range values {
		if i > 0 {
			b.WriteByte('|')
		}
		if !plain {
			v = escapeKey.Replace(v)
		}
		b.WriteString(v)
	}
	return b.String()
}
