// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore_test

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/memstore"
)

// TestLimiterTakesAsAnyRequest sends the same requests at the same instants to two Stores. On
// one a take comes from a Limiter. On the other it has Outcomes, which no shortcut supports.
func TestLimiterTakesAsAnyRequest(t *testing.T) {
	t.Parallel()
	texts := []string{
		"5/s fixed-window", "3/10s fixed-window anchor first", "4/day calendar Asia/Seoul", "5/s fixed-window count-denied", "5/s fixed-window initial 2",
		"65535/500ms fixed-window debt 9", "70000/min fixed-window anchor first", "10/s burst 5",
		"5/s sliding-counter", "7/10s sliding-counter strict", "5/s sliding-counter conservative", "5/s sliding-counter pre-filled",
		"6/10s sliding-counter sub-windows 2 whole", "4503599627370494/366d sliding-counter", "10/min burst 20 interval-refill", "10/s burst 20 aligned-refill debt 5", "3/s burst 7 interval-refill count-denied",
		"6/s sliding-log", "5/10s sliding-log count-denied", "7/10s sliding-log debt 3", "300/min sliding-histogram precision 4", "30/min sliding-counter sub-windows 6", "9/s sliding-counter sub-windows 4 count-denied",
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SampledFrom(texts).Draw(t, "limit")
		limit, err := sluice.ParseLimit(text)
		if err != nil {
			t.Fatal(err)
		}
		now := time.Unix(1e9, 0)
		clock := func() time.Time { return now }
		short, long := memstore.New(memstore.Options{Now: clock, MaxKeys: 100}), memstore.New(memstore.Options{Now: clock, MaxKeys: 100})
		if err := long.Restore(bytes.NewReader(bytesOf(t, short))); err != nil { // for the same secret
			t.Fatal(err)
		}
		lim, err := sluice.New(short, "s", limit)
		if err != nil {
			t.Fatal(err)
		}
		ask := func(s sluice.Store, req sluice.Request) sluice.Decision {
			d, err := s.Take(t.Context(), req)
			if err != nil {
				t.Fatalf("%v: %+v: %v", limit, req, err)
			}
			return d
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			gap := rapid.OneOf(
				rapid.Just(int64(0)), rapid.Int64Range(0, 3e5), rapid.Int64Range(0, 2*limit.Window.Microseconds()), rapid.Int64Range(-2e6, 0),
			).Draw(t, "gap")
			if lim.Plan().Term(0).OneWord {
				gap = max(gap, 0) // an idle word may still exist when the clock steps back to an instant at which it was live
			}
			now = now.Add(time.Duration(gap) * time.Microsecond)
			req := sluice.Request{Charge: lim.Of(
				rapid.SampledFrom([]string{"", "a", "b", "c", "d", "e"}).Draw(t, "key"),
				rapid.OneOf(rapid.Just(int64(1)), rapid.Int64Range(0, 6), rapid.Int64Range(limit.Quota/2, limit.Quota)).Draw(t, "cost"),
			)}
			var got, want sluice.Decision
			switch op := rapid.SampledFrom([]sluice.Op{
				sluice.OpTake, sluice.OpTake, sluice.OpTake, sluice.OpTake, sluice.OpRefund, sluice.OpReserve, sluice.OpCharge, sluice.OpReset,
			}).Draw(t, "op"); op {
			case sluice.OpTake:
				if got, err = lim.Take(t.Context(), req.Key, req.Cost); err != nil {
					t.Fatal(err)
				}
				req.Outcomes = &sluice.Outcomes{{}}
				want = ask(long, req)
			default:
				req.Op = op
				switch op {
				case sluice.OpReserve:
					req.MaxWait = rapid.SampledFrom([]time.Duration{0, time.Second, time.Minute}).Draw(t, "max wait")
				case sluice.OpRefund:
					req.At = sluice.Instant(now.UnixMicro() - rapid.Int64Range(0, 1e6).Draw(t, "since"))
				}
				got, want = ask(short, req), ask(long, req)
			}
			if got != want {
				t.Fatalf("%v: %v of %d units of %q: got %+v, want %+v", limit, req.Op, req.Cost, req.Key, got, want)
			}
			if got, want := statesOf(t, short, lim.Plan()), statesOf(t, long, lim.Plan()); !bytes.Equal(got, want) {
				t.Fatalf("%v: %v of %d units of %q: states differ:\n%q\n%q", limit, req.Op, req.Cost, req.Key, got, want)
			}
		}
	})
}

// bytesOf returns the snapshot of a Store.
func bytesOf(t *rapid.T, s *memstore.Store) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := s.Snapshot(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// statesOf returns bytesOf without the instant of the last lookup of a plan's only limit, as
// shortcuts do not look it up.
func statesOf(t *rapid.T, s *memstore.Store, p *sluice.Plan) []byte {
	t.Helper()
	id := binary.LittleEndian.AppendUint64(nil, p.Term(0).ID)
	before, behind, found := bytes.Cut(bytesOf(t, s), id)
	if !found {
		return before[:len(before)-8] // without the checksum
	}
	_, n := binary.Varint(behind)
	return slices.Concat(before, behind[n:len(behind)-8])
}
