// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package evaluate_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
)

// TestBlockDoesNotWait: a client under a block is denied where others wait until they fit, so
// that the block counts denials and blocks.
func TestBlockDoesNotWait(t *testing.T) {
	plain := policy.NewRule("plain", policy.IP(), sluice.MustParseLimit("1/min fixed-window"))
	blocked := plain
	blocked.Name = "blocked"
	blocked.Levels = []policy.Level{plain.Levels[0]}
	blocked.Levels[0].Blocks = blockOf(t, "30min after 2 denials/min")
	for _, c := range []struct {
		rules []policy.Rule
		waits bool
	}{{[]policy.Rule{plain}, true}, {[]policy.Rule{blocked}, false}, {[]policy.Rule{plain, blocked}, false}} {
		w := newWorld(t, c.rules...)
		w.eval.MaxWait = time.Hour
		request := (&policy.Request{Client: netip.MustParseAddr("192.0.2.1")}).Attributes()
		w.decide(request)
		for i, want := range []time.Duration{time.Minute, 30 * time.Minute} {
			v := w.decide(request)
			if v.Allowed != c.waits || !c.waits && v.Decision.RetryAfter != want {
				t.Errorf("%d rules, request %d: got %+v, want that it waits: %v", len(c.rules), i+2, v.Decision, c.waits)
			}
		}
	}
}

// TestBlockInTheText: the text of a denial names the block.
func TestBlockInTheText(t *testing.T) {
	r := policy.NewRule("api", policy.IP(), sluice.MustParseLimit("1/min fixed-window"))
	r.Levels[0].Blocks = blockOf(t, "30min after 1 denial/min")
	w := newWorld(t, r)
	w.decide((&policy.Request{Client: netip.MustParseAddr("192.0.2.1")}).Attributes())
	v := w.decide((&policy.Request{Client: netip.MustParseAddr("192.0.2.1")}).Attributes())
	o, ok := v.Binding(nil)
	if !ok || o.Limit.Name != "block.min" || o.Allowed || o.Remaining != 0 || v.Limits != 2 {
		t.Errorf("got %+v, %v", o, ok)
	}
	e := evaluate.Event{Verdict: evaluate.Denied, Limit: o.Limit, Decision: v.Decision}
	if got, want := string(e.AppendDetail(nil)), `after too many denied requests the limit "block.min" denies all; retry after 1800 s`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func blockOf(t testing.TB, text string) []sluice.Limit {
	t.Helper()
	b, err := policy.ParseBlock(text)
	if err != nil {
		t.Fatal(err)
	}
	return []sluice.Limit{b}
}
