// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package evaluate

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/source"
	"github.com/sluicegate/sluice/policy"
)

// before returns the charge of a rule for a request on arrival.
func before(r *policy.Rule, a policy.Attributes) (int64, error) {
	c := &r.Cost
	switch {
	case c.Func == nil:
		return estimate(c, a), nil
	case c.Func.Before == nil:
		return 1, nil
	}
	n, err := c.Func.Before(a)
	part := policy.Part{Source: source.Func, Name: "cost"}
	bad, ok := errors.AsType[*policy.PartError](err)
	switch {
	case ok && bad.Part.Source != source.None:
		return 0, &policy.PartError{Rule: r.Name, Part: bad.Part, Problem: bad.Problem, Missing: bad.Missing}
	case ok:
		return 0, &policy.PartError{Rule: r.Name, Part: part, Problem: bad.Problem, Missing: bad.Missing}
	case err != nil:
		return 0, fmt.Errorf("evaluate: rule %q: cost: %w", r.Name, err)
	case n < 0 || n > sluice.MaxQuota:
		return 0, &policy.PartError{Rule: r.Name, Part: part, Problem: fmt.Sprintf("is not from 0 to %d", int64(sluice.MaxQuota))}
	}
	return n, nil
}

// estimate returns the charge for a request on arrival under a cost without a function.
func estimate(c *policy.Cost, a policy.Attributes) int64 {
	switch c.Of {
	case policy.RequestBytes:
		if n := a.Length(); n >= 0 {
			return min(n, sluice.MaxQuota)
		}
		return 1
	case policy.ResponseBytes, policy.Milliseconds:
		return 1
	case policy.RequestHeader:
		if n, ok := number(c, a.Header(c.Header)); ok {
			return n
		}
	case policy.Fixed, policy.ResponseHeader:
	}
	return max(c.Units, 1)
}

// actual returns the actual cost of a request that was charged an estimate.
func actual(c *policy.Cost, charged int64, a policy.Attributes, r *policy.Response) int64 {
	switch c.Of {
	case policy.RequestBytes:
		if r.Read < 0 {
			return charged
		}
		return clamp(r.Read) // the announced length does not count
	case policy.ResponseBytes:
		if r.Unseen {
			return max(charged, clamp(r.Written))
		}
		return clamp(r.Written)
	case policy.ResponseHeader:
		if n, ok := statedCost(c, r); ok && !r.Unseen {
			return n
		}
	case policy.Milliseconds:
		if r.Took > 0 {
			return clamp(int64((r.Took-1)/time.Millisecond) + 1)
		}
	case policy.Fixed, policy.RequestHeader:
		if c.Func != nil && c.Func.After != nil {
			if n := c.Func.After(a, r); n >= 0 {
				return clamp(n)
			}
		}
	}
	return charged
}

// statedCost returns the cost that a response states in its header.
func statedCost(c *policy.Cost, r *policy.Response) (int64, bool) {
	if r.Header == nil {
		return 0, false
	}
	return number(c, r.Header(c.Header))
}

// number returns the number in a header field, Most at most. ok is false if there is none.
func number(c *policy.Cost, values []string) (n int64, ok bool) {
	if len(values) != 1 {
		return 0, false
	}
	of, err := strconv.ParseUint(values[0], 10, 63)
	if err != nil {
		return 0, false
	}
	return min(int64(of), c.Most), true
}

func clamp(n int64) int64 { return max(min(n, sluice.MaxQuota), 0) }
