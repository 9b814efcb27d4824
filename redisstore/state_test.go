// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/internal/testkit"
)

func plainHead(l sluice.Limit) string { return string(appendHead(nil, &l)) }

// TestHeadsDistinguishLimits: a head reads as the limit that it was written for,
// so heads are equal if and only if limits are.
func TestHeadsDistinguishLimits(t *testing.T) {
	d := &differential{rand: rand.New(rand.NewPCG(7, 7))}
	for range 20_000 {
		l := d.limit()
		if d.rand.IntN(4) == 0 && l.Algorithm != sluice.Block {
			l.Unit = sluice.Bytes
		}
		term, err := sluice.CompileLimit("any", l.WithName("x"))
		if err != nil {
			t.Fatal(err)
		}
		head := plainHead(term.Limit)
		got, size, err := parseHead("x", head+"the state")
		if err != nil || size != len(head) {
			t.Fatalf("%v: %d of %d bytes read, %v", l, size, len(head), err)
		}
		if got.Limit != term.Limit {
			t.Fatalf("got %+v, want %+v", got.Limit, term.Limit)
		}
	}
}

// TestUnknownOptionsAreRefused: a head of options that this program does not know, or
// of none, is no limit's.
func TestUnknownOptionsAreRefused(t *testing.T) {
	l := testkit.Compile(t, "any", sluice.Limit{Name: "x", Quota: 5, Window: 1000, Debt: 3, NextWaits: true}).Term(0).Limit
	head := []byte(plainHead(l))
	if _, _, err := parseHead("x", string(head)); err != nil {
		t.Fatal(err)
	}
	if sluice.Algorithm(head[1]&headAlgorithm) <= sluice.SlidingHistogram {
		t.Errorf("a node of before knows the algorithm of %x", head)
	}
	for _, options := range []byte{0, optionsKnown + 1, 127} {
		head[len(head)-1] = options
		if got, _, err := parseHead("x", string(head)); err == nil {
			t.Errorf("options %b: got %v", options, got.Limit)
		}
	}
}

// TestBlocksAreUnknownToOldNodes: a block has the head of a token bucket with an
// option that nodes from before there were blocks do not know, and all of it is read.
func TestBlocksAreUnknownToOldNodes(t *testing.T) {
	block, err := sluice.CompileLimit("any", sluice.MustParseLimit("x: 20/min block 10min"))
	if err != nil {
		t.Fatal(err)
	}
	head := plainHead(block.Limit)
	if want := "\x0c\x06\x14\x80\x8e\xce\x1c\x04\x80\x8c\x8d\x9e\x02"; head != want {
		t.Fatalf("head %x, want %x", head, want)
	}
	for _, bad := range []string{
		"\x07\x06\x14\x80\x8e\xce\x1c\x04",                         // without how long
		"\x0d\x06\x14\x80\x8e\xce\x1c\x05\x80\x8c\x8d\x9e\x02\x01", // that is a bucket, too
		"\x0c\x0e\x14\x80\x8e\xce\x1c\x04\x80\x8c\x8d\x9e\x02",     // of bytes
	} {
		if got, _, err := parseHead("x", bad); err == nil {
			t.Errorf("%x: got %v", bad, got.Limit)
		}
	}
}

// TestWarmUpsAreUnknownToOldNodes is the same of a warm-up. Where no burst is reported it
// is 1.
func TestWarmUpsAreUnknownToOldNodes(t *testing.T) {
	warm := testkit.Compile(t, "any", sluice.MustParseLimit("x: 2/s warm-up 4s")).Term(0)
	head := plainHead(warm.Limit)
	if want := "\x0a\x06\x02\xc0\x84\x3d\x08\x80\x92\xf4\x01"; head != want {
		t.Fatalf("head %x, want %x", head, want)
	}
	for _, bad := range []string{
		"\x06\x06\x02\xc0\x84\x3d\x08",                         // without how long
		"\x07\x06\x02\xc0\x84\x3d\x08\x00",                     // no time at all
		"\x0a\x46\x02\xc0\x84\x3d\x08\x80\x92\xf4\x01",         // by interval
		"\x0b\x86\x02\xc0\x84\x3d\x01\x08\x80\x92\xf4\x01",     // deficit
		"\x0b\x06\x02\xc0\x84\x3d\x0c\x80\x92\xf4\x01\x01",     // a block, too
		"\x0b\x06\x02\xc0\x84\x3d\x08\x80\x92\xf4\x01\x01",     // and something behind it
		"\x0b\x06\x02\xc0\x84\x3d\x08\xc0\xac\xd5\xe0\x1a\x00", // longer than any
	} {
		if got, _, err := parseHead("x", bad); err == nil {
			t.Errorf("%x: got %v", bad, got.Limit)
		}
	}
	for _, used := range []int64{0, 4_000_001} {
		raw := formatOne(warm, &algo.State{Idle: 1_763_700_000_000_000, B: used})
		if s, err := parseState(warm, raw[len(head):], 8); err == nil {
			t.Errorf("%d µs used of 4 s: got %+v", used, s)
		}
	}
}

// FuzzParseState: whatever a key holds, reading it ends, and what can be read
// is written the same again.
func FuzzParseState(f *testing.F) {
	d := &differential{rand: rand.New(rand.NewPCG(7, 8))}
	for range 50 {
		p := d.plan("any", []sluice.Limit{d.limit().WithName("x")})
		item := []algo.Item{{Term: p.Term(0), Cost: 1}}
		req := sluice.Request{Op: sluice.OpCharge, Charge: sluice.Charge{Plan: p, Cost: 1}}
		algo.Decide(&req, item, 1_763_700_000_000_000)
		f.Add(formatOne(p.Term(0), &item[0].State))
	}
	f.Add("")
	f.Add("\x02\x07\x01")
	f.Add(extended + "\x02\x07\x01")
	f.Add(severalForms + "\x02\x00\x01")
	block, err := sluice.CompileLimit("any", sluice.MustParseLimit("x: 20/min block 10min"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(formatOne(block, &algo.State{Idle: 1_763_700_060_000_000, A: 3, B: 1_763_700_000_000_000}))
	f.Add(formatOne(block, &algo.State{Idle: 1_763_700_060_000_000, B: 1_763_700_000_000_000})[:20])
	warm := testkit.Plan(f, "any", "x: 2/s warm-up 4s").Term(0)
	f.Add(formatOne(warm, &algo.State{Idle: 1_763_700_000_000_000, B: 500_000, Last: 1_763_700_000_000_000}))
	p := d.plan("any", []sluice.Limit{d.limit().WithName("x")})
	f.Fuzz(func(t *testing.T, raw string) {
		var s Store
		it := item{preparedLimit: &preparedLimit{term: p.Term(0), plainHead: plainHead(p.Term(0).Limit)}}
		list, err := s.parseValue(&it, raw)
		if err != nil {
			return
		}
		for i := range list {
			if kindOf(list[i].By) == kindLog {
				return // a ring may be turned, and have room that is not written again
			}
		}
		back, err := s.parseValue(&it, formatValue(list))
		if err != nil || len(back) != len(list) {
			t.Fatalf("got %+v, %v, want %+v", back, err, list)
		}
		for i := range back {
			if b, l := &back[i], &list[i]; b.Idle != l.Idle || b.A != l.A || b.B != l.B || b.Since != l.Since || b.Last != l.Last {
				t.Fatalf("got %+v, want %+v", b, l)
			}
		}
	})
}

// TestHeadsOfCountersAreFixed: nodes of several versions share the states of
// sliding counters, so that their heads may not change.
func TestHeadsOfCountersAreFixed(t *testing.T) {
	for text, want := range map[string]string{
		"x: 100/min sliding-counter":                                        "\x07\x04\x64\x80\x8e\xce\x1c\x01",
		"x: 100/min sliding-counter sub-windows 6 conservative":             "\x07\x44\x64\x80\x8e\xce\x1c\x06",
		"x: 100/min sliding-counter pre-filled debt 5":                      "\x08\x94\x64\x80\x8e\xce\x1c\x05\x01",
		"x: 100/min sliding-counter strict":                                 "\x07\x24\x64\x80\x8e\xce\x1c\x01",
		"x: 100/min sliding-counter sub-windows 6 whole":                    "\x07\x64\x64\x80\x8e\xce\x1c\x06",
		"x: 100/min sliding-counter sub-windows 6 strict pre-filled debt 5": "\x08\xb4\x64\x80\x8e\xce\x1c\x05\x06",
	} {
		p := testkit.Compile(t, "any", sluice.MustParseLimit(text))
		if got := plainHead(p.Term(0).Limit); got != want {
			t.Errorf("%s: head %x, want %x", text, got, want)
		}
	}
}

// TestOldNodesRefuseStrictAndWhole: a node from before there was strict reads a
// number where the bit of a burst is set, and finds none that is left for the
// sub-windows. One from before there was whole finds a counter that is both strict
// and conservative, which is no limit.
func TestOldNodesRefuseStrictAndWhole(t *testing.T) {
	d := &differential{rand: rand.New(rand.NewPCG(7, 9))}
	strict := 0
	for range 20_000 {
		l := d.limit()
		if l.Algorithm != sluice.SlidingCounter {
			continue
		}
		if l.Strict || l.Whole {
			strict++
		}
		l = l.Filled()
		if refused := !oldCounterHead(plainHead(l)); refused != (l.Strict || l.Whole || l.CountDenied) {
			t.Fatalf("%v: an old node refuses it: %v", l, refused)
		}
	}
	if strict < 100 {
		t.Fatalf("only %d strict or whole limits drawn", strict)
	}
}

// oldCounterHead reads the head of a sliding counter as it was read when the
// bit of a burst always had a number behind it, and reports whether it is one.
func oldCounterHead(head string) bool {
	flags, rest := head[1], []byte(head[2:])
	numbers := 3 // quota, window and sub-windows
	for _, f := range []byte{headDebt, headBurst} {
		if flags&f != 0 {
			numbers++
		}
	}
	for range numbers {
		_, k := binary.Uvarint(rest)
		if k <= 0 {
			return false
		}
		rest = rest[k:]
	}
	return len(rest) == 0 && flags&headBurst == 0 // a counter with a burst is no limit
}
