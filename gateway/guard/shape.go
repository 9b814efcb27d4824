// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/policy"
)

// Shapes reports whether a rule slows bodies down rather than deny requests:
// one that counts bytes, all of whose limits are leaky buckets that queue, such
// as "100MB/min leaky-bucket burst 1MB". A bucket's units leave it at an even
// rate, and here the units are bytes. A rule in shadow does not, nor one that
// counts only some responses or limits requests in flight.
func Shapes(r *policy.Rule) bool {
	if !r.Cost.Bytes() || r.Shadow || r.When != nil {
		return false
	}
	for i := range r.Levels {
		l := &r.Levels[i]
		if l.InFlight != nil || !queue(l.Limits) {
			return false
		}
		for j := range l.Overrides {
			if !queue(l.Overrides[j].Limits) {
				return false
			}
		}
		if l.Tiers != nil {
			for _, limits := range l.Tiers.Limits {
				if !queue(limits) {
					return false
				}
			}
		}
	}
	return true
}

func queue(limits []policy.Limit) bool {
	for _, l := range limits {
		if f := l.Filled(); l.Grace != nil || f.Algorithm != sluice.LeakyBucket || f.DelayAfter >= f.Burst {
			return false
		}
	}
	return true
}

// shaper finds the paces of a request's bodies.
type shaper struct {
	policy  policy.Live
	store   sluice.Store
	now     func() time.Time
	onError func(*http.Request, error)
}

// splitShaped returns the rules that decide and those that shape.
func splitShaped(o Options) (*policy.Policy, *shaper, error) {
	var judge, shape []policy.Rule
	for _, r := range o.Policy.Rules() {
		if !Shapes(&r) {
			judge = append(judge, r)
			continue
		}
		levels := make([]policy.Level, len(r.Levels))
		copy(levels, r.Levels)
		for i := range levels {
			levels[i].Candidates = nil // nothing is denied that they could deny
		}
		r.Levels = levels
		shape = append(shape, r)
	}
	if len(shape) == 0 {
		return o.Policy, nil, nil
	}
	judges, err := policy.Compile(judge)
	if err != nil {
		return nil, nil, err
	}
	shapes, err := policy.Compile(shape)
	if err != nil {
		return nil, nil, err
	}
	s := &shaper{store: o.Store, now: o.Now, onError: o.OnError}
	s.policy.Swap(shapes)
	return judges, s, nil
}

// paces are those of a request's body and its response's; nil ones are as fast
// as it goes.
type paces struct{ request, response *pace }

// of returns the paces of a request. It uses v for a moment.
func (s *shaper) of(r *http.Request, a policy.Attributes, v *policy.Verdict) (paces, *policy.PartError) {
	var asked listed
	e := policy.Evaluator{Policy: &s.policy, Store: &asked, Now: s.now}
	e.Decide(r.Context(), a, v)
	if v.Refused != nil {
		return paces{}, v.Refused
	}
	var p paces
	i := 0
	var last sluice.Charge
	for o := range v.Outcomes() {
		// A charge has an outcome for each of its limits, one behind the other.
		if i < len(asked.charges) && last.Plan == nil {
			last = asked.charges[i]
		}
		if last.Plan == nil {
			break
		}
		if o.Limit == last.Plan.Term(last.Plan.Len()-1) {
			into := &p.response
			if o.Rule.Cost.Of == policy.RequestBytes {
				into = &p.request
			}
			if *into == nil {
				*into = &pace{shaper: s, of: r, chunk: mostAtOnce}
			}
			(*into).add(last, o.Rule)
			last, i = sluice.Charge{}, i+1
		}
	}
	return p, nil
}

// listed is a Store that only lists what it is asked to charge.
type listed struct{ charges []sluice.Charge }

func (l *listed) Take(_ context.Context, req sluice.Request) (sluice.Decision, error) {
	l.charges = append(append(l.charges, req.Charge), req.More...)
	return sluice.Decision{Allowed: true}, nil
}

func (l *listed) TakeBatch(ctx context.Context, reqs []sluice.Request, out []sluice.Result) error {
	for i := range reqs {
		out[i].Decision, out[i].Err = l.Take(ctx, reqs[i])
	}
	return nil
}

const (
	mostAtOnce  = 32 << 10               // bytes
	leastAtOnce = 512                    // bytes, where the limit's burst allows it
	smoothness  = 100 * time.Millisecond // of a slow pace: how long a chunk takes
	// longestTurn is how long bytes wait for their turn at most. Who waits
	// longer shares a key with many who are served before.
	longestTurn = time.Minute
)

// pace lets bytes through as the buckets of one or more keys let them.
type pace struct {
	shaper  *shaper
	of      *http.Request
	charges []sluice.Charge
	failure policy.Failure
	chunk   int // most bytes at once
}

func (p *pace) add(c sluice.Charge, rule *policy.Rule) {
	p.charges = append(p.charges, c)
	p.failure = max(p.failure, rule.Failure)
	for i := range c.Plan.Len() {
		t := c.Plan.Term(i)
		perTurn := max(int64(float64(t.Quota)*smoothness.Seconds()/t.Window.Seconds()), leastAtOnce)
		p.chunk = int(min(int64(p.chunk), perTurn, t.Burst))
	}
}

// write writes all of b by write, each chunk when its turn has come.
func (p *pace) write(b []byte, write func([]byte) (int, error)) (n int, err error) {
	for len(b) > 0 {
		part := b[:min(len(b), p.chunk)]
		if err := p.take(len(part)); err != nil {
			return n, err
		}
		m, err := write(part)
		n += m
		if err != nil {
			return n, err
		}
		b = b[m:]
	}
	return n, nil
}

// take blocks until n bytes, a chunk at most, may go on.
func (p *pace) take(n int) error {
	for i := range p.charges {
		p.charges[i].Cost = int64(n)
	}
	ctx := p.of.Context()
	req := sluice.Request{Op: sluice.OpReserve, Charge: p.charges[0], More: p.charges[1:], MaxWait: longestTurn}
	d, err := p.shaper.store.Take(ctx, req)
	switch {
	case err != nil:
		if p.shaper.onError != nil {
			p.shaper.onError(p.of, err)
		}
		if p.failure == policy.Open {
			return nil
		}
		return fmt.Errorf("guard: shape: %w", err)
	case !d.Allowed:
		return errTurn
	case d.Delay <= 0:
		return nil
	}
	if err := sleep(ctx, d.Delay); err != nil {
		// The client is gone, but its place in the queue must not stay taken.
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		req.Op, req.MaxWait, req.At, req.Due = sluice.OpRefund, 0, d.At, d.Due
		_, failed := p.shaper.store.Take(undo, req)
		return errors.Join(err, failed)
	}
	return nil
}

var errTurn = fmt.Errorf("guard: shape: the turn of these bytes would not come within %v", longestTurn)
