// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package evaluate_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
)

// TestSlotOutlastsTheWait: a request that is delayed longer than its slot's TTL keeps the
// slot: another request would otherwise run beside it.
func TestSlotOutlastsTheWait(t *testing.T) {
	t.Run("reserved", func(t *testing.T) { testSlotOutlastsTheWait(t, patient(time.Minute, "1/10s burst 1")) })
	t.Run("queued", func(t *testing.T) { testSlotOutlastsTheWait(t, patient(0, "1/10s burst 9 leaky-bucket")) })
}

func testSlotOutlastsTheWait(t *testing.T, r policy.Rule) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r.Levels[0].InFlight = &sluice.SlotLimit{Cap: 1, TTL: time.Second}
		l := newLine(t, evaluate.Options{Store: memstore.New(memstore.Options{})}, r)
		l.send("a", user("ada"))
		leaves := l.send("b", user("ada")) // at 10 s
		time.Sleep(5 * time.Second)
		l.send("c", user("ada"))
		leaves()
		l.send("d", user("ada"))
		time.Sleep(4 * time.Second)
		l.send("e", user("ada"))
		l.check("a allowed at 0s", "c denied at 5s", "b abandoned at 5s", "e denied at 9s", "d delayed at 10s")
	})
}
