// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/bench/report"
)

func TestParseFlags(t *testing.T) {
	cases := []struct {
		args string
		want string // part of the error; empty for none
	}{
		{"", ""},
		{"-rounds 1 -groups take,live -who ^floor$ -benchtime 1ms", ""},
		{"-rounds 0", "-rounds 0 must be 1 to 100"},
		{"-cores 2000", "-cores 2000 must be 1 to 1024"},
		{"-tries 21", "-tries 21 must be 1 to 20"},
		{"-benchtime 2m", "-benchtime 2m0s must be 1ms to 1m"},
		{"-groups take,give", `no group "give"; there are take,new,`},
		{"-who (", "-who: "},
		{"take", `argument "take" is not understood`},
	}
	for _, c := range cases {
		t.Run(c.args, func(t *testing.T) {
			_, err := parseFlags(strings.Fields(c.args), io.Discard)
			if c.want == "" && err != nil {
				t.Errorf("got %v, want no error", err)
			}
			if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

func TestPlan(t *testing.T) {
	o, err := parseFlags([]string{"-groups", "take,live", "-who", `^(floor-one-word|sluice)$`}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]int)
	for _, turn := range plan(o) {
		got[turn.bench+" "+turn.who]++
	}
	for name, want := range map[string]int{
		"Take/load=hot/mode=parallel sluice":       1,
		"Take/load=hot/mode=serial floor-one-word": 1,
		"Take/load=zipf/mode=serial sluice":        1,
		"Live sluice":                              1,
		// It has no keys.
		"Take/load=zipf/mode=serial floor-one-word": 0,
		"Live floor-one-word":                       0,
		// It was not asked for.
		"Live floor": 0,
	} {
		if got[name] != want {
			t.Errorf("%s: got %d turns, want %d", name, got[name], want)
		}
	}
}

// TestGoalsAreMeasured checks that everything that a goal names has a turn.
func TestGoalsAreMeasured(t *testing.T) {
	o, err := parseFlags(nil, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	measured := make(map[turn]bool)
	for _, x := range plan(o) {
		measured[turn{bench: x.bench, who: x.who}] = true
	}
	for x := range compared() {
		if x.who != "" && !measured[x] {
			t.Errorf("no turn measures %s of %s, which a goal names", x.bench, x.who)
		}
	}
}

// TestPlanOfGoals checks that only what a goal names has a turn, and that
// another build's sluice has one behind each of this one's.
func TestPlanOfGoals(t *testing.T) {
	o, err := parseFlags([]string{"-groups", "take", "-goals", "-before", "old.test"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	turns := plan(o)
	for i, x := range turns {
		if x.who == "throttled" {
			t.Errorf("%s of %s has a turn, and no goal", x.bench, x.who)
		}
		if want := strings.HasPrefix(x.who, "sluice") && !x.before; want != (i+1 < len(turns) && turns[i+1].before) {
			t.Errorf("%s of %s: is it followed by the same of another build: got %v, want %v", x.bench, x.who, !want, want)
		}
	}
	if !slices.Contains(turns, turn{bench: "Take/load=hot/mode=serial", who: "sluice.fixed-window", busy: 1, before: true}) {
		t.Error("the fixed window of another build has no turn")
	}
}

// TestPattern checks that a turn runs one benchmark and not those whose names
// begin alike.
func TestPattern(t *testing.T) {
	parts := strings.Split(turn{bench: "Take/load=hot/mode=serial", who: "sluice.leaky-bucket"}.pattern(), "/")
	names := strings.Split("BenchmarkTake/load=hot/mode=serial/who=sluice.leaky-bucket", "/")
	if len(parts) != len(names) {
		t.Fatalf("got %q, want a pattern for each of %q", parts, names)
	}
	for i, p := range parts {
		re := regexp.MustCompile(p)
		if !re.MatchString(names[i]) {
			t.Errorf("%q does not match %q", p, names[i])
		}
		for _, other := range []string{names[i] + "-denied", strings.ReplaceAll(names[i], ".", "x") + "x", "x" + names[i]} {
			if re.MatchString(other) {
				t.Errorf("%q matches %q", p, other)
			}
		}
	}
}

func TestServed(t *testing.T) {
	cases := []struct {
		name      string
		busy      int
		wall, cpu float64
		want      float64
	}{
		{"all of one", 1, 50, 50, 1},
		{"half of two", 2, 50, 50, 0.5},
		{"all of two", 2, 50, 100, 1},
		{"does not matter", 0, 50, 1, 1},
		{"not known", 1, 50, 0, 1},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := report.Sample{Values: map[string]float64{"ns/op": c.wall, "cpu-ns/op": c.cpu}}
			if got := served(turn{busy: c.busy}, s); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// TestReread reads raw results with two tries in the first round: the one that
// had more of the cores counts, though it was slower.
func TestReread(t *testing.T) {
	const text = `date: 2026-01-02T03:04:05Z
commit: abc

# round 1, load average 1.00
BenchmarkTake/load=hot/mode=serial/who=floor-2 10 40.0 ns/op 20.0 cpu-ns/op
# the line above had 0.50 of each core that it kept busy
BenchmarkTake/load=hot/mode=serial/who=floor-2 10 50.0 ns/op 50.0 cpu-ns/op

# round 2, load average 1.00
BenchmarkTake/load=hot/mode=serial/who=floor-2 10 60.0 ns/op 60.0 cpu-ns/op
`
	path := filepath.Join(t.TempDir(), "raw.txt")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	header, set, err := reread(path, 2)
	if err != nil {
		t.Fatal(err)
	}
	if want := "date: 2026-01-02T03:04:05Z\ncommit: abc\n"; header != want {
		t.Errorf("got header %q, want %q", header, want)
	}
	got := set.Values("Take/load=hot/mode=serial", "floor", "ns/op")
	if want := []float64{50, 60}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if err := os.WriteFile(path, []byte("date: today\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := reread(path, 2); err == nil {
		t.Error("a file without results: got no error, want one")
	}
}
