// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"math/rand/v2"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
)

// TestHeadsTellLimitsApart: a head reads as the limit that it was written for,
// so heads are equal if and only if limits are.
func TestHeadsTellLimitsApart(t *testing.T) {
	d := &differential{rand: rand.New(rand.NewPCG(7, 7))}
	for range 20_000 {
		l := d.limit()
		if d.rand.IntN(4) == 0 {
			l.Unit = sluice.Bytes
		}
		p, err := sluice.Compile("any", l.Named("x"))
		if err != nil {
			t.Fatal(err)
		}
		head := string(appendHead(nil, &p.Term(0).Limit))
		got, size, err := parseHead("x", head+"the state")
		if err != nil || size != len(head) {
			t.Fatalf("%v: %d of %d bytes read, %v", l, size, len(head), err)
		}
		if got.Limit != p.Term(0).Limit {
			t.Fatalf("got %+v, want %+v", got.Limit, p.Term(0).Limit)
		}
	}
}

// FuzzParseState: whatever a key holds, reading it ends, and what can be read
// is written the same again.
func FuzzParseState(f *testing.F) {
	d := &differential{rand: rand.New(rand.NewPCG(7, 8))}
	for range 50 {
		p, err := sluice.Compile("any", d.limit().Named("x"))
		if err != nil {
			f.Fatal(err)
		}
		item := []algo.Item{{Term: p.Term(0), Cost: 1}}
		req := sluice.Request{Op: sluice.OpCharge, Charge: sluice.Charge{Plan: p, Cost: 1}}
		algo.Decide(&req, item, 1_763_700_000_000_000)
		f.Add(formatState(p.Term(0), &item[0].State))
	}
	f.Add("")
	f.Add("\x02\x07\x01")
	f.Fuzz(func(t *testing.T, raw string) {
		term, size, err := parseHead("x", raw)
		if err != nil {
			return
		}
		s, err := parseState(term, raw[size:])
		if err != nil || kindOf(term) == kindLog {
			return // a ring may be turned, and have room that is not written again
		}
		again := formatState(term, &s)
		term, size, err = parseHead("x", again)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := parseState(term, again[size:]); err != nil || back.Idle != s.Idle || back.A != s.A || back.B != s.B {
			t.Fatalf("got %+v, %v, want %+v", back, err, s)
		}
	})
}
