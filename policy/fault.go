// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"strings"
)

// Fault is one thing that is wrong with a rule.
type Fault struct { //nolint:errname // what people call it, and what a file of rules has
	Rule    int    // which, counted from 0
	Name    string // the rule's name, if it has one
	Field   string // where in it: "Match.Paths[1]", "Levels[0].Limits[2]"
	Problem string // what is wrong and what to write instead
	Err     error  // the fault of a limit that is behind it, if there is one
}

// Error returns the fault with the rule's name and the field.
func (f *Fault) Error() string {
	name := fmt.Sprintf("rule %d", f.Rule+1)
	if f.Name != "" {
		name = fmt.Sprintf("rule %q", f.Name)
	}
	return fmt.Sprintf("%s: %s: %s", name, f.Field, f.Problem)
}

// Unwrap returns Err.
func (f *Fault) Unwrap() error { return f.Err }

// Faults are all that is wrong with a list of rules, in their order.
type Faults []*Fault //nolint:errname // as Fault

// Error returns all faults, a line each.
func (f Faults) Error() string {
	var b strings.Builder
	for i, fault := range f {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString("policy: " + fault.Error())
	}
	return b.String()
}

// Unwrap returns the faults as errors.
func (f Faults) Unwrap() []error {
	errs := make([]error, len(f))
	for i, fault := range f {
		errs[i] = fault
	}
	return errs
}
