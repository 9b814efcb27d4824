// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package vector_test

import (
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/vector"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/profile"
)

// TestVectors plays the behavior that platforms document for their limits.
func TestVectors(t *testing.T) {
	for _, p := range profile.All() {
		for _, v := range vector.Of(p.Name) {
			t.Run(p.Name+"/"+v.Name, func(t *testing.T) {
				now := vector.Start
				store := memstore.New(memstore.Options{MaxKeys: 64, Now: func() time.Time { return now }})
				if err := v.Play(t.Context(), store, func(at time.Time) { now = at }); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestPlayReportsDifferences: a store that does not match a vector is an error, for every part
// of a decision.
func TestPlayReportsDifferences(t *testing.T) {
	fits := vector.Step{Cost: 1, Times: 2, Allowed: 1, RetryAfter: time.Minute, ResetAfter: time.Minute}
	for name, change := range map[string]func(s *vector.Step){
		"":            func(*vector.Step) {},
		"allowed":     func(s *vector.Step) { s.Allowed = 2 },
		"remaining":   func(s *vector.Step) { s.Remaining = 1 },
		"retry after": func(s *vector.Step) { s.RetryAfter-- },
		"reset after": func(s *vector.Step) { s.ResetAfter++ },
		"delay":       func(s *vector.Step) { s.Delay = 1 },
		"spent":       func(s *vector.Step) { s.Op, s.Times, s.Spent = sluice.OpTakeUpTo, 1, 2 },
		"limits":      func(s *vector.Step) { s.Cost = 2 },
	} {
		t.Run(name, func(t *testing.T) {
			step := fits
			change(&step)
			v := vector.Vector{Name: "v", Limits: []sluice.Limit{sluice.MustParseLimit("1/min")}, Steps: []vector.Step{step}}
			now := vector.Start
			err := v.Play(t.Context(), memstore.New(memstore.Options{Now: func() time.Time { return now }}), func(at time.Time) { now = at })
			if (err == nil) != (name == "") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestStepString(t *testing.T) {
	for want, s := range map[string]vector.Step{
		"at 0s: take 1: passes; 5 left":                                     {Cost: 1, Allowed: 1, Remaining: 5},
		"at 1s: take 1, 8 times: 6 pass, the last fits 100ms later; 0 left": {At: time.Second, Cost: 1, Times: 8, Allowed: 6, RetryAfter: 100 * time.Millisecond},
		"at 0s: take 9: denied, can never; 5 left":                          {Cost: 9, TooLarge: true, Remaining: 5},
		"at 0s: reserve 1: passes, 10ms later; 0 left":                      {Op: sluice.OpReserve, Cost: 1, Allowed: 1, Delay: 10 * time.Millisecond},
		"at 0s: take-up-to 9: passes, 5 spent; 0 left, all of it after 1s":  {Op: sluice.OpTakeUpTo, Cost: 9, Allowed: 1, Spent: 5, ResetAfter: time.Second},
		"at 0s: take 9, which turns out to cost 2: passes; 8 left":          {Cost: 9, Actual: 2, Allowed: 1, Remaining: 8},
		"at 0s: take 1, 3 times, one every 1m0s: all pass; 0 left":          {Cost: 1, Times: 3, Every: time.Minute, Allowed: 3},
		"at 0s: take 1, 3 times: all pass, the last 20ms later; 0 left":     {Cost: 1, Times: 3, Allowed: 3, Delay: 20 * time.Millisecond},
		"at 0s: take 1, 3 times: 0 pass, the last can never; 0 left":        {Cost: 1, Times: 3, TooLarge: true},
	} {
		if got := s.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
