// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote

import "github.com/sluicegate/sluice"

// Marks of receipts of decisions that the store did not make. No instant has these bits, so a
// refund need not know which node decided.
const (
	localMark sluice.Instant = 1 << 61
	openMark  sluice.Instant = 1 << 62
	sentMark  sluice.Instant = 1 << 60 // beside localMark: the store may have charged it, so nothing is owed
	marks                    = localMark | openMark | sentMark
)

func mark(d *sluice.Decision, m sluice.Instant) {
	d.At |= m
	d.Due |= m
	d.Degraded = true
}

// marked returns the mark of a refund's receipt, or of the decision that has opened the hold of
// a request. It is 0 if the store has decided.
func marked(req *sluice.Request) sluice.Instant {
	switch req.Op {
	case sluice.OpRefund, sluice.OpSettle, sluice.OpExtend:
		return req.At & marks
	default:
		return 0
	}
}
