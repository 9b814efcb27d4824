// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package spec_test

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/internal/spec"
	"github.com/sluicegate/sluice/internal/testkit"
)

// steps returns the number of random steps: SLUICE_SPEC_STEPS, or a million, or ten million in
// make long.
func steps(t *testing.T) int {
	t.Helper()
	if text := os.Getenv("SLUICE_SPEC_STEPS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("SLUICE_SPEC_STEPS: %v", err)
		}
		return n
	}
	if testing.Short() {
		return 100_000
	}
	return testkit.Steps(1_000_000, 10_000_000)
}

// seeds returns the seeds in SLUICE_SPEC_SEED, such as "7" or "1-40"; without it, 1.
func seeds(t *testing.T) (first, last uint64) {
	t.Helper()
	text := os.Getenv("SLUICE_SPEC_SEED")
	if text == "" {
		return 1, 1
	}
	from, to, several := strings.Cut(text, "-")
	if !several {
		to = from
	}
	first, err := strconv.ParseUint(from, 10, 32)
	if err == nil {
		last, err = strconv.ParseUint(to, 10, 32)
	}
	if err != nil {
		t.Fatalf("SLUICE_SPEC_SEED: %v; want a number, or two as in 1-40", err)
	}
	return first, last
}

// TestExhaustive tries all sequences of 3 operations. From ten million steps, sequences with
// ticks of a µs, where numbers are rounded, have 4 operations; from a hundred million, those
// with ticks of a second do, too.
func TestExhaustive(t *testing.T) {
	fine, coarse := spec.Sequences{Depth: 3, Ticks: []int64{1}}, spec.Sequences{Depth: 3, Ticks: []int64{1_000_000}}
	switch n := steps(t); {
	case n >= 100_000_000:
		fine.Depth, coarse.Depth = 4, 4
	case n >= 10_000_000:
		fine.Depth = 4
	case n < 1_000_000:
		fine.Depth, coarse.Depth = 2, 2
	}
	spec.Exhaustive(t, open, fine)
	spec.Exhaustive(t, open, coarse)
}

func TestBreadthFirst(t *testing.T) {
	spec.BreadthFirst(t, open, spec.Search{Depth: 8, Steps: steps(t) / 50, Ticks: []int64{1, 1_000_000}})
}

func TestRandom(t *testing.T) {
	first, last := seeds(t)
	for seed := first; seed <= last; seed++ {
		spec.Random(t, open, steps(t), seed)
	}
}

// TestOfOtherStores runs TestExhaustive and TestRandom on stores that continue from a snapshot
// every few requests, and on stores that decide in batches.
func TestOfOtherStores(t *testing.T) {
	n := steps(t) / 10
	short := spec.Sequences{Depth: 2, Ticks: []int64{1, 1_000_000}}
	t.Run("snapshot", func(t *testing.T) {
		spec.Exhaustive(t, openRestored, short)
		spec.Random(t, openRestoredNowAndThen, n, 1)
	})
	t.Run("batch", func(t *testing.T) {
		spec.Exhaustive(t, openBatched, short)
		spec.Random(t, openBatched, n, 2)
	})
}
