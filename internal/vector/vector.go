// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package vector plays the documented examples of the platforms of package profile against
// stores.
package vector

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/profile"
)

//go:embed vectors.json
var file []byte

// table returns the vectors of every profile.
var table = sync.OnceValue(func() map[string][]Vector {
	var all map[string][]Vector
	if err := json.Unmarshal(file, &all); err != nil {
		panic(fmt.Sprintf("vector: vectors.json: %v", err)) //nolint:forbidigo // every test reads it
	}
	for name, list := range all {
		p, _ := profile.Get(name)
		for i := range list {
			v := &list[i]
			v.maxWait = p.MaxWait
			if v.Limits == nil && v.InFlight == 0 {
				v.Limits = p.Limits
			}
		}
	}
	return all
})

// Of returns the vectors of a profile by its name. The data that they refer to must not be
// changed.
func Of(name string) []Vector { return table()[name] }

// Vector is a list of requests for one key with the platform's decision on each.
type Vector struct {
	Name string
	// Limits are the limits of the profile, perhaps with other numbers.
	Limits []sluice.Limit
	// InFlight, if not zero, is the maximum number of requests in flight. The steps are then
	// under this maximum and not under the Limits, and each request runs until a later step
	// ends it.
	InFlight int64 `json:"in_flight"`
	Steps    []Step

	maxWait time.Duration
}

// Step is one request, or several at equal distances, with the decision on the
// last of them.
type Step struct {
	At     time.Duration // since [Start]
	Op     sluice.Op
	Cost   int64         // units of each
	Times  int64         // how many; zero means 1
	Every  time.Duration // from one to the next
	Actual int64         // the actual cost of an allowed request; zero: Cost
	Ends   int           // number of requests in flight that end before, oldest first

	Allowed    int64 // how many of them
	Spent      int64 // of OpTakeUpTo and OpCharge
	Remaining  int64
	RetryAfter time.Duration
	TooLarge   bool // the cost can never fit
	Delay      time.Duration
	ResetAfter time.Duration // zero: not stated
}

// UnmarshalJSON reads a step, whose times are texts such as "1m30s".
func (s *Step) UnmarshalJSON(data []byte) error {
	type plain Step
	var text struct {
		*plain
		Op, At, Every, Delay string
		RetryAfter           string `json:"retry_after"`
		ResetAfter           string `json:"reset_after"`
		TooLarge             bool   `json:"too_large"`
	}
	text.plain = (*plain)(s)
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	for _, d := range []struct {
		of   *time.Duration
		text string
	}{{&s.At, text.At}, {&s.Every, text.Every}, {&s.Delay, text.Delay}, {&s.RetryAfter, text.RetryAfter}, {&s.ResetAfter, text.ResetAfter}} {
		var err error
		if d.text == "" {
			continue
		}
		if *d.of, err = time.ParseDuration(d.text); err != nil {
			return err
		}
	}
	if s.TooLarge = text.TooLarge; s.TooLarge {
		s.RetryAfter = sluice.MaxRetryAfter
	}
	if text.Op == "" {
		return nil
	}
	for s.Op = sluice.OpTake; s.Op.String() != text.Op; s.Op++ {
		if s.Op > sluice.OpReset {
			return fmt.Errorf("%q is no operation", text.Op)
		}
	}
	return nil
}

// Start is the time at which vectors begin, the beginning of a minute, an hour and a day of
// UTC.
var Start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Key is the key of the requests of a vector.
const Key = "vector"

// Play sends the steps to a store as requests for a key that the store must not know. set sets
// the store's clock. The error is the store's, or names a decision that differs from the
// platform's.
func (v *Vector) Play(ctx context.Context, store sluice.Store, set func(now time.Time)) error {
	if v.InFlight > 0 {
		return v.playInFlight(ctx, store, set)
	}
	lim, err := sluice.New(store, v.Name, v.Limits...)
	if err != nil {
		return err
	}
	for i := range v.Steps {
		want := v.Steps[i]
		got, err := want.play(ctx, store, lim, v.maxWait, set)
		if err != nil {
			return fmt.Errorf("%s: step %d: %w", v.Name, i+1, err)
		}
		if got != want {
			return fmt.Errorf("%s: step %d: got %q, want %q", v.Name, i+1, got, want)
		}
	}
	return nil
}

// play returns the step with the store's decision.
func (s Step) play(ctx context.Context, store sluice.Store, lim *sluice.Limiter, maxWait time.Duration, set func(time.Time)) (Step, error) {
	got := s
	got.Allowed, got.Spent = 0, 0
	for i := range s.times() {
		set(Start.Add(s.At + time.Duration(i)*s.Every))
		req := sluice.Request{Op: s.Op, Charge: lim.Of(Key, s.Cost)}
		if s.Op == sluice.OpReserve {
			req.MaxWait = maxWait
		}
		d, err := store.Take(ctx, req)
		if err != nil {
			return got, err
		}
		if d.Allowed {
			got.Allowed++
			if s.Actual != 0 {
				if d, err = lim.Settle(ctx, Key, d, s.Actual); err != nil {
					return got, err
				}
			}
		}
		if s.Op == sluice.OpTakeUpTo || s.Op == sluice.OpCharge {
			got.Spent = d.Spent
		}
		got.Remaining, got.RetryAfter, got.TooLarge, got.Delay = d.Remaining, d.RetryAfter, d.TooLarge, d.Delay
		if s.ResetAfter != 0 {
			got.ResetAfter = d.ResetAfter
		}
	}
	return got, nil
}

func (s Step) times() int64 { return cmp.Or(s.Times, 1) }

// String describes the step in words: "at 0s: take 1, 41 times: 40 pass; the last must
// wait for 500ms".
func (s Step) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "at %v: ", s.At)
	if s.Ends > 0 {
		fmt.Fprintf(&b, "%d ends; ", s.Ends)
	}
	fmt.Fprintf(&b, "%v %d", s.Op, s.Cost)
	if s.times() > 1 {
		fmt.Fprintf(&b, ", %d times", s.Times)
	}
	if s.Every > 0 {
		fmt.Fprintf(&b, ", one every %v", s.Every)
	}
	if s.Actual != 0 {
		fmt.Fprintf(&b, ", which turns out to cost %d", s.Actual)
	}
	switch {
	case s.times() > 1 && s.Allowed == s.times():
		b.WriteString(": all pass")
	case s.times() > 1:
		fmt.Fprintf(&b, ": %d pass", s.Allowed)
	case s.Allowed == 1:
		b.WriteString(": passes")
	default:
		b.WriteString(": denied")
	}
	if s.Op == sluice.OpTakeUpTo || s.Op == sluice.OpCharge {
		fmt.Fprintf(&b, ", %d spent", s.Spent)
	}
	last := ""
	if s.times() > 1 {
		last = "the last "
	}
	switch {
	case s.TooLarge:
		b.WriteString(", " + last + "can never")
	case s.RetryAfter > 0:
		fmt.Fprintf(&b, ", %sfits %v later", last, s.RetryAfter)
	case s.Delay > 0:
		fmt.Fprintf(&b, ", %s%v later", last, s.Delay)
	}
	fmt.Fprintf(&b, "; %d left", s.Remaining)
	if s.ResetAfter > 0 {
		fmt.Fprintf(&b, ", all of it after %v", s.ResetAfter)
	}
	return b.String()
}
