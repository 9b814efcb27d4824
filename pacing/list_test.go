// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package pacing

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/sluicegate/sluice"
)

// FuzzList: the parser agrees with another reader of RFC 9651.
func FuzzList(f *testing.F) {
	for _, seed := range []string{
		``, `"a";r=1;t=2`, `"a";r=1, "b";r=2`, `a;q=1;w=60;pk=:QQ:`, `"a\"\\";x=?1;y=-1.5;z`, `"a";d=@12;u=%"f%c3%bc"`,
		`"a",`, `("a" "b")`, `"a";r=1000000000000000`, `"a"; r=1`, "\"a\"\t,\t\"b\"", `*x;*y=*z`, `"a";pk=:Q===:`, `"a";r=-`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parseList([]string{text})
		if err != nil {
			return
		}
		if len(got) > maxItems {
			t.Fatalf("%d members", len(got))
		}
		if len(got) == 0 {
			return
		}
		want, err := httpsfv.UnmarshalList([]string{text})
		if err != nil && strings.Contains(err.Error(), "base64") {
			return // it insists on padding, which RFC 9651 says a reader should not
		}
		if err != nil {
			t.Fatalf("%q was read, but: %v", text, err)
		}
		if len(got) != len(want) {
			t.Fatalf("%q: got %d members; want %d", text, len(got), len(want))
		}
		for i, m := range got {
			w, ok := want[i].(httpsfv.Item)
			if !ok {
				t.Fatalf("%q: member %d is no item", text, i)
			}
			if name := fmt.Sprint(w.Value); name != m.name {
				t.Errorf("%q: got the name %q; want %q", text, m.name, name)
			}
			if len(m.params) != len(w.Params.Names()) {
				t.Errorf("%q: got %d parameters; want %v", text, len(m.params), w.Params.Names())
			}
			for _, p := range m.params {
				v, ok := w.Params.Get(p.key)
				if !ok {
					t.Errorf("%q: parameter %q is not there", text, p.key)
				}
				if n, isInt := v.(int64); isInt != (p.kind == 'i') || n != p.num {
					t.Errorf("%q: got %s=%d; want %v", text, p.key, p.num, v)
				}
			}
		}
	})
}

// FuzzPace: with any answers, no call waits for longer than MaxRetryAfter, and only a few limits
// are kept.
func FuzzPace(f *testing.F) {
	f.Add(int64(9), `"a";q=10;w=1`, `"a";r=1;t=1`, int64(3), int64(7))
	f.Add(int64(1<<62), `"a";q=0;w=0`, `"a";r=0;t=999999999999999`, int64(0), int64(1<<62))
	f.Add(int64(0), `"a";q=999999999999999;w=999999999999999`, `"b";r=999999999999999;t=1`, int64(1<<62), int64(1))
	f.Fuzz(func(t *testing.T, wait int64, policy, limit string, left, reset int64) {
		const maxHold = time.Minute // of testBudget
		now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
		b := testBudget(t)
		for _, denied := range []bool{false, true, false} {
			b.spend(now)
			s := Statement{At: now, Denied: denied}
			if denied {
				s.Wait = min(max(time.Duration(wait), 0), sluice.MaxWindow)
			}
			s.Draft11([]string{policy}, []string{limit})
			s.State("x", max(left, 0), time.Duration(max(reset, 0)))
			b.Answered(b.sent, s)
			if len(b.paces) > maxItems {
				t.Fatalf("%d limits are remembered", len(b.paces))
			}
			at, known := b.next(now)
			if !known {
				t.Fatal("waits for an answer, but none is due")
			}
			if at.Sub(now) > maxHold {
				t.Fatalf("waits for %v", at.Sub(now))
			}
			for _, p := range b.paces {
				if p.left < 0 || p.every < 0 || p.span < 0 || len(p.returns) > mostReturns {
					t.Fatalf("got %+v", p)
				}
			}
		}
	})
}
