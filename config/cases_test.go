// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/config"
)

// The configurations under examples are without faults and warnings, and their
// cases hold.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob("../examples/configs/*.cases.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d examples: %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".cases.yaml"), func(t *testing.T) {
			c, err := config.Load(strings.TrimSuffix(file, ".cases.yaml") + ".yaml")
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range config.Lint(c, lintDay).Warnings {
				t.Error(w)
			}
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			results, err := config.RunCases(t.Context(), c, filepath.Base(file), data)
			if err != nil {
				t.Fatal(err)
			}
			if results.Failed() > 0 {
				var b strings.Builder
				if err := results.WriteText(&b); err != nil {
					t.Fatal(err)
				}
				t.Error("\n" + b.String())
			}
		})
	}
}

// testdata/cases holds a policy, cases that do and do not hold, and what is
// said of them.
func TestRunCases(t *testing.T) {
	c, err := config.Load("testdata/cases/policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile("testdata/cases/cases.yaml")
	if err != nil {
		t.Fatal(err)
	}
	results, err := config.RunCases(t.Context(), c, "cases.yaml", data)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := results.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/cases/results.txt", b.String())
}

func TestCasesFaults(t *testing.T) {
	c := parse(t, "rules: [{name: a, limits: 1/s}]")
	data, err := os.ReadFile("testdata/cases/faults.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, err = config.RunCases(t.Context(), c, "f", data)
	var faults config.Faults
	if !errors.As(err, &faults) {
		t.Fatalf("error %v", err)
	}
	golden(t, "testdata/cases/faults.txt", faults.Error()+"\n")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err = config.RunCases(ctx, c, "f", []byte("cases: [{name: a, steps: [{expect: allowed}]}]")); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that the context ended", err)
	}
}

func FuzzRunCases(f *testing.F) {
	c, err := config.Load("testdata/cases/policy.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, glob := range []string{"testdata/cases/*.yaml", "../examples/configs/*.cases.yaml"} {
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
		ctx, cancel := context.WithTimeout(t.Context(), time.Second) // of a case that is long but bounded
		defer cancel()
		results, err := config.RunCases(ctx, c, "f", []byte(text))
		var faults config.Faults
		if err != nil && !errors.As(err, &faults) && !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if err == nil && len(results.Cases) == 0 {
			t.Error("no cases and no fault")
		}
	})
}
