// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
)

// limits holds limits of every algorithm, variant and size of state. Their windows are from ms
// to days, so that both a set clock and a running one cross them.
var limits = []string{
	"100/s",
	"3/s",
	"7/100ms burst 3",
	"65537/min burst 50",
	"5/50ms debt 9",
	"10/s initial 2",
	"10/s burst 4 credit 9 credit-for 2s",
	"65537/min burst 5 debt 3 credit 50 credit-for 50ms",
	"10/s initial 0 burst 4",
	"20/s warm-up 300ms",
	"7/s burst 4 warm-up 2s debt 9 next-waits",
	"1000003/min burst 50 warm-up 1001us debt 20",
	"10/200ms burst 20 interval-refill",
	"3/s burst 7 interval-refill initial 5 debt 4",
	"50/s burst 5 leaky-bucket",
	"50/s burst 9 leaky-bucket delay-after 4 debt 3",
	"70/s burst 5 leaky-bucket nodelay",
	"10/100ms fixed-window",
	"10/s fixed-window anchor first debt 5",
	"50/day calendar Asia/Seoul",
	"500/week calendar Europe/Berlin week-starts monday",
	"50/month calendar America/New_York from 17T09:00 initial 20",
	"10/100ms fixed-window initial 4 debt 3",
	"20/100ms sliding-counter",
	"20/s sliding-counter debt 10",
	"20/s sliding-counter strict",
	"20/s sliding-counter conservative pre-filled",
	"10GB/s sliding-counter",
	"30/60ms sliding-counter sub-windows 6",
	"30/60ms sliding-counter sub-windows 6 strict debt 7",
	"30/s sliding-counter sub-windows 4 conservative",
	"30/s sliding-counter sub-windows 10 pre-filled debt 7",
	"30/60ms sliding-counter sub-windows 6 whole",
	"20/s sliding-counter sub-windows 2 whole pre-filled debt 3",
	"50/100ms sliding-counter sub-windows 5 whole",
	"12/100ms sliding-log",
	"5/s sliding-log count-denied",
	"20/s burst 5 count-denied",
	"30/s interval-refill burst 4 count-denied",
	"5/s fixed-window anchor first count-denied",
	"10/s sliding-counter sub-windows 5 count-denied",
	"300/s sliding-histogram precision 3 count-denied",
	"9000/s sliding-log debt 50",
	"300/s sliding-histogram precision 3",
	"3000/s sliding-histogram precision 4 debt 100",
	"100MB/min sliding-histogram",
	"20/s burst 5 debt 30 next-waits",
	"65537/s initial 0 debt 9000 next-waits",
	"10/200ms burst 3 aligned-refill debt 15 next-waits",
	"3/s burst 7 aligned-refill initial 5 debt 4",
}

// plans returns a plan of each limit and some of several.
func plans(t *testing.T) []*sluice.Plan {
	t.Helper()
	var all []*sluice.Plan
	for i, text := range limits {
		all = append(all, testkit.Plan(t, fmt.Sprint("one ", i), text))
	}
	for i, texts := range [][]string{
		{"20/s", "100/min fixed-window"},
		{"20/s burst 3 credit 8 credit-for 3s", "2/s sliding-log"},
		{"10/s sliding-log", "a: 30/s burst 20 leaky-bucket", "40/s sliding-counter sub-windows 4"},
		{"a: 20/s leaky-bucket burst 4", "b: 30/s leaky-bucket burst 5", "100/min sliding-histogram precision 5"},
		{"20/s", "3/s block 2s"},
		{"5/100ms fixed-window", "a: 2/200ms block 300ms", "b: 9/min block 5s"},
		{"5/s sliding-log count-denied", "4/s block 1s", "30/s burst 9 leaky-bucket"},
		{"a: 90/s", "b: 91/s", "c: 92/s", "d: 93/s", "e: 94/s", "f: 95/s", "g: 96/s sliding-log", "h: 97/s fixed-window", "i: 98/s sliding-counter"},
	} {
		all = append(all, testkit.Plan(t, fmt.Sprint("several ", i), texts...))
	}
	return all
}

// source draws requests.
type source struct {
	*rand.Rand
	plans    []*sluice.Plan
	keys     int
	receipts []sluice.Request // possible refunds
}

var ops = []sluice.Op{
	sluice.OpTake, sluice.OpTake, sluice.OpTake, sluice.OpTake, sluice.OpTake, sluice.OpPeek, sluice.OpTakeUpTo,
	sluice.OpCharge, sluice.OpReserve, sluice.OpReserve, sluice.OpRefund, sluice.OpRefund, sluice.OpReset,
	sluice.OpAdd, sluice.OpConvert,
}

// request returns a valid request.
func (s *source) request() sluice.Request {
	for {
		req := sluice.Request{Op: ops[s.IntN(len(ops))], Charge: s.charge()}
		for s.IntN(4) == 0 && len(req.More) < 3 {
			req.More = append(req.More, s.charge())
		}
		switch req.Op {
		case sluice.OpPeek, sluice.OpTakeUpTo, sluice.OpCharge: // are complete
		case sluice.OpTake:
			if s.IntN(8) == 0 {
				req.MaxWait = time.Duration(s.IntN(200)) * time.Millisecond
			}
		case sluice.OpReserve:
			req.MaxWait = time.Duration(s.IntN(3_000_000)) * time.Microsecond
			if s.IntN(20) == 0 {
				req.MaxWait = sluice.MaxWait
			}
		case sluice.OpRefund:
			if len(s.receipts) == 0 {
				continue
			}
			newest := s.IntN(min(len(s.receipts), 1+s.IntN(20)))
			req = s.receipts[len(s.receipts)-1-newest]
			if s.IntN(3) == 0 {
				req.Counted = req.Cost
				req.Cost = s.Int64N(req.Cost + 1)
			}
		case sluice.OpAdd, sluice.OpSettle, sluice.OpExtend: // are complete, or not drawn
		case sluice.OpReset, sluice.OpConvert:
			if s.IntN(8) > 0 {
				continue
			}
		}
		if req.Validate() == nil {
			return req
		}
	}
}

func (s *source) charge() sluice.Charge {
	c := sluice.Charge{Plan: s.plans[s.IntN(len(s.plans))], Key: fmt.Sprint("key ", s.IntN(s.keys)), Cost: 1}
	full := c.Plan.Term(0).Full
	switch s.IntN(10) {
	case 0:
		c.Cost = 0
	case 1, 2, 3:
		c.Cost = 1 + s.Int64N(1+full/2)
	case 4:
		c.Cost = s.Int64N(3 * full)
	case 5:
		c.Cost = full
	case 6:
		if s.IntN(10) == 0 {
			c.Cost = sluice.MaxQuota
		}
	}
	return c
}

// keep records that the units that d has spent can be refunded.
func (s *source) keep(req sluice.Request, d sluice.Decision) {
	if !d.Allowed || d.Spent <= 0 || d.At <= 0 {
		return
	}
	refund := sluice.Request{Op: sluice.OpRefund, Charge: req.Charge, More: req.More, At: d.At, Due: d.Due}
	refund.Cost = d.Spent
	s.receipts = append(s.receipts, refund)
	if len(s.receipts) > 50 {
		s.receipts = s.receipts[25:]
	}
}

// describe writes a request for a failure.
func describe(req sluice.Request) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v", req.Op)
	for i := range req.Charges() {
		c := req.Nth(i)
		key := c.Key
		if len(key) > 40 {
			key = key[:40] + "…"
		}
		fmt.Fprintf(&b, " %d of %q under", c.Cost, key)
		for j := range c.Plan.Len() {
			fmt.Fprintf(&b, " [%v]", c.Plan.Term(j).Limit)
		}
	}
	if req.MaxWait > 0 {
		fmt.Fprintf(&b, " waiting up to %v", req.MaxWait)
	}
	if h := req.Hold; h != nil {
		fmt.Fprintf(&b, " by %+v", *h)
	}
	if req.At > 0 {
		fmt.Fprintf(&b, " spent at %d due %d", req.At, req.Due)
	}
	if s := req.Slot; s != nil {
		fmt.Fprintf(&b, " with %d slots of %q by %s under %+v", s.Cost, s.Key, s.Owner, s.Limit)
	}
	return b.String()
}

// runs calls run with several seeds. A failure names its seed.
func runs(t *testing.T, run func(t *testing.T, seed uint64)) {
	t.Helper()
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { run(t, seed) })
	}
}

func newSource(seed uint64, keys int, plans []*sluice.Plan) *source {
	return &source{Rand: rand.New(rand.NewPCG(seed, 0x51)), plans: plans, keys: keys}
}
