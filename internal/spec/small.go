// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package spec

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluicegate/sluice"
)

// smallLimits holds the worlds of the exhaustive drivers: the versions of each, with T for a
// tick. A text that ParseLimit does not know is skipped.
var smallLimits = []struct {
	name   string
	plans  []Plan
	events string // the operations of its alphabet
}{
	{"token bucket", []Plan{of("a: 1/T burst 3")}, "takes receipts waits"},
	{"token bucket with credit", []Plan{of("a: 1/T burst 2 credit 2 credit-for 3T")}, "takes receipts adds"},
	{"slow token bucket", []Plan{of("a: 2/3T burst 2 debt 2")}, "takes receipts debt"},
	{"bucket whose next waits", []Plan{of("a: 1/T burst 1 debt 2 next-waits")}, "takes receipts waits"},
	{"refill whose next waits", []Plan{of("a: 2/3T burst 1 interval-refill debt 2 next-waits")}, "takes upto waits"},
	{"refill by the clock", []Plan{of("a: 2/3T burst 3 aligned-refill")}, "takes receipts waits"},
	{"bucket that warms up", []Plan{of("a: 1/2T warm-up 5T")}, "takes receipts waits"},
	{"bucket that warms up by a burst", []Plan{of("a: 2/3T burst 2 debt 2 warm-up 9T")}, "takes receipts debt"},
	{"bucket that warms up, whose next waits", []Plan{of("a: 1/T burst 1 debt 2 next-waits warm-up 6T")}, "takes upto waits"},
	{"meter", []Plan{of("a: 1/2T burst 3 leaky-bucket nodelay")}, "takes receipts waits"},
	{"queue", []Plan{of("a: 1/T burst 3 leaky-bucket")}, "takes receipts waits"},
	{"refill at intervals", []Plan{of("a: 2/3T burst 3 interval-refill")}, "takes receipts upto"},
	{"fixed window", []Plan{of("a: 3/3T fixed-window")}, "takes receipts waits"},
	{"fixed window that starts with less", []Plan{of("a: 3/3T fixed-window initial 1")}, "takes receipts waits upto"},
	{"first window", []Plan{of("a: 3/3T fixed-window anchor first")}, "takes upto waits"},
	{"log", []Plan{of("a: 3/3T sliding-log")}, "takes receipts waits"},
	{"log that counts denials", []Plan{of("a: 2/3T sliding-log count-denied")}, "takes upto debt"},
	{"bucket that counts denials", []Plan{of("a: 1/T burst 3 count-denied")}, "takes receipts waits"},
	{"refills that count denials", []Plan{of("a: 2/3T burst 3 interval-refill count-denied")}, "takes upto"},
	{"fixed window that counts denials", []Plan{of("a: 3/3T fixed-window count-denied")}, "takes upto debt"},
	{"first window that counts denials", []Plan{of("a: 3/3T fixed-window anchor first count-denied")}, "takes upto"},
	{"counter that counts denials", []Plan{of("a: 3/3T sliding-counter count-denied")}, "takes upto debt"},
	{"histogram that counts denials", []Plan{of("a: 3/4T sliding-histogram precision 3 count-denied")}, "takes receipts waits"},
	{"histogram", []Plan{of("a: 3/4T sliding-histogram precision 3")}, "takes receipts waits"},
	{"counter", []Plan{of("a: 3/3T sliding-counter")}, "takes receipts waits"},
	{"strict counter", []Plan{of("a: 3/3T sliding-counter strict")}, "takes receipts waits"},
	{"conservative counter", []Plan{of("a: 3/2T sliding-counter conservative")}, "takes receipts waits"},
	{"counter of whole parts", []Plan{of("a: 3/6T sliding-counter sub-windows 3 whole")}, "takes receipts waits"},
	{"counter of parts", []Plan{of("a: 3/4T sliding-counter sub-windows 2")}, "takes receipts waits"},
	{"initial level", []Plan{of("a: 1/T burst 3 initial 0")}, "takes upto"},
	{"pre-filled", []Plan{of("a: 3/2T sliding-counter pre-filled")}, "takes upto"},

	{"bucket whose credit waits", []Plan{of("a: 1/T burst 1 credit 3 credit-for 4T", "b: 1/T burst 2")}, "waits adds"},
	{"bucket with credit and debt", []Plan{of("a: 1/T burst 1 debt 2 credit 2 credit-for 2T")}, "debt adds"},
	{"log that is given units", []Plan{of("a: 3/3T sliding-log")}, "takes receipts adds"},
	{"counter that is given units", []Plan{of("a: 3/4T sliding-counter sub-windows 2")}, "takes adds"},
	{"fixed window that is given units", []Plan{of("a: 3/3T fixed-window")}, "takes waits adds"},
	{"refill that is given units", []Plan{of("a: 2/3T burst 3 interval-refill")}, "takes adds"},
	{"two credits", []Plan{of("a: 1/T burst 2 credit 3 credit-for 3T"), of("a: 1/2T burst 1 credit 1 credit-for 2T")}, "takes adds"},
	{"credit, and none", []Plan{of("a: 1/2T burst 2 credit 2 credit-for 3T"), of("a: 1/T burst 3 debt 1")}, "debt adds"},
	{"two bursts, in proportion", []Plan{of("a: 1/T burst 1 debt 2"), of("a: 2/T burst 3")}, "debt conversions"},
	{"two bursts", []Plan{of("a: 1/T burst 1"), of("a: 1/T burst 3")}, "takes receipts"},
	{"two rates", []Plan{of("a: 1/4T burst 3"), of("a: 3/T burst 3")}, "takes receipts"},
	{"two buckets", []Plan{of("a: 1/2T burst 1"), of("a: 3/T burst 3 debt 1")}, "takes debt"},
	{"the next waits, changed", []Plan{of("a: 1/2T burst 1 debt 2 next-waits"), of("a: 3/T burst 2 debt 1 next-waits")}, "takes receipts"},
	{"the next waits no more", []Plan{of("a: 1/T burst 1 debt 2 next-waits"), of("a: 1/2T burst 3")}, "takes waits"},
	{"bucket that waits, changed", []Plan{of("a: 1/2T burst 2"), of("a: 1/T burst 3")}, "takes waits"},
	{"two buckets that count denials", []Plan{of("a: 1/2T burst 2 count-denied"), of("a: 1/T burst 3 debt 1 count-denied")}, "takes debt"},
	{"one of two buckets counts denials", []Plan{of("a: 1/T burst 2 count-denied"), of("a: 1/2T burst 3")}, "takes receipts waits"},
	{"one of two refills counts denials", []Plan{of("a: 1/2T burst 2 interval-refill count-denied"), of("a: 2/2T burst 3 interval-refill")}, "takes waits"},
	{"one of two fixed windows counts denials", []Plan{of("a: 1/2T fixed-window count-denied"), of("a: 3/2T fixed-window")}, "takes receipts"},
	{"one of two counters counts denials", []Plan{of("a: 1/2T sliding-counter count-denied"), of("a: 3/2T sliding-counter")}, "takes receipts"},
	{"two bursts that warm up", []Plan{of("a: 1/2T warm-up 4T"), of("a: 2/4T burst 3 debt 1 warm-up 4T")}, "takes receipts waits"},
	{"bucket that warms up no more", []Plan{of("a: 1/2T burst 2 warm-up 4T"), of("a: 1/2T burst 2")}, "takes receipts"},
	{"two logs", []Plan{of("a: 1/3T sliding-log"), of("a: 3/3T sliding-log")}, "takes receipts"},
	{"two fixed windows", []Plan{of("a: 1/2T fixed-window"), of("a: 3/2T fixed-window")}, "takes receipts"},
	{"two counters", []Plan{of("a: 1/2T sliding-counter strict"), of("a: 3/2T sliding-counter strict")}, "takes receipts"},
	{"two counters", []Plan{of("a: 1/2T sliding-counter conservative"), of("a: 3/2T sliding-counter conservative")}, "takes receipts"},
	{"two histograms", []Plan{of("a: 1/3T sliding-histogram precision 3"), of("a: 3/3T sliding-histogram precision 3")}, "takes receipts"},
	{"refills of both kinds", []Plan{of("a: 1/2T burst 3 interval-refill"), of("a: 1/2T burst 3 aligned-refill")}, "takes receipts"},
	{"two windows", []Plan{of("a: 3/4T sliding-log"), of("a: 1/T sliding-log")}, "takes receipts"},
	{"two fixed forms", []Plan{of("a: 3/4T fixed-window"), of("a: 2/T fixed-window")}, "takes receipts"},
	{"log and bucket", []Plan{of("a: 3/4T sliding-log"), of("a: 1/T burst 1")}, "takes receipts"},
	{"counter and log", []Plan{of("a: 3/2T sliding-counter conservative"), of("a: 2/3T sliding-log")}, "takes receipts"},

	{"bucket beside a window", []Plan{of("a: 3/3T burst 3", "b: 2/3T fixed-window")}, "takes receipts waits"},
	{"log beside a bucket", []Plan{of("a: 3/3T sliding-log", "b: 1/T burst 2")}, "takes receipts waits"},
	{"bucket beside a block", []Plan{of("a: 1/T burst 1", "b: 2/2T block 3T")}, "takes upto waits"},
	{"block beside a log", []Plan{of("b: 3/3T block 1T", "a: 2/4T sliding-log")}, "takes receipts debt"},
	{"two blocks", []Plan{of("a: 1/4T fixed-window", "b: 2/T block 2T", "c: 3/4T block 4T")}, "takes"},
	{"block, changed", []Plan{of("a: 1/2T", "b: 2/2T block 3T"), of("a: 1/2T", "b: 3/4T block 1T")}, "takes"},
	{"block that was a log", []Plan{of("a: 1/2T", "b: 2/3T sliding-log"), of("a: 1/2T", "b: 2/3T block 2T")}, "takes"},

	{"two keys", []Plan{of("a: 1/T burst 2")}, "keys waits receipts"},
	{"two keys of a log", []Plan{of("a: 2/3T sliding-log")}, "keys waits receipts"},
}

// smallWorlds returns the worlds with ticks of a length.
func smallWorlds(t testing.TB, tick int64) (worlds []*World) {
	t.Helper()
	for _, s := range smallLimits {
		w := &World{Name: s.name, events: s.events}
		for _, p := range s.plans {
			q := Plan{Scope: p.Scope}
			for _, text := range p.Limits {
				q.Limits = append(q.Limits, withTicks(text, tick))
			}
			w.Plans = append(w.Plans, q)
		}
		if _, err := w.compile(""); err != nil {
			t.Logf("skipped %q: %v", s.name, err)
			continue
		}
		worlds = append(worlds, w)
	}
	return worlds
}

// withTicks writes a window of ticks in µs: "2/3T" with a tick of 1 s is "2/3000000us". It
// does the same for the length of a block and of a warm-up.
func withTicks(text string, tick int64) string {
	words := strings.Fields(text)
	for i, w := range words {
		if n, of := strings.CutSuffix(w, "T"); of && i > 0 && slices.Contains([]string{"block", "warm-up", "credit-for"}, words[i-1]) {
			words[i] = fmt.Sprintf("%dus", int64(n[0]-'0')*tick)
		}
		quota, window, ok := strings.Cut(w, "/")
		if n, of := strings.CutSuffix(window, "T"); ok && of {
			ticks := int64(1)
			if n != "" {
				ticks = int64(n[0] - '0')
			}
			words[i] = fmt.Sprintf("%s/%dus", quota, ticks*tick)
		}
	}
	return strings.Join(words, " ")
}

// alphabet returns the operations of a world, at most 24: its events, each after 0 ticks, 1
// tick, and in some cases 3.
func (w *World) alphabet(tick int64) []Step {
	var steps []Step
	for p := range w.Plans {
		steps = append(steps, Step{Op: sluice.OpTake, Cost: 1, Plan: p, Asks: true})
		for event := range strings.FieldsSeq(w.events) {
			steps = append(steps, w.event(event, p, tick)...)
		}
	}
	var all []Step
	advances := []int64{0, 1, 3}
	if len(steps) > 8 {
		advances = []int64{0, 2}
	}
	for _, a := range advances {
		for _, s := range steps {
			s.Advance = a * tick
			s.Outcomes = a == 1
			all = append(all, s)
		}
	}
	return all[:min(len(all), 24)]
}

func (w *World) event(name string, plan int, tick int64) []Step {
	switch name {
	case "takes":
		return []Step{{Op: sluice.OpTake, Cost: 2, Plan: plan}, {Op: sluice.OpTake, Cost: 3, Plan: plan}}
	case "upto":
		return []Step{{Op: sluice.OpTakeUpTo, Cost: 3, Plan: plan}}
	case "debt":
		return []Step{{Op: sluice.OpCharge, Cost: 3, Plan: plan}}
	case "adds":
		return []Step{{Op: sluice.OpAdd, Cost: 2, Plan: plan}}
	case "conversions":
		return []Step{{Op: sluice.OpConvert, Plan: plan}}
	case "waits":
		return []Step{{Op: sluice.OpReserve, Cost: 2, Plan: plan, Wait: 4 * tick}}
	case "keys":
		return []Step{
			{Op: sluice.OpTake, Cost: 1, Key: 1},
			{Op: sluice.OpTake, Cost: 1, More: []Part{{0, 1}}},
			{Op: sluice.OpReserve, Cost: 1, Key: 1, More: []Part{{0, 0}}, Wait: 4 * tick},
		}
	default: // receipts
		steps := []Step{{Op: sluice.OpRefund, Of: Oldest, Plan: plan}}
		if len(w.Plans) == 1 {
			steps = append(steps, Step{Op: sluice.OpRefund, Of: Newest, Give: One})
		}
		return steps
	}
}
