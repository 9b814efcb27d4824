// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package profile_test

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/profile"
)

// TestVectors plays what platforms document of their own limits.
func TestVectors(t *testing.T) {
	for _, p := range profile.All() {
		for _, v := range p.Vectors {
			t.Run(p.Name+"/"+v.Name, func(t *testing.T) {
				now := profile.Start
				store := memstore.New(memstore.Options{MaxKeys: 64, Now: func() time.Time { return now }})
				if err := v.Play(t.Context(), store, func(at time.Time) { now = at }); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestPlayReportsDifferences: a vector that a store does not meet is an error, of
// every part of a decision.
func TestPlayReportsDifferences(t *testing.T) {
	fits := profile.Step{Cost: 1, Times: 2, Allowed: 1, RetryAfter: time.Minute, ResetAfter: time.Minute}
	for name, change := range map[string]func(s *profile.Step){
		"":            func(*profile.Step) {},
		"allowed":     func(s *profile.Step) { s.Allowed = 2 },
		"remaining":   func(s *profile.Step) { s.Remaining = 1 },
		"retry after": func(s *profile.Step) { s.RetryAfter-- },
		"reset after": func(s *profile.Step) { s.ResetAfter++ },
		"delay":       func(s *profile.Step) { s.Delay = 1 },
		"spent":       func(s *profile.Step) { s.Op, s.Times, s.Spent = sluice.OpTakeUpTo, 1, 2 },
		"limits":      func(s *profile.Step) { s.Cost = 2 },
	} {
		t.Run(name, func(t *testing.T) {
			step := fits
			change(&step)
			v := profile.Vector{Name: "v", Limits: []sluice.Limit{sluice.MustParseLimit("1/min")}, Steps: []profile.Step{step}}
			now := profile.Start
			err := v.Play(t.Context(), memstore.New(memstore.Options{Now: func() time.Time { return now }}), func(at time.Time) { now = at })
			if (err == nil) != (name == "") {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestTable: what stands in the file can be used and printed.
func TestTable(t *testing.T) {
	name := regexp.MustCompile(`^[a-z0-9-]+$`)
	vectors, before := make(map[string]bool), ""
	for _, p := range profile.All() {
		if !name.MatchString(p.Name) || p.Name <= before {
			t.Errorf("profile %q behind %q", p.Name, before)
		}
		before = p.Name
		if u, err := url.Parse(p.Source); err != nil || u.Scheme != "https" || u.Host == "" {
			t.Errorf("%s: source %q", p.Name, p.Source)
		}
		if p.Title == "" || len(p.Vectors) == 0 {
			t.Errorf("%s has no title or no vector", p.Name)
		}
		if _, err := sluice.Compile(p.Name, p.Limits...); err != nil {
			t.Errorf("%s: %v", p.Name, err)
		}
		if p.Status != 0 && (p.Status < 400 || p.Status > 599) {
			t.Errorf("%s: status %d", p.Name, p.Status)
		}
		own := false
		for _, v := range p.Vectors {
			if vectors[v.Name] {
				t.Errorf("%s: another vector is named %q, too", p.Name, v.Name)
			}
			vectors[v.Name] = true
			own = own || fmt.Sprint(v.Limits) == fmt.Sprint(p.Limits)
			for i := range v.Steps {
				if i > 0 && v.Steps[i].At < v.Steps[i-1].At {
					t.Errorf("%s: step %d of %s goes back", p.Name, i+1, v.Name)
				}
			}
		}
		if !own {
			t.Errorf("%s has no vector of its own limits", p.Name)
		}
		for _, text := range p.Differs {
			if strings.HasSuffix(text, ".") || text == "" {
				t.Errorf("%s differs: %q", p.Name, text)
			}
		}
	}
}

func TestGet(t *testing.T) {
	for _, want := range profile.All() {
		if got, ok := profile.Get(want.Name); !ok || got.Title != want.Title {
			t.Errorf("%s: got %v, %v", want.Name, got.Title, ok)
		}
	}
	if p, ok := profile.Get("shopify"); ok {
		t.Errorf("got %v", p.Name)
	}
	for name, want := range map[string]string{
		"shopfy-rest": "shopify-rest", "Shopify-REST": "shopify-rest", "shopify": "shopify-graphql shopify-rest",
		"uber": "uber-go uber-go-without-slack", "zool": "zuul", "leaky": "", "": "", " ": "", "-": "",
	} {
		if got := strings.Join(profile.Meant(name), " "); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}

func TestStepString(t *testing.T) {
	for want, s := range map[string]profile.Step{
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
