// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package override_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/server/override"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func of(rule, key, limit string, expires time.Time) override.Override {
	return override.Override{Rule: rule, Key: []string{key}, Limits: []string{limit}, Expires: expires, Reason: "r", Author: "a", Added: now}
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

// TestOver: overrides of the list beat those of the file for the same key, and
// what they are put over stays as it was.
func TestOver(t *testing.T) {
	rules := rulesOf(t)
	with, lost, err := override.Over(rules, []override.Override{
		of("a", "192.0.2.2", "9/min", time.Time{}), of("a", "192.0.2.3", "9/min", now), of("gone", "x", "9/min", now),
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range with[0].Levels[0].Overrides {
		got = append(got, o.Key[0]+" "+o.Author)
	}
	if want := []string{"192.0.2.1 file", "192.0.2.2 a", "192.0.2.3 a"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if len(lost) != 1 || lost[0].Rule != "gone" {
		t.Errorf("lost %v", lost)
	}
	if n := len(rules[0].Levels[0].Overrides); n != 2 || rules[0].Levels[0].Overrides[1].Author != "file" {
		t.Errorf("the rules were changed: %v", rules[0].Levels[0].Overrides)
	}
	if _, err := policy.Compile(with); err != nil {
		t.Error(err)
	}
	_, _, err = override.Over(rules, []override.Override{of("a", "x", "many", now)})
	if want := `override of rule "a" for the key ["x"]: `; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("a limit that cannot be read: error %v, want %q", err, want)
	}
}

// TestList: what is added lasts over a restart until it expires or is removed,
// and a change that cannot be applied is none.
func TestList(t *testing.T) {
	file := filepath.Join(t.TempDir(), "overrides.json")
	var applied [][]override.Override
	apply := func(all []override.Override) error {
		applied = append(applied, slices.Clone(all))
		return nil
	}
	open := func() *override.List {
		l, err := override.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	l := open()
	for _, o := range []override.Override{
		of("a", "x", "1/min", now.Add(time.Hour)), of("a", "y", "2/min", time.Time{}), of("a", "x", "3/min", now.Add(time.Hour)),
	} {
		if err := l.Add(o, now, apply); err != nil {
			t.Fatal(err)
		}
	}
	for _, again := range []*override.List{l, open()} {
		if all := again.All(now); len(all) != 2 || all[0].Key[0] != "y" || all[1].Limits[0] != "3/min" {
			t.Errorf("got %v", all)
		}
		if all := again.All(now.Add(time.Hour)); len(all) != 1 || all[0].Key[0] != "y" {
			t.Errorf("an hour later: got %v", all)
		}
	}
	refused := errors.New("no")
	if err := l.Add(of("a", "z", "1/min", time.Time{}), now, func([]override.Override) error { return refused }); !errors.Is(err, refused) {
		t.Errorf("got %v", err)
	}
	if err := l.Remove("b", "", []string{"y"}, now, apply); !errors.Is(err, override.ErrNone) {
		t.Errorf("got %v, want ErrNone", err)
	}
	if all := l.All(now); len(all) != 2 {
		t.Errorf("after two changes that failed: %v", all)
	}
	// The folder is gone: what cannot be kept is taken back.
	if err := os.RemoveAll(filepath.Dir(file)); err != nil {
		t.Fatal(err)
	}
	if err := l.Remove("a", "", []string{"y"}, now, apply); err == nil {
		t.Error("removed, though it cannot be kept")
	}
	if last := applied[len(applied)-1]; len(last) != 2 || len(l.All(now)) != 2 {
		t.Errorf("in force %v, listed %v, want what was before", last, l.All(now))
	}
}

// TestBadFile: a file that cannot be read is told, and not written over.
func TestBadFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "overrides.json")
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := override.Open(file); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("got %v", err)
	}
}
