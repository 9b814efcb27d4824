// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package lint_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/profile"
	"github.com/sluicegate/sluice/server/internal/lint"
)

// update rewrites the expected results under testdata.
var update = flag.Bool("update", false, "rewrite expected results under testdata")

var day = time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)

// TestLint: lint's output for each file of testdata is the golden file beside it.
func TestLint(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			c, err := config.Parse("sluice.yaml", data)
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			if err := lint.Check(c, day).WriteText(&got); err != nil {
				t.Fatal(err)
			}
			golden(t, strings.TrimSuffix(file, ".yaml")+".txt", got.String())
		})
	}
}

// golden compares with a file, or writes it with -update.
func golden(t *testing.T, file, got string) {
	t.Helper()
	want, err := os.ReadFile(file)
	if err == nil && string(want) == got {
		return
	}
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Errorf("%s differs (%v); got\n%s", file, err, got)
}

// TestLimitsThatCanNeverDeny: a limit that lint says can never deny denies no request.
func TestLimitsThatCanNeverDeny(t *testing.T) {
	texts := []string{
		"5/s", "5/s burst 1", "10/s burst 20", "20/s burst 40", "100/min", "100/min burst 10", "7/3s", "30/10s interval-refill", "600/min burst 60",
		"1/s leaky-bucket burst 5 nodelay", "10/s leaky-bucket burst 40 nodelay", "2/s leaky-bucket burst 4",
		"5/s fixed-window", "10/s fixed-window", "20/s fixed-window", "40/3s fixed-window anchor first", "100/10s fixed-window",
		"5/s sliding-log", "10/s sliding-log", "30/3s sliding-log", "100/10s sliding-log", "5/10s sliding-log count-denied",
		"5/s sliding-counter", "20/s sliding-counter sub-windows 4", "10/s sliding-counter conservative", "40/s sliding-counter conservative sub-windows 4",
		"5/s count-denied", "5/s sliding-counter count-denied", "5/s sliding-counter strict", "20/s sliding-counter strict", "20/s sliding-counter sub-windows 4 strict",
		"100/10s sliding-counter", "9/s sliding-counter pre-filled",
		"5/s sliding-histogram precision 3", "10/s sliding-histogram", "200/10s sliding-histogram", "50/s sliding-histogram precision 10",
	}
	implied := 0
	pairs := [][2]sluice.Limit{}
	for _, a := range texts {
		for _, b := range texts {
			tight, loose := sluice.MustParseLimit(a), sluice.MustParseLimit(b)
			if a != b && lint.Implies(tight, loose, 0) {
				implied++
				pairs = append(pairs, [2]sluice.Limit{tight, loose})
			}
		}
	}
	if implied < 60 {
		t.Fatalf("only %d pairs are recognised", implied)
	}
	t.Logf("%d of %d pairs", implied, len(texts)*(len(texts)-1))
	rapid.Check(t, func(t *rapid.T) {
		pair := rapid.SampledFrom(pairs).Draw(t, "tight and loose")
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		store := memstore.New(memstore.Options{MaxKeys: 64, Now: func() time.Time { return now }})
		tight, err := sluice.New(store, "tight", pair[0])
		if err != nil {
			t.Fatal(err)
		}
		loose, err := sluice.New(store, "loose", pair[1])
		if err != nil {
			t.Fatal(err)
		}
		steps := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) [2]int64 {
			pause := rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(1, 300_000), rapid.SampledFrom([]int64{999_999, 1_000_000, 1_000_001, 3_000_000})).Draw(t, "pause")
			return [2]int64{pause, rapid.Int64Range(1, 4).Draw(t, "cost")}
		}), 20, 200).Draw(t, "steps")
		for i, step := range steps {
			now = now.Add(time.Duration(step[0]) * time.Microsecond)
			d, err := tight.Take(t.Context(), "k", step[1])
			if err != nil {
				t.Fatal(err)
			}
			if !d.Allowed {
				continue
			}
			if d, err = loose.Take(t.Context(), "k", step[1]); err != nil || !d.Allowed {
				t.Fatalf("step %d: %v allows %d and %v denies it (%v)", i, pair[0], step[1], pair[1], err)
			}
		}
	})
}

// TestExamples: the configurations under examples have no warnings.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob("../../../examples/configs/*.cases.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d examples: %v", len(files), err)
	}
	for _, file := range files {
		c, err := config.Load(strings.TrimSuffix(file, ".cases.yaml") + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range lint.Check(c, day).Warnings {
			t.Errorf("%s: %v", file, w)
		}
	}
}

// TestLikeEach: the words of a rule like a platform name the platform and its differences.
func TestLikeEach(t *testing.T) {
	for _, p := range profile.All() {
		c, err := config.Parse("sluice.yaml", []byte("rules: [{name: a, by: ip, like: "+p.Name+"}, {name: b, by: ip, match: {path: /b}, limits: [{like: "+p.Name+"}]}]"))
		if err != nil {
			t.Fatal(err)
		}
		for i, words := range lint.Check(c, day).Rules {
			if got := words.Lines[len(words.Lines)-len(p.Differs)-1]; got != "like "+p.Name+": "+p.Title {
				t.Errorf("rule %d: got %q", i+1, words.Lines)
			}
			if last := words.Lines[len(words.Lines)-1]; last != "  but "+p.Differs[len(p.Differs)-1] {
				t.Errorf("rule %d: got %q", i+1, last)
			}
		}
	}
}

// FuzzCheck: every rule of a file without faults has words.
func FuzzCheck(f *testing.F) {
	for _, glob := range []string{"testdata/*.yaml", "../../../config/testdata/*.yaml", "../../../examples/configs/*.yaml"} {
		files, err := filepath.Glob(glob)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(string(data))
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := config.Parse("f", []byte(text))
		if err != nil {
			return
		}
		if r := lint.Check(c, day); len(r.Rules) != len(c.Policy.Rules()) {
			t.Error("a rule without words")
		}
	})
}
