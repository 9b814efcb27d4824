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
)

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
