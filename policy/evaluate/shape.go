// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package evaluate

import (
	"iter"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/policy"
)

// Shape is the charge of one level of a rule that shapes, for the bytes of a request. The
// code that passes the bytes on reserves them in parts: with OpReserve, the Charge at a Cost
// of as many bytes, and MaxWait.
type Shape struct {
	Rule    *policy.Rule
	Level   *policy.Level
	Charge  sluice.Charge // its Cost is 0
	MaxWait time.Duration // of each part
}

// Shapes returns the charges that slow down the bytes of the request, or of its response, by
// Rule.Cost. They are valid until v is used again. There are none if the request was
// refused.
func (v *Verdict) Shapes() iter.Seq[Shape] {
	return func(yield func(Shape) bool) {
		if v.Refused != nil {
			return
		}
		for _, s := range v.shapes {
			if !yield(s) {
				return
			}
		}
	}
}
