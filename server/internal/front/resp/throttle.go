// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package resp

import (
	"strconv"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/policy/evaluate"
)

// terms are the numbers of CL.THROTTLE before the quantity.
type terms struct{ maxBurst, count, period int64 }

// compile returns the plan of a limit.
func (t terms) compile() (*sluice.Plan, error) {
	if most := int64(sluice.MaxWindow / time.Second); t.period > most {
		return nil, &sluice.LimitError{Field: "period", Problem: "is more than " + strconv.FormatInt(most, 10)}
	}
	return sluice.Compile(name, sluice.Limit{
		Name: "throttle", Quota: t.count, Window: time.Duration(t.period) * time.Second, Burst: min(t.maxBurst, sluice.MaxQuota) + 1,
	})
}

// throttle does CL.THROTTLE key max_burst count period [quantity].
func (s *session) throttle(args [][]byte) {
	n := [4]int64{3: 1}
	for i, arg := range args[2:] {
		var valid bool
		if n[i], valid = integer(arg); !valid {
			s.fail(refusedCommand, "ERR value is not an integer or out of range")
			return
		}
	}
	t, quantity := terms{n[0], n[1], n[2]}, n[3]
	switch {
	case t.maxBurst < 0 || t.count <= 0 || t.period <= 0 || quantity < 0:
		s.fail(refusedCommand, "ERR count and period must be positive, and max_burst and quantity not negative")
		return
	case !s.may("take", ""):
		return
	}
	plan, err := s.front.resp.plans.Of(t, t.compile)
	if err != nil {
		s.fail(refusedCommand, "ERR %v", err)
		return
	}
	req := sluice.Request{Charge: sluice.Charge{Plan: plan, Key: string(args[1]), Cost: quantity}}
	if quantity == 0 {
		req.Op = sluice.OpPeek
	}
	s.ask(ask{command: "CL.THROTTLE", burst: t.maxBurst + 1}, &req)
}

// appendThrottled appends the answer of redis-cell.
func (s *session) appendThrottled(burst int64, r *sluice.Result) {
	d := &r.Decision
	if r.Err != nil {
		s.out = appendError(s.out, unavailable(r.Err))
		return
	}
	limited, retry := int64(0), int64(-1)
	if !d.Allowed {
		if limited = 1; !d.TooLarge {
			retry = roundUp(d.RetryAfter, time.Second)
		}
	}
	s.out = append(s.out, "*5\r\n"...)
	for _, n := range [...]int64{limited, burst, d.Remaining, retry, roundUp(d.ResetAfter, time.Second)} {
		s.out = appendInt(s.out, n)
	}
}

// eventOf returns the event of a decision by a limit that a command has brought.
func eventOf(c *sluice.Charge, r *sluice.Result) evaluate.Event {
	e := evaluate.Event{Decision: r.Decision, Charge: sluice.Charge{Key: c.Key, Cost: c.Cost}, Err: r.Err}
	switch {
	case r.Err != nil:
		e.Verdict = evaluate.FailedClosed
		return e
	case !r.Decision.Allowed:
		e.Verdict = evaluate.Denied
	}
	e.Limit = c.Plan.Term(0)
	return e
}

// integer reads a decimal number.
func integer(b []byte) (int64, bool) {
	n, err := strconv.ParseInt(string(b), 10, 64)
	return n, err == nil
}
