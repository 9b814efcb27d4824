// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
)

// TestFormatIsFixed: nodes share states, so their format does not change within a version.
// Under each limit 2 units were taken and, a second later, 1.
func TestFormatIsFixed(t *testing.T) {
	for limit, want := range map[string]string{
		"x: 100/min":                                           "01000064808ece1c065bfeda4339800000",
		"x: 7/min burst 3":                                     "01002007808ece1c03065bfedbb020ae0005",
		"x: 65537/min burst 50 debt 5":                         "010030818004808ece1c0532065bfeda3708140000000000836d",
		"x: 10MB/s initial 2MB":                                "010048800180ade204c0843d80a4e803065bfeda3704810001",
		"x: 10/s burst 7 credit 5 credit-for 1h":               "01026080200ac0843d070580c8ceb40d065bfeda388b20000000000000000000065bfeda37048000000000000000",
		"x: 2/s warm-up 4s":                                    "010040801002c0843d8092f401065bfeda53a0b8000000000000000000000007a120",
		"x: 10/s debt 2 next-waits":                            "01005080040ac0843d02065bfeda388b200000",
		"x: 10/s burst 20 interval-refill":                     "010060010ac0843d14065bfeda4646c000000000000001",
		"x: 10/s burst 20 aligned-refill initial 5":            "01006080090ac0843d140f065bfeda44648000000000000001",
		"x: 50/min leaky-bucket burst 9 delay-after 4":         "0100612032808ece1c0904065bfeda5eb0c00000",
		"x: 50/min leaky-bucket burst 5 count-denied":          "0100611032808ece1c05065bfeda5eb0c00000",
		"x: 10/min fixed-window":                               "0100020a808ece1c065bfedc883a000000000000000003",
		"x: 10/min fixed-window anchor first debt 2":           "010052040a808ece1c02065bfeddbb49400000000000000003",
		"x: 50/week calendar Europe/Berlin week-starts monday": "0100420832110d4575726f70652f4265726c696e065c7e122038000000000000000003",
		"x: 50/day calendar UTC from 06:30":                    "01004288800132080000860303555443065c0c7efaea000000000000000003",
		"x: 20/min sliding-counter":                            "01000414808ece1c01065bfee01bc100000000000000000300000000000000",
		"x: 20/min sliding-counter conservative":               "0100440214808ece1c01065bfee01bc100000000000000000300000000000000",
		"x: 20/min sliding-counter strict pre-filled":          "010044c00214808ece1c01065bfee01bc100000000000000000300000000000000",
		"x: 30/min sliding-counter sub-windows 5 whole":        "01004480401e808ece1c05065bfedd3f5500000000000000000300000000000000000000000000000000000000000000000000000000",
		"x: 12/min sliding-log":                                "0100030c808ece1c065bfeddca8b8000000000000000030000000000000000000000000000020000000265bfeda27c24000465bfeda370480002",
		"x: 300/min sliding-histogram precision 3":             "010005ac02808ece1c03065bfeddca8b80000000000000000300000000000000000000000000000200000002da27c240000004da370480000002",
	} {
		p := testkit.Plan(t, "s", limit)
		items := []algo.Item{{Term: p.Term(0), Start: 1}}
		req := sluice.Request{Charge: sluice.Charge{Plan: p, Key: "k"}}
		for i, cost := range []int64{2, 1} {
			items[0].Cost, req.Cost = cost, cost
			algo.Decide(&req, items, epoch+int64(i)*1_000_000)
		}
		items[0].State.By = p.Term(0)
		if got := hex.EncodeToString([]byte(formatValue([]algo.State{items[0].State}))); got != want {
			t.Errorf("%s: got %s, want %s", limit, got, want)
		}
	}
	block := termOf(t, "x: 20/min block 10min")
	bucket, log := termOf(t, "x: 100/min"), termOf(t, "x: 20/min sliding-log")
	for want, list := range map[string][]algo.State{
		"": nil,
		"01000614808ece1c808c8d9e02065bfeda27c24000000000000003065bfeda27c240":                                                         {{Idle: epoch, A: 3, B: epoch, By: block}},
		"01020064808ece1c065bfeda27c2400000065bfeda27c23f065bfeda27c23e":                                                               {{Idle: epoch, Since: epoch - 1, Last: epoch - 2, By: bucket}},
		"01010210000064808ece1c065bfeda27c240000329000314808ece1c065bfeda27c240000000000000000000000000000000000000000000000000000000": {{Idle: epoch, A: 3, By: bucket}, {Idle: epoch, By: log}},
	} {
		if got := hex.EncodeToString([]byte(formatValue(list))); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func termOf(t testing.TB, limit string) *sluice.Term {
	t.Helper()
	term, err := sluice.CompileLimit("any", sluice.MustParseLimit(limit))
	if err != nil {
		t.Fatal(err)
	}
	return term
}

func otherFormat(n int) string {
	return fmt.Sprintf("the value has format %d, this program knows format 1: upgrade the program, or delete the key if another one wrote it", n)
}

func otherFlags(flags byte) string {
	return fmt.Sprintf("the value has the flags %#x, this program knows 0x3: upgrade the program", flags)
}

// TestOtherFormatsAreRefused: no operation decides on or changes a value of another version or
// with an unknown flag. The error names what was found and what to do.
func TestOtherFormatsAreRefused(t *testing.T) {
	server := redistest.Start(t, redistest.Redis(t))
	client := server.Client(t)
	s := clocked(t, server, t.Name())
	s.Set(epoch)
	for _, text := range []string{
		"x: 100/min", "x: 10/min count-denied", "x: 2/s warm-up 4s", "x: 10/s burst 20 interval-refill", "x: 10/min fixed-window",
		"x: 20/min sliding-counter", "x: 30/min sliding-counter sub-windows 5", "x: 12/min sliding-log", "x: 300/min sliding-histogram",
	} {
		req := testkit.Request(testkit.Plan(t, "s", text), "k", 1)
		it := s.newCall(&req).items[0]
		receipt := testkit.Take(t, s.Store, req).At
		was := redistest.Do(t, client, "GET", it.key)
		for value, want := range map[string]string{
			"\x02" + was[1:]: otherFormat(2), "\x02": otherFormat(2), "{}": otherFormat(123),
			"\x01" + string([]byte{was[1] | 1<<3}) + was[2:]: otherFlags(was[1] | 1<<3),
			"\x01\x80":                 otherFlags(0x80),
			"\x01":                     errState.Error(),
			"\x01\x00":                 errHead.Error(),
			"\x01\x01\x01\x02\x04\x00": otherFlags(flagBeside),
			"\x01\x01":                 errState.Error(),
			"\x01\x03\x00":             errState.Error(),
			"\x01\x01\x01\x02\x01\x00": errState.Error(), // several within several
		} {
			redistest.Do(t, client, "SET", it.key, value)
			for _, op := range []sluice.Op{sluice.OpTake, sluice.OpPeek, sluice.OpCharge, sluice.OpRefund, sluice.OpTakeUpTo, sluice.OpReset} {
				if req.Op, req.At = op, 0; op == sluice.OpRefund {
					req.At = receipt
				}
				if _, err := s.Take(t.Context(), req); err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%s: %v of %x: got error %v, want %q", text, op, value, err, want)
				}
			}
			req.Op, req.At = sluice.OpTake, 0
			if _, err := s.Explain(t.Context(), req); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: explain %x: got error %v, want %q", text, value, err, want)
			}
			if got := redistest.Do(t, client, "GET", it.key); got != value {
				t.Errorf("%s: %x became %x", text, value, got)
			}
		}
		redistest.Do(t, client, "DEL", it.key)
	}
}

// TestOtherLeasesAreRefused: like states, leases of another version, or truncated ones, are
// refused and not changed.
func TestOtherLeasesAreRefused(t *testing.T) {
	server := redistest.Start(t, redistest.Redis(t))
	client := server.Client(t)
	s := clocked(t, server, t.Name())
	s.Set(epoch)
	slot := sluice.SlotRequest{Scope: "s", Limit: sluice.SlotLimit{Name: "slots", Cap: 3, TTL: time.Second}, Key: "k", Owner: "me", Cost: 1}
	req := testkit.Request(testkit.Plan(t, "s", "10/min"), "k", 1)
	req.Slot = &sluice.Slot{SlotRequest: slot}
	key := s.keyer.slots("s", "k", "slots")
	lease := strings.Repeat("x", leaseBytes)
	for value, want := range map[string]string{"\x02" + lease: otherFormat(2), "\x01" + lease[1:]: errState.Error(), "{}": otherFormat(123)} {
		redistest.Do(t, client, "SET", key, value)
		_, err := s.Slot(t.Context(), slot)
		_, err2 := s.Take(t.Context(), req)
		_, err3 := s.ExplainSlot(t.Context(), slot)
		for _, err := range []error{err, err2, err3} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%x: got %v, want %q", value, errors.Join(err, err2, err3), want)
			}
		}
		if got := redistest.Do(t, client, "GET", key); got != value {
			t.Errorf("%x became %x", value, got)
		}
	}
}

// TestCountsOfAnotherProgram: a counter with larger counts than any limit can produce is
// decided, and the script ends, although differences of such numbers are not exact.
func TestCountsOfAnotherProgram(t *testing.T) {
	server := redistest.Start(t, redistest.Redis(t))
	client := server.Client(t)
	s := bare(client)
	s.inject = func() int64 { return epoch }
	req := testkit.Request(testkit.Plan(t, "s", "3/min sliding-counter sub-windows 2 conservative"), "k", 1)
	it := &s.newCall(&req).items[0]
	state := algo.State{Idle: epoch + it.term.Micros + it.term.Sub, Ring: []uint64{5, 1 << 55, 0}, Len: 3, A: 5 + 1<<55}
	value := it.head + string(formatState(nil, it.term, &state))
	redistest.Do(t, client, "SET", it.key, value)
	if d, err := s.Take(t.Context(), req); err != nil || d.Allowed {
		t.Errorf("got %+v, %v, want a denial", d, err)
	}
}
