// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy

import "github.com/sluicegate/sluice"

// debtQuotas is how many times the larger of quota and burst a key may owe by default.
// With none a bucket forgets what does not fit, and limits nothing; with one, responses of
// ten quotas pass at ten quotas a window; with ten at one.
const debtQuotas = 10

// Counted returns a limit of the rule as it counts. Where the rule's cost is known only
// afterwards, a bucket or a sliding counter that does not say its Debt has one of ten times
// the larger of its quota and burst, as far as such a limit may owe: what a response costs
// more than there is keeps the key out until it is paid. [sluice.NoDebt] stays none. The
// other algorithms have no default: they are full until their window ends.
func (r *Rule) Counted(l sluice.Limit) sluice.Limit {
	counter := l.Algorithm == sluice.SlidingCounter
	bucket := l.Algorithm == sluice.TokenBucket || l.Algorithm == sluice.LeakyBucket
	if l.Debt != 0 || l.NextWaits || !counter && !bucket || r.Shape || !r.Cost.Afterwards() || l.Validate() != nil {
		return l
	}
	f := l.Filled()
	most := max(f.Quota, f.Burst)
	l.Debt = min(most, (sluice.MaxQuota-most-f.Credit)/debtQuotas) * debtQuotas
	for l.Debt > 0 && l.Validate() != nil { // a bucket refills in two years
		l.Debt /= 2
	}
	return l
}
