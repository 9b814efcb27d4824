// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"strings"
)

// Step is a field of a rule, or of a part of one, or an item of that field.
type Step struct {
	Field string
	Key   string // of a map; empty: all of it
	Item  int    // of a list, from 1; 0: all of it
}

// place is the location of a part of a rule. It has a fixed size, as the compiler makes one
// for each part of each rule.
type place struct {
	steps [4]Step
	n     int
}

// in returns the place of the last field, nested in those before it.
func in(fields ...string) (p place) {
	p.n = len(fields)
	for i, f := range fields {
		p.steps[i].Field = f
	}
	return p
}

func (p place) in(field string) place {
	p.steps[p.n] = Step{Field: field}
	p.n++
	return p
}

func (p place) item(i int) place {
	p.steps[p.n-1].Item = i + 1
	return p
}

func (p place) key(k string) place {
	p.steps[p.n-1].Key = k
	return p
}

// pathOf returns the steps as "Match.Paths[1]" or "Levels[0].Limits[2]".
func pathOf(steps []Step) string {
	var b strings.Builder
	for i, s := range steps {
		if i > 0 {
			b.WriteByte('.')
		}
		b.WriteString(s.Field)
		if s.Key != "" {
			b.WriteString("[" + s.Key + "]")
		}
		if s.Item > 0 {
			fmt.Fprintf(&b, "[%d]", s.Item-1)
		}
	}
	return b.String()
}

// RuleError is one fault of a rule.
type RuleError struct {
	Rule    int    // index of the rule
	Name    string // the rule's name, if it has one
	At      []Step // from the rule to its part at fault
	Problem string // the fault, and the text to write instead
	Err     error  // the cause, such as a fault of a limit; may be nil
}

// text returns the fault with the rule's name and the field.
func (f *RuleError) text() string {
	name := fmt.Sprintf("rule %d", f.Rule+1)
	if f.Name != "" {
		name = fmt.Sprintf("rule %q", f.Name)
	}
	return fmt.Sprintf("%s: %s: %s", name, pathOf(f.At), f.Problem)
}

// RuleErrors are all faults of a list of rules, in their order.
type RuleErrors []*RuleError

// Error returns all faults, one on each line.
func (f RuleErrors) Error() string {
	var b strings.Builder
	for i, fault := range f {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString("policy: " + fault.text())
	}
	return b.String()
}

// Unwrap returns the causes of the faults.
func (f RuleErrors) Unwrap() (errs []error) {
	for _, fault := range f {
		if fault.Err != nil {
			errs = append(errs, fault.Err)
		}
	}
	return errs
}
