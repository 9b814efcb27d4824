// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package faults

import (
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/redisstore"
)

// blow is one strike of a fault.
type blow struct {
	since sluice.Instant // what was admitted before is not forgotten
	until sluice.Instant // nor is what was admitted from now on
}

// play lets the fault strike stores under load, one of each policy.
func (f *fault) play(t *testing.T, c *Client) {
	t.Helper()
	g := f.setUp(t)
	before := holding(t, g.servers)
	var rigs []*rig
	for _, p := range []sluice.Failure{sluice.FailClosed, sluice.FailOpen, sluice.FailLocal} {
		r := c.rig(t, g, p, f.patience())
		rigs = append(rigs, r)
		r.saving.Store(true)
		r.start()
	}
	var blows []blow
	for range times(t) {
		settled := make([]int64, len(rigs))
		for i, r := range rigs {
			settled[i] = r.decided.Load()
		}
		for i, r := range rigs {
			testkit.Until(t, "load on the store", func() bool { return r.decided.Load() > settled[i]+100 })
		}
		noticed := make([]func() bool, len(rigs))
		for i, r := range rigs {
			noticed[i] = r.notices(f.says)
		}
		b := blow{since: g.strike(rigs)}
		b.until = sluice.InstantOf(time.Now())
		spend(rigs)
		blows = append(blows, b)
		for _, is := range noticed {
			if !f.calm {
				testkit.Until(t, "an outage", is)
			}
		}
		pause(f.lasts())
		g.heal()
		awaitStore(t, rigs)
	}
	for _, r := range rigs {
		was := r.denied.Load()
		testkit.Until(t, "the hot key to be spent", func() bool { return r.denied.Load() > was })
	}
	lost := 0
	for _, r := range rigs {
		r.halt()
		r.settle(t)
		r.patient = c.Open(t, Target{URL: g.url, Patient: true}, redisstore.Options{Timeout: testkit.Ceiling})
		r.check(t, f)
		lost += r.account(t, blows)
		r.close(t)
	}
	if f.tight && lost == 0 {
		t.Error("nothing was forgotten: this does not show how much can be admitted again")
	}
	const flat = 1 << 20
	awaitNoMore(t, g.servers, before, flat)
}

// pause lets load and fault meet: on real servers there is no virtual time.
func pause(d time.Duration) { <-time.After(d) }

// check holds what was counted against what the policy states.
func (r *rig) check(t *testing.T, f *fault) {
	t.Helper()
	stats := r.store.Stats()
	spent, calls, known, degraded := r.spent(t, r.meter), r.calls.Load(), r.known.Load(), r.degraded.Load()
	t.Logf("%-6v %5d calls, %4d by the policy, longest %v, %d over %v; hot key %d admitted + %d by the policy; meter %d known, %d spent; refused %v; %+v",
		r.policy, 2*calls, r.unasked.Load(), time.Duration(r.longest.Load()).Round(time.Millisecond), r.slow.Load(), bounds.DefaultTimeout,
		r.admitted(), degraded, known, spent, r.witness.refused, stats)
	if n := r.odd.Load(); n > 0 {
		t.Errorf("%v: %d errors that the policy does not explain, such as %v", r.policy, n, r.lastOdd.Load())
	}
	if all, reported := calls+r.asked.Load(), r.decided.Load()+r.unasked.Load(); all != reported {
		t.Errorf("%v: %d calls, but %d decisions and refusals", r.policy, all, reported)
	}
	for _, call := range r.long {
		late := time.Duration(0)
		for _, s := range r.asleep {
			late += s.within(call)
		}
		// Where no call may fail, none may end by its deadline.
		if took := call.ended.Sub(call.began); !f.calm && took > tolerance*r.deadline+late {
			t.Errorf("%v: a call took %v, with a deadline of %v, and the machine had other work for %v of it", r.policy, took, r.deadline, late)
		}
	}
	switch most, nodes := int64(0), 1; r.policy {
	case sluice.FailLocal:
		most = algo.Bound(r.hot.Plan().Term(0).Share(nodes), time.Hour)
		fallthrough
	case sluice.FailClosed:
		if degraded > most {
			t.Errorf("%v: the policy admitted %d, want at most %d", r.policy, degraded, most)
		}
	case sluice.FailOpen: // whatever comes
	}
	if spent > calls {
		t.Errorf("%v: %d units spent by %d calls: something was charged twice", r.policy, spent, calls)
	}
	if !f.tight && spent < known {
		t.Errorf("%v: %d units spent, though %d were reported to be", r.policy, spent, known)
	}
	if f.says != "" {
		if r.witness.refusals(f.says) == 0 {
			t.Errorf("%v: the servers refused %v, never %s: this is not the fault that was meant", r.policy, r.witness.refused, f.says)
		}
		// Owed units were charged too, and a killed server had answers under way. So
		// had, on a busy machine, calls that ended without one.
		if !f.tight && r.policy != sluice.FailLocal && spent > known+int64(stats.Timeouts) {
			t.Errorf("%v: %d units spent, %d were reported to be: a call that was refused has spent", r.policy, spent, known)
		}
	}
	if n := stats.Errors + stats.Timeouts + stats.Skipped; f.calm && n > 0 {
		t.Errorf("%v: %d calls failed", r.policy, n)
	}
	if !f.calm && stats.Outages == 0 {
		t.Errorf("%v: no outage was noticed: the fault did not strike", r.policy)
	}
}

// account compares what the store has reported to be admitted of the hot key with
// what it still knows, and returns how much it has forgotten. It asks by
// receipt: a refund gives back what counts and nothing else. So it is known of
// every unit whether it was lost, and the bound is exact: admitted is at most the
// quota and what was lost.
func (r *rig) account(t *testing.T, blows []blow) (lost int) {
	t.Helper()
	used := r.spent(t, r.hot)
	var kept int64
	var reign int
	forgotten := false // something in this reign
	for _, at := range r.sorted() {
		for reign < len(blows) && at >= blows[reign].until {
			reign, forgotten = reign+1, false
		}
		d, err := r.patient.Take(t.Context(), sluice.Request{Op: sluice.OpRefund, Charge: r.hot.Of(r.hotKey, 1), At: at})
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case d.Spent == -1:
			kept++
			if forgotten {
				t.Errorf("%v: a unit admitted at %d is known, one before it is forgotten: not a suffix was lost", r.policy, at)
			}
		case reign == len(blows):
			t.Errorf("%v: a unit admitted at %d, after the last strike, is forgotten", r.policy, at)
		case at < blows[reign].since:
			t.Errorf("%v: a unit admitted at %d, before %d, is forgotten", r.policy, at, blows[reign].since)
		default:
			lost, forgotten = lost+1, true
		}
	}
	admitted, unreported := r.admitted(), used-kept
	t.Logf("%-6v admitted %d = quota %d + lost %d - spent without being reported %d", r.policy, admitted, quota, lost, unreported)
	if admitted > quota+int64(lost) {
		t.Errorf("%v: %d admitted, want at most the quota of %d and the %d that were lost", r.policy, admitted, quota, lost)
	}
	if admitted+unreported != quota+int64(lost) {
		t.Errorf("%v: %d admitted and %d spent without being reported: want all of the quota of %d and the %d that were lost", r.policy, admitted, unreported, quota, lost)
	}
	return lost
}
