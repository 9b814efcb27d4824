// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package evaluate_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
)

// TestLeftBeforeOneThatIsNotDelayed: delayed requests have left free instants. These are given
// back before a request is decided that may not be delayed, as after a reload that removed
// max_wait, whether one rule matches it or several.
func TestLeftBeforeOneThatIsNotDelayed(t *testing.T) {
	before := patient(10*time.Minute, "2/min burst 2")
	before.Cost.Units = 2
	after := one("api", by(policy.Header("X-User")), "2/min burst 2")
	idle := one("idle", by(policy.Header("X-Nobody")), "1/min")
	idle.Levels[0].Missing = policy.Skip
	for name, rules := range map[string][]policy.Rule{"one": {after}, "several": {after, idle}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLine(t, evaluate.Options{}, before)
				next := newEvaluator(t, evaluate.Options{Store: l.store, Rules: rules, Queue: l.queue})
				l.send("first", user("ada"))
				l.send("leaves", user("ada"))() // its 2 units are available at 60 s
				time.Sleep(31 * time.Second)
				l.sendOn(next, "not delayed", user("ada"))
				l.check("first allowed at 0s", "leaves abandoned at 0s", "not delayed allowed at 31s")
			})
		})
	}
}
