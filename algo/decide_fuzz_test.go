// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo_test

import (
	"testing"

	"github.com/sluicegate/sluice"
)

// FuzzDecide plays bytes as requests on any variant: for any bytes the bounds hold and
// decisions are consistent.
func FuzzDecide(f *testing.F) {
	all := variants()
	for i := range all {
		f.Add(uint8(i), []byte{0, 1, 1, 5, 2, 3, 9, 1, 2, 4, 200, 3, 6, 0, 2, 5, 90, 1})
	}
	f.Add(uint8(4), []byte{0, 0, 255, 0, 3, 255, 1, 2, 255, 255, 4, 7})
	f.Fuzz(func(t *testing.T, which uint8, data []byte) {
		l := all[int(which)%len(all)].limit
		p := play(open(t, l))
		now := origin
		ops := []sluice.Op{sluice.OpTake, sluice.OpPeek, sluice.OpRefund, sluice.OpCharge, sluice.OpTakeUpTo, sluice.OpReserve}
		for n := 0; len(data) >= 3 && n < 300; n++ {
			op, gap, cost := ops[int(data[0])%len(ops)], int64(data[1]), int64(data[2])
			data = data[3:]
			switch gap % 3 { // µs, parts or windows
			case 0:
				now += gap / 3
			case 1:
				now += gap / 3 * part(l) / 8
			default:
				now += gap / 3 * window(l) / 64
			}
			e := event{Op: op, Cost: cost * (l.Full() + l.Debt + 1) / 200, Pick: int(cost) % 4}
			if op == sluice.OpReserve {
				e.Wait = min(gap*window(l)/100, 3600*s)
			}
			d := p.step(now, e)
			if d.Remaining < 0 || d.Remaining > l.Full() || d.RetryAfter < 0 || d.Allowed != (d.RetryAfter == 0) || d.Delay < 0 || d.ResetAfter < 0 {
				t.Fatalf("%v: %v of %d at %d: %+v makes no sense", l, e.Op, e.Cost, now, d)
			}
		}
		checkBounds(t, l, p.admissions)
	})
}
