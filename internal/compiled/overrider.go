// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package compiled

// Overrider is what a Policy has for this module alone: it embeds an Overrider under an
// unexported name. P is a pointer to it, and O an Override.
type Overrider[P, O any] struct {
	with func(rule, level string, o O) (P, error)
}

// NewOverrider returns an Overrider of a Policy that is copied by with.
func NewOverrider[P, O any](with func(rule, level string, o O) (P, error)) Overrider[P, O] {
	return Overrider[P, O]{with}
}

// WithOverride returns a policy that differs in the override of one key of a rule's
// level: o stands in the place of any other, and without limits it ends the one that is
// there. Only o is compiled, so that it takes a few milliseconds however many rules and
// overrides there are. The error is that of compiling if o does not fit the level.
func (r *Overrider[P, O]) WithOverride(rule, level string, o O) (P, error) {
	return r.with(rule, level, o)
}
