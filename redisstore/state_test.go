// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"encoding/hex"
	"math/rand/v2"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/internal/testkit"
)

// TestHeadsDistinguishLimits: a head reads back as its limit, so heads are equal if and only
// if limits are.
func TestHeadsDistinguishLimits(t *testing.T) {
	d := &differential{rand: rand.New(rand.NewPCG(7, 7))}
	for range testkit.Steps(20_000, 200_000) {
		l := d.limit()
		if d.rand.IntN(4) == 0 && !testkit.Is[sluice.Block](l) {
			l.Unit = sluice.Bytes
		}
		term, err := sluice.CompileLimit("any", l.WithName("x"))
		if err != nil {
			t.Fatal(err)
		}
		head := string(appendHead(nil, term))
		got, size, err := new(writers).of("x", head+"the state")
		if err != nil || size != len(head) {
			t.Fatalf("%v: %d of %d bytes read, %v", l, size, len(head), err)
		}
		if got.Limit != term.Limit {
			t.Fatalf("got %+v, want %+v", got.Limit, term.Limit)
		}
	}
}

// TestHeadsAreFixed: heads are written into states that several versions of a program
// share, so they may not change.
func TestHeadsAreFixed(t *testing.T) {
	for _, c := range []struct{ limit, head string }{
		{"100/min", "0064808ece1c"},
		{"100/min burst 5 debt 7", "3064808ece1c0705"},
		{"100/min interval-refill initial 3", "40810164808ece1c61"},
		{"9/min debt 4 next-waits", "50800409808ece1c04"},
		{"10/s warm-up 4s", "4080100ac0843d8092f401"},
		{"100/min credit 50 credit-for 24h", "40802064808ece1c3280c0ddeec102"},
		{"10/s burst 20 leaky-bucket delay-after 3", "61200ac0843d1403"},
		{"5MB/min fixed-window anchor first", "4a04c096b102808ece1c"},
		{"7/month calendar Asia/Seoul from 17T09:00 initial 2", "42888101071800119c040a417369612f53656f756c05"},
		{"5/week calendar UTC week-starts monday", "4208051103555443"},
		{"5/min sliding-log count-denied", "431005808ece1c"},
		{"60/min sliding-counter sub-windows 6 whole pre-filled", "4480423c808ece1c06"},
		{"9/min sliding-counter strict", "444009808ece1c01"},
		{"9/min sliding-histogram precision 9", "0509808ece1c09"},
		{"20/min block 10min", "0614808ece1c808c8d9e02"},
	} {
		term, err := sluice.CompileLimit("any", sluice.MustParseLimit(c.limit))
		if err != nil {
			t.Fatal(err)
		}
		if got := hex.EncodeToString(appendHead(nil, term)); got != c.head {
			t.Errorf("%s: got head %s, want %s", c.limit, got, c.head)
		}
	}
}

// TestOtherHeadsAreRefused: text that no limit is written as is refused.
func TestOtherHeadsAreRefused(t *testing.T) {
	for name, head := range map[string]string{
		"nothing":                      "",
		"no algorithm":                 "\x07\x14\x80\x8e\xce\x1c",
		"an unknown bit":               "\x80\x14\x80\x8e\xce\x1c",
		"no options that follow":       "\x40\x00\x14\x80\x8e\xce\x1c",
		"an unknown option":            "\x40\x80\x80\x02\x14\x80\x8e\xce\x1c",
		"another's option":             "\x40\x02\x14\x80\x8e\xce\x1c",
		"a window cut short":           "\x00\x14\x80\x8e\xce",
		"a burst that is the default":  "\x20\x14\x80\x8e\xce\x1c\x14",
		"a number too large":           "\x00\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x80\x8e\xce\x1c",
		"a number too long":            "\x00\x94\x00\x80\x8e\xce\x1c",
		"no quota":                     "\x00\x00\x80\x8e\xce\x1c",
		"a block of no time":           "\x06\x14\x80\x8e\xce\x1c\x00",
		"a block of bytes":             "\x0e\x14\x80\x8e\xce\x1c\x80\x8c\x8d\x9e\x02",
		"a warm-up of no time":         "\x40\x80\x10\x02\xc0\x84\x3d\x00",
		"a warm-up by interval":        "\x40\x81\x10\x02\xc0\x84\x3d\x80\x92\xf4\x01",
		"a zone cut short":             "\x42\x08\x14\x08\x05UTC",
		"a zone that is none":          "\x42\x08\x14\x08\x03abc",
		"a counter that is two things": "\x44\x42\x14\x80\x8e\xce\x1c\x01",
	} {
		if by, size, err := new(writers).of("x", head); err == nil {
			t.Errorf("%s: %x: got %v, %d bytes", name, head, by.Limit, size)
		}
	}
}

// TestUsedWarmUps: no more of a warm-up is used than there is.
func TestUsedWarmUps(t *testing.T) {
	warm := termOf(t, "x: 2/s warm-up 4s")
	for _, used := range []int64{0, 4_000_001} {
		raw := formatState(nil, warm, &algo.State{Idle: epoch, B: used})
		if s, err := parseState(warm, string(raw)); err == nil {
			t.Errorf("%d µs used of 4 s: got %+v", used, s)
		}
	}
}

// FuzzParseState: whatever a key holds, parsing it ends, and a valid state is written back
// unchanged.
func FuzzParseState(f *testing.F) {
	d := &differential{rand: rand.New(rand.NewPCG(7, 8))}
	for range 50 {
		p := d.plan("any", []sluice.Limit{d.limit().WithName("x")})
		item := []algo.Item{{Term: p.Term(0), Cost: 1}}
		req := sluice.Request{Op: sluice.OpCharge, Charge: sluice.Charge{Plan: p, Cost: 1}}
		algo.Decide(&req, item, 1_763_700_000_000_000)
		item[0].State.By = p.Term(0)
		f.Add(formatValue([]algo.State{item[0].State}))
	}
	for _, raw := range []string{"", "\x01", "\x02\x00", "\x01\x00", "\x01\x01", "\x01\x01\x01\x00", "\x01\x01\x01\x01\x01", "\x01\x04"} {
		f.Add(raw)
	}
	block, warm := termOf(f, "x: 20/min block 10min"), termOf(f, "x: 2/s warm-up 4s")
	blocked := algo.State{Idle: epoch + 60_000_000, A: 3, B: epoch, By: block}
	paced := algo.State{Idle: epoch, B: 500_000, Last: epoch, By: warm}
	f.Add(formatValue([]algo.State{blocked}))
	f.Add(formatValue([]algo.State{blocked})[:20])
	f.Add(formatValue([]algo.State{paced}))
	f.Add(formatValue([]algo.State{paced, blocked}))
	p := d.plan("any", []sluice.Limit{d.limit().WithName("x")})
	f.Fuzz(func(t *testing.T, raw string) {
		var s Store
		it := item{preparedLimit: &preparedLimit{term: p.Term(0), head: headOf(p.Term(0))}}
		list, err := s.parseValue(&it, raw)
		if err != nil {
			return
		}
		for i := range list {
			if kindOf(list[i].By) == kindLog {
				return // a ring may be rotated, and have room that is not written again
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
