// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package report reads what benchmarks print and compares it.
package report

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Sample is what one benchmark of one contender measured in one round.
type Sample struct {
	Bench  string // such as "Take/load=hot/mode=serial", without the contender
	Who    string // the contender; empty where the benchmark has none
	Round  int
	Values map[string]float64 // by unit, such as "ns/op"
}

// maxLine is the longest line that Parse reads.
const maxLine = 64 << 10

// Parse reads the result lines of go test -bench. Other lines are skipped.
func Parse(r io.Reader, round int) ([]Sample, error) {
	var samples []Sample
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, maxLine)
	for sc.Scan() {
		fields := strings.Fields(sc.Text())
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		s := Sample{Round: round, Values: make(map[string]float64)}
		s.Bench, s.Who = splitName(fields[0])
		if len(fields)%2 != 0 {
			return nil, fmt.Errorf("report: %q: a value without a unit", sc.Text())
		}
		for i := 2; i < len(fields); i += 2 {
			v, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return nil, fmt.Errorf("report: %q: value %d: %w", sc.Text(), i/2, err)
			}
			s.Values[fields[i+1]] = v
		}
		samples = append(samples, s)
	}
	if err := sc.Err(); err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	return samples, nil
}

// splitName takes "Benchmark", the number of processors and the contender off
// a benchmark's name.
func splitName(name string) (bench, who string) {
	name = strings.TrimPrefix(name, "Benchmark")
	if i := strings.LastIndexByte(name, '-'); i >= 0 {
		if _, err := strconv.Atoi(name[i+1:]); err == nil {
			name = name[:i]
		}
	}
	var rest []string
	for part := range strings.SplitSeq(name, "/") {
		if w, ok := strings.CutPrefix(part, "who="); ok {
			who = w
		} else {
			rest = append(rest, part)
		}
	}
	return strings.Join(rest, "/"), who
}

// Set is many samples.
type Set []Sample

// Values returns what a contender measured, in the order of the rounds.
func (s Set) Values(bench, who, unit string) []float64 {
	var vs []float64
	for _, x := range s {
		if v, ok := x.Values[unit]; ok && x.Bench == bench && x.Who == who {
			vs = append(vs, v)
		}
	}
	return vs
}

// Median returns the middle of what a contender measured, and false if it
// measured nothing.
func (s Set) Median(bench, who, unit string) (float64, bool) {
	return median(s.Values(bench, who, unit))
}

// Least returns the least of what a contender measured, and false if it
// measured nothing.
func (s Set) Least(bench, who, unit string) (float64, bool) {
	vs := s.Values(bench, who, unit)
	if len(vs) == 0 {
		return 0, false
	}
	return slices.Min(vs), true
}

// Ratio returns the median over the rounds of a contender's value divided by
// another's of the same round, and false if no round has both. What changes
// from round to round, as the load of the machine does, falls out of it.
func (s Set) Ratio(bench, who, to, unit string) (float64, bool) {
	return median(s.pairs(bench, who, to, unit, quotient))
}

func quotient(v, base float64) (float64, bool) { return v / base, base > 0 }

// Difference returns the median over the rounds of a contender's value less
// another's of the same round, and false if no round has both.
func (s Set) Difference(bench, who, from, unit string) (float64, bool) {
	return median(s.pairs(bench, who, from, unit, func(v, base float64) (float64, bool) { return v - base, true }))
}

// pairs returns f of a contender's value and another's of the same round.
func (s Set) pairs(bench, who, other, unit string, f func(v, base float64) (float64, bool)) []float64 {
	base := make(map[int]float64)
	for _, x := range s {
		if v, ok := x.Values[unit]; ok && x.Bench == bench && x.Who == other {
			base[x.Round] = v
		}
	}
	var vs []float64
	for _, x := range s {
		v, ok := x.Values[unit]
		b, both := base[x.Round]
		if !ok || !both || x.Bench != bench || x.Who != who {
			continue
		}
		if r, ok := f(v, b); ok {
			vs = append(vs, r)
		}
	}
	return vs
}

// Whos returns the contenders of a benchmark in the order of their first
// samples.
func (s Set) Whos(bench string) []string {
	var whos []string
	for _, x := range s {
		if x.Bench == bench && !slices.Contains(whos, x.Who) {
			whos = append(whos, x.Who)
		}
	}
	return whos
}

// median returns the middle value, or the mean of the middle two.
func median(vs []float64) (float64, bool) {
	n := len(vs)
	if n == 0 {
		return 0, false
	}
	vs = slices.Sorted(slices.Values(vs))
	if n%2 == 1 {
		return vs[n/2], true
	}
	return (vs[n/2-1] + vs[n/2]) / 2, true
}
