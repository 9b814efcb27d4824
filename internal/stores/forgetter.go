// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package stores

import "github.com/sluicegate/sluice"

// Forgetter is what a Store that remembers something of keys has for this module
// alone: it embeds a Forgetter under an unexported name.
type Forgetter struct{ forget func([]sluice.Charge) }

// NewForgetter returns a Forgetter that does so by forget.
func NewForgetter(forget func([]sluice.Charge)) Forgetter { return Forgetter{forget} }

// Forget drops what is known of the keys of charges: that they are denied, and the
// units in hand that were leased. It is for changes that another process has made in the
// store, such as a reset; those made through the same Store need none. Without charges
// it is about all keys. Calls on their way are not remembered.
func (f *Forgetter) Forget(charges ...sluice.Charge) { f.forget(charges) }
