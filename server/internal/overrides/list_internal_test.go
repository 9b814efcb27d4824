// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package overrides

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/server/internal/keys"
)

var (
	now   = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	later = time.Now().Add(24 * time.Hour)
)

func compiledRules(t *testing.T, rules []policy.Rule) *policy.Policy {
	t.Helper()
	p, err := policy.Compile(rules)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func of(rule, key, limit string, expires time.Time) Stored {
	o := Stored{Rule: rule, Override: policy.Override{Key: []string{key}, Expires: expires, Reason: "r", Author: "a"}, Added: now}
	if limit != "" {
		o.Limits = []policy.Limit{{Limit: sluice.MustParseLimit(limit)}}
	}
	return o
}

func rulesOf(t *testing.T) []policy.Rule {
	t.Helper()
	limits := []policy.Limit{{Limit: sluice.MustParseLimit("5/min")}}
	return []policy.Rule{
		{Name: "a", Levels: []policy.Level{{By: []policy.Part{policy.IP()}, Limits: limits, Overrides: []policy.Override{
			{Key: []string{"192.0.2.1"}, Limits: limits, Reason: "r", Author: "file"},
			{Key: []string{"192.0.2.2"}, Limits: limits, Reason: "r", Author: "file"},
		}}}},
		{Name: "b", Levels: []policy.Level{{By: []policy.Part{policy.IP()}, Limits: limits}}},
	}
}

// followed returns Overrides with the given ones over rules, and those that are left out.
func followed(t *testing.T, p *policy.Policy, all ...Stored) (*List, []Lost) {
	t.Helper()
	l, err := Open("")
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		l.put(&all[i], 0)
	}
	var lost []Lost
	l.Follow(p, time.Now(), func() {}, func(more []Lost) { lost = append(lost, more...) })
	return l, lost
}

// inForce returns the author and the limits of the override of a key, "" if there is none.
func inForce(p *policy.Policy, l *List, rule, key string) string {
	l0 := keys.Level(p, rule, "")
	t := keys.Target{Rule: l0.Rule, Level: l0, Values: []string{key}, Key: key, Overrides: l}
	o, set := t.Override(time.Now())
	if o == nil {
		return ""
	}
	return fmt.Sprint(o.Author, " ", o.Limits, " ", set.All.Term(0).Limit.Quota)
}

// TestFollow: overrides of the list replace those of the file for the same key, and the rules
// do not change.
func TestFollow(t *testing.T) {
	p := compiledRules(t, rulesOf(t))
	l, lost := followed(t, p,
		of("a", "192.0.2.2", "9/min", time.Time{}), of("a", "192.0.2.3", "9/min", later), of("a", "192.0.2.3", "8/min", later), of("b", "192.0.2.3", "9/min", later))
	if len(lost) > 0 {
		t.Fatalf("lost %v", lost)
	}
	for _, c := range [][3]string{
		{"a", "192.0.2.1", "file [5/min] 5"},
		{"a", "192.0.2.2", "a [9/min] 9"},
		{"a", "192.0.2.3", "a [8/min] 8"},
		{"a", "192.0.2.4", ""},
		{"b", "192.0.2.2", ""},
		{"b", "192.0.2.3", "a [9/min] 9"},
	} {
		if got := inForce(p, l, c[0], c[1]); got != c[2] {
			t.Errorf("rule %s, key %s: got %q, want %q", c[0], c[1], got, c[2])
		}
	}
	if o := p.Rules()[0].Levels[0].Overrides; len(o) != 2 || o[1].Author != "file" {
		t.Errorf("the rules were changed: %v", o)
	}
}

// TestLost: an override that does not fit the present rules is left out and
// reported, and the others are active.
func TestLost(t *testing.T) {
	rules := rulesOf(t)
	two := of("b", "192.0.2.8", "9/min", time.Time{})
	two.Key = append(two.Key, "x")
	bare := of("b", "192.0.2.9", "9/min", time.Time{})
	bare.Reason = ""
	tests := map[string]struct {
		o    Stored
		want string
		fits bool
	}{
		"no rule":         {of("gone", "192.0.2.3", "9/min", later), "the configuration has no such rule or level", false},
		"no level":        {Stored{Rule: "a", Level: "x"}, "the configuration has no such rule or level", false},
		"more parts":      {two, "the rule has no such key", false},
		"another network": {of("net", "192.0.2.3", "9/min", later), "the rule has no such key", false},
		"other unit":      {of("a", "192.0.2.2", "1MB/min", later), "its limits do not fit the rule: counts bytes but the rule's cost", true},
		"no limits":       {of("b", "192.0.2.3", "", later.Add(time.Hour)), "its limits do not fit the rule: no limit", true},
		"no reason":       {bare, "its limits do not fit the rule: the reason is empty", true},
	}
	net := rules[1]
	net.Name, net.Levels = "net", []policy.Level{{By: []policy.Part{policy.Network(24, 48)}, Limits: net.Levels[0].Limits}}
	p := compiledRules(t, append(rules, net))
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			l, lost := followed(t, p, of("b", "192.0.2.5", "9/min", later), test.o)
			if len(lost) != 1 || !strings.HasPrefix(lost[0].Problem, test.want) || lost[0].Fits != test.fits || lost[0].Rule != test.o.Rule {
				t.Errorf("lost %+v, want %q", lost, test.want)
			}
			if got := l.Problem(&test.o); !strings.HasPrefix(got, test.want) || len(l.All(time.Now())) != 2 {
				t.Errorf("problem %q, want %q; kept %v", got, test.want, l.All(time.Now()))
			}
			if a, b := inForce(p, l, "a", "192.0.2.2"), inForce(p, l, "b", "192.0.2.5"); a != "file [5/min] 5" || b != "a [9/min] 9" {
				t.Errorf("active %v and %v", a, b)
			}
			if err := Fits(p, test.o); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("fits: got %v, want %q", err, test.want)
			}
			if got := Unused(p, test.o); got == test.fits {
				t.Errorf("unused: got %v", got)
			}
		})
	}
	if err := Fits(p, of("a", "192.0.2.3", "9/min", later)); err != nil {
		t.Error(err)
	}
}

// TestRuleComesBack: the override of a rule that is gone stays, and is active again with its
// rule.
func TestRuleComesBack(t *testing.T) {
	all, without := compiledRules(t, rulesOf(t)), compiledRules(t, rulesOf(t)[:1])
	l, lost := followed(t, all, of("b", "192.0.2.3", "9/min", later))
	if got := inForce(all, l, "b", "192.0.2.3"); got != "a [9/min] 9" || len(lost) > 0 {
		t.Errorf("got %q, lost %v", got, lost)
	}
	l.Follow(without, time.Now(), func() {}, func(more []Lost) { lost = append(lost, more...) })
	if len(lost) != 1 || len(l.All(time.Now())) != 1 {
		t.Errorf("lost %v, kept %v", lost, l.All(time.Now()))
	}
	l.Follow(all, time.Now(), func() {}, func([]Lost) {})
	if got := inForce(all, l, "b", "192.0.2.3"); got != "a [9/min] 9" {
		t.Errorf("got %q", got)
	}
}

// TestList: an override outlives a restart until it expires or is removed, and a change that
// cannot be kept changes nothing.
func TestList(t *testing.T) {
	file := filepath.Join(t.TempDir(), "overrides.json")
	p := compiledRules(t, rulesOf(t))
	open := func() *List {
		l, err := Open(file)
		if err != nil {
			t.Fatal(err)
		}
		l.Follow(p, time.Now(), func() {}, func([]Lost) {})
		return l
	}
	l := open()
	for _, o := range []Stored{
		of("a", "192.0.2.7", "1/min", later), of("a", "192.0.2.8", "2/min", time.Time{}), of("a", "192.0.2.7", "3/min", later),
	} {
		if _, err := l.Add(&o, now); err != nil {
			t.Fatal(err)
		}
	}
	for _, again := range []*List{l, open()} {
		if all := again.All(now); len(all) != 2 || all[0].Key[0] != "192.0.2.8" || all[1].Limits[0].String() != "3/min" {
			t.Errorf("got %v", all)
		}
		if all := again.All(later); len(all) != 1 || all[0].Key[0] != "192.0.2.8" {
			t.Errorf("once it has expired: got %v", all)
		}
		if x, y := inForce(p, again, "a", "192.0.2.7"), inForce(p, again, "a", "192.0.2.8"); x != "a [3/min] 3" || y != "a [2/min] 2" {
			t.Errorf("active %q and %q", x, y)
		}
	}
	y, other := of("a", "192.0.2.8", "", time.Time{}), of("b", "192.0.2.8", "", time.Time{})
	if _, err := l.Remove(&other, now); !errors.Is(err, ErrNone) {
		t.Errorf("got %v, want ErrNone", err)
	}
	if all := l.All(now); len(all) != 2 {
		t.Errorf("after a change that failed: %v", all)
	}
	// The folder is gone: what cannot be kept is taken back.
	if err := os.RemoveAll(filepath.Dir(file)); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Remove(&y, now); err == nil {
		t.Error("removed, though it cannot be kept")
	}
	if got := inForce(p, l, "a", "192.0.2.8"); got != "a [2/min] 2" || len(l.All(now)) != 2 {
		t.Errorf("active %q, listed %v, want what was before", got, l.All(now))
	}
}

// TestBadFolder: a folder that does not exist, or cannot be written, is reported at the
// start, not by the first change. The check leaves nothing in a good one.
func TestBadFolder(t *testing.T) {
	dir := t.TempDir()
	testkit.WriteFile(t, filepath.Join(dir, "file"), "")
	for _, folder := range []string{"none", "file"} {
		file := filepath.Join(dir, folder, "overrides.json")
		if _, err := Open(file); err == nil || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), "folder") {
			t.Errorf("%s: got %v", folder, err)
		}
	}
	if _, err := Open(filepath.Join(dir, "overrides.json")); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left in the folder: %v, %v", left, err)
	}
}

// TestBadFile: a file that cannot be read, or has another version, is reported with what
// to do, and not written over.
func TestBadFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "overrides.json")
	for text, want := range map[string]string{
		"{":  " cannot be read: unexpected end of JSON input; correct it, or move it away",
		"[]": " cannot be read: json: cannot unmarshal array ",
		`{"version": 1, "overrides": [{"rule": "a", "key": ["x"], "limits": ["many"]}]}`: ` cannot be read: sluice: limit "many"`,
		`{"overrides": []}`: " has version 0, and this program reads version 1",
		`{"version": 2, "confirmed": 7, "overrides": {"a": "b"}}`: " has version 2, and this program reads version 1; start the release that wrote it, or move the file away",
	} {
		testkit.WriteFile(t, file, text)
		if _, err := Open(file); err == nil || !strings.Contains(err.Error(), file+want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != text {
			t.Errorf("%s: got %q, %v in the file", text, got, err)
		}
	}
}

// TestTextsStandAlone: the limits of a kept override are read unchanged, whatever the
// limits of the rule become.
func TestTextsStandAlone(t *testing.T) {
	rules := []string{
		"100/h", "100/h burst 7 interval-refill", "100/h leaky-bucket burst 9", "100/h leaky-bucket burst 9 nodelay", "100/h fixed-window anchor first",
		"100/day calendar Asia/Seoul", "100/h sliding-log count-denied", "100/h sliding-counter sub-windows 6 strict",
		"100/h sliding-counter conservative", "100/h sliding-histogram precision 9", "per-user: 100/h debt 5", "100/s initial 3",
	}
	for _, made := range rules {
		level := &policy.Level{Limits: []policy.Limit{{Limit: sluice.MustParseLimit(made)}}}
		for _, typed := range []string{"50/h", "3/day", made} {
			limits, err := ParseLimits(level, []string{typed})
			if err != nil {
				t.Fatalf("%q in place of %q: %v", typed, made, err)
			}
			kept := testkit.JSON(t, Stored{Override: policy.Override{Limits: limits}})
			var again Stored
			if err := json.Unmarshal(kept, &again); err != nil || !slices.Equal(again.Limits, limits) {
				t.Errorf("%q in place of %q: got %v, %v; want %v", typed, made, again.Limits, err, limits)
			}
		}
	}
}

// TestFollowCompilesFirst: when the rules of a reload begin to decide, the overrides are compiled for
// them.
func TestFollowCompilesFirst(t *testing.T) {
	l, err := Open("")
	if err != nil {
		t.Fatal(err)
	}
	p, err := policy.Compile([]policy.Rule{{Name: "a", Levels: []policy.Level{{By: []policy.Part{policy.Header("X")}, Limits: []policy.Limit{{Limit: sluice.PerMinute(1)}}}}}})
	if err != nil {
		t.Fatal(err)
	}
	o := &Stored{Rule: "a", Added: time.Now(), Override: policy.Override{Key: []string{"k"}, Limits: []policy.Limit{{Limit: sluice.PerMinute(7)}}, Reason: "r", Author: "a"}}
	l.put(o, 0)
	swapped := false
	l.Follow(p, time.Now(), func() {
		if swapped = true; l.compiled[o.ID()].Set == nil {
			t.Error("the rules are swapped before the override is compiled")
		}
	}, func([]Lost) {})
	if !swapped {
		t.Error("the rules were not swapped")
	}
}

// TestSharedOverrideComesBack: when this node's own override of a key ends, the shared one of that
// key is active again, also if another key changes first.
func TestSharedOverrideComesBack(t *testing.T) {
	now := time.Now()
	p, err := policy.Compile([]policy.Rule{{Name: "a", Levels: []policy.Level{{By: []policy.Part{policy.Header("X")}, Limits: []policy.Limit{{Limit: sluice.PerMinute(1)}}}}}})
	if err != nil {
		t.Fatal(err)
	}
	l, err := Open("")
	if err != nil {
		t.Fatal(err)
	}
	l.Follow(p, now, func() {}, func([]Lost) {})
	of := func(key string, quota int64, ends time.Time) *Stored {
		return &Stored{Rule: "a", Added: now, Override: policy.Override{
			Key: []string{key}, Limits: []policy.Limit{{Limit: sluice.PerMinute(quota)}}, Reason: "r", Author: "a", Expires: ends,
		}}
	}
	own := of("k", 7, now.Add(time.Minute))
	if _, err := l.Add(own, now); err != nil {
		t.Fatal(err)
	}
	l.put(of("k", 99, time.Time{}), 1)
	later := now.Add(2 * time.Minute)
	if _, err := l.Add(of("other", 7, time.Time{}), later); err != nil {
		t.Fatal(err)
	}
	if c := l.compiled[own.ID()]; c.Set == nil || c.Set.All.Term(0).Quota != 99 {
		t.Errorf("got %+v, want the shared override", c)
	}
}
