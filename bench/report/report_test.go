// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"math"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/bench/report"
)

const output = `goos: linux
cpu: Some CPU
BenchmarkTake/load=hot/mode=serial/who=floor-2   	 100	        40.00 ns/op	        39.5 cpu-ns/op	       0 allocs/op
BenchmarkTake/load=hot/mode=serial/who=go-limiter-2  	 100	        80.00 ns/op
BenchmarkAlgo/limit=fixed-window/take=denied-2  	 100	        25.00 ns/op
PASS
`

func parse(t *testing.T, text string, round int) []report.Sample {
	t.Helper()
	samples, err := report.Parse(strings.NewReader(text), round)
	if err != nil {
		t.Fatal(err)
	}
	return samples
}

func TestParse(t *testing.T) {
	got := parse(t, output, 3)
	want := []struct {
		bench, who, unit string
		value            float64
	}{
		{"Take/load=hot/mode=serial", "floor", "cpu-ns/op", 39.5},
		{"Take/load=hot/mode=serial", "go-limiter", "ns/op", 80},
		{"Algo/limit=fixed-window/take=denied", "", "ns/op", 25},
	}
	if len(got) != len(want) {
		t.Fatalf("got %d samples, want %d", len(got), len(want))
	}
	for i, w := range want {
		g := got[i]
		if g.Bench != w.bench || g.Who != w.who || g.Values[w.unit] != w.value || g.Round != 3 {
			t.Errorf("sample %d: got %+v, want %+v in round 3", i, g, w)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, line := range []string{
		"BenchmarkX 1 2 ns/op 3",
		"BenchmarkX 1 two ns/op",
	} {
		if _, err := report.Parse(strings.NewReader(line), 1); err == nil {
			t.Errorf("%q: got no error, want one", line)
		}
	}
}

// rounds are three rounds in which the machine gets slower, and sluice takes
// 1.5, 1.2 and 1.3 times as long as the floor.
func rounds(t *testing.T) report.Set {
	t.Helper()
	var s report.Set
	for i, v := range [][2]string{{"10", "15"}, {"100", "120"}, {"1000", "1300"}} {
		s = append(s, parse(t, "BenchmarkX/who=floor-2 1 "+v[0]+" ns/op\nBenchmarkX/who=sluice-2 1 "+v[1]+" ns/op\n", i)...)
	}
	return s
}

func TestSet(t *testing.T) {
	s := rounds(t)
	cases := []struct {
		name string
		get  func() (float64, bool)
		want float64
	}{
		{"median", func() (float64, bool) { return s.Median("X", "sluice", "ns/op") }, 120},
		{"median of two", func() (float64, bool) { return s[:4].Median("X", "floor", "ns/op") }, 55},
		{"least", func() (float64, bool) { return s.Least("X", "sluice", "ns/op") }, 15},
		{"ratio within rounds", func() (float64, bool) { return s.Ratio("X", "sluice", "floor", "ns/op") }, 1.3},
		{"difference within rounds", func() (float64, bool) { return s.Difference("X", "sluice", "floor", "ns/op") }, 20},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got, ok := c.get(); !ok || math.Abs(got-c.want) > 1e-9 {
				t.Errorf("got %v, %v; want %v", got, ok, c.want)
			}
		})
	}
	if _, ok := s.Ratio("X", "sluice", "nobody", "ns/op"); ok {
		t.Error("a ratio to nobody: got one, want none")
	}
}

func TestTables(t *testing.T) {
	s := rounds(t)
	var b strings.Builder
	if err := s.Table(&b, "Take", "floor", []report.Column{{Title: "x, ns", Bench: "X", Unit: "ns/op"}, {Title: "y", Bench: "Y", Unit: "ns/op"}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Goals(&b, []report.Goal{
		{Title: "near the floor", Bench: "X", Who: "sluice", To: "floor", Unit: "ns/op", Want: 1.3},
		{Title: "nearer", Bench: "X", Who: "sluice", To: "floor", Unit: "ns/op", Want: 1.2},
		{Title: "faster", Bench: "X", Who: "floor", To: "sluice", Unit: "ns/op", Invert: true, Want: 1.1},
		{Title: "much faster", Bench: "X", Who: "floor", To: "sluice", Unit: "ns/op", Invert: true, Want: 2},
		{Title: "at its best", Bench: "X", Who: "sluice", Unit: "ns/op", Least: true, Want: 20},
		{Title: "more", Bench: "X", Who: "sluice", From: "floor", Unit: "ns/op", Want: 20},
		{Title: "not measured", Bench: "Y", Who: "sluice", Unit: "ns/op", Want: 1},
	}); err != nil {
		t.Fatal(err)
	}
	const want = `
## Take

| who | x, ns | y |
|---|---|---|
| floor | 100 (1.00×) | – |
| sluice | 120 (1.30×) | – |

## Goals

| what | goal | measured |  |
|---|---|---|---|
| near the floor | ≤ 1.30 | 1.30 | reached |
| nearer | ≤ 1.20 | 1.30 | missed |
| faster | ≥ 1.10 | 1.30 | reached |
| much faster | ≥ 2.00 | 1.30 | missed |
| at its best | ≤ 20.0 | 15.0 | reached |
| more | ≤ 20.0 | 20.0 | reached |
`
	if got := b.String(); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// TestChanges compares two builds of which the second has one benchmark less.
func TestChanges(t *testing.T) {
	var set report.Set
	for round, text := range []string{
		"BenchmarkA/who=now.x 1 10 ns/op 30 cpu-ns/op\nBenchmarkA/who=was.x 1 5 ns/op 10 cpu-ns/op\nBenchmarkB/who=now 1 7 ns/op",
		"BenchmarkA/who=now.x 1 10 ns/op 10 cpu-ns/op\nBenchmarkA/who=was.x 1 5 ns/op 10 cpu-ns/op\nBenchmarkB/who=now 1 7 ns/op",
	} {
		samples, err := report.Parse(strings.NewReader(text), round)
		if err != nil {
			t.Fatal(err)
		}
		set = append(set, samples...)
	}
	var b strings.Builder
	if err := set.Changes(&b, "now", "was"); err != nil {
		t.Fatal(err)
	}
	const want = "\n## Of what it cost before\n\n| what | who | unit | of before | in the rounds |\n|---|---|---|---|---|\n| A | now.x | cpu-ns/op | 2.00 | 1.00 to 3.00 |\n"
	if b.String() != want {
		t.Errorf("got %q, want %q", b.String(), want)
	}
}
