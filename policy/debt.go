// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy

import "github.com/sluicegate/sluice"

// debtQuotas is the default Debt of a key, in multiples of the larger of quota and burst.
// Without debt a bucket forgets units that do not fit, and limits nothing. With a debt of one
// quota, responses of ten quotas pass at ten quotas a window; with ten, at one.
const debtQuotas = 10

// Counted returns a limit of the rule with its default Debt, if the rule's cost is known only
// afterwards, the limit is a bucket or a sliding counter, and its Debt is zero. The default is
// ten times the larger of quota and burst, or the most that the limit may have: a key is
// denied until the excess of its last response is paid. All other limits are returned
// unchanged; under [sluice.NoDebt] the excess is forgotten.
func (r *Rule) Counted(l sluice.Limit) sluice.Limit {
	f := l.Filled()
	_, counter := l.Algorithm.(sluice.SlidingCounter)
	bucket, _ := l.Algorithm.(sluice.TokenBucket)
	if l.Debt != 0 || bucket.NextWaits || !counter && f.Burst == 0 || r.Shape || !r.Cost.Afterwards() || l.Validate() != nil {
		return l
	}
	most := max(f.Quota, f.Burst)
	l.Debt = min(most, (sluice.MaxQuota-most-bucket.Credit)/debtQuotas) * debtQuotas
	for l.Debt > 0 && l.Validate() != nil { // a bucket must refill within two years
		l.Debt /= 2
	}
	return l
}
