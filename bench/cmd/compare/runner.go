// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/sluicegate/sluice/bench/record"
	"github.com/sluicegate/sluice/bench/report"
)

// earlier is in place of product in the names of another build's contenders.
const earlier = "before"

// errAbsent is returned of a benchmark that another build does not have.
var errAbsent = errors.New("the program of -before has no such benchmark")

// turnLimit is how long one process may run.
const turnLimit = 5 * time.Minute

// build compiles the benchmarks. cleanUp removes what it made.
func build(ctx context.Context) (binary string, cleanUp func() error, err error) {
	dir, err := os.MkdirTemp("", "sluice-bench-")
	if err != nil {
		return "", nil, err
	}
	cleanUp = func() error { return os.RemoveAll(dir) }
	binary = filepath.Join(dir, "bench.test")
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-o", binary, "github.com/sluicegate/sluice/bench")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", nil, errors.Join(fmt.Errorf("building the benchmarks: %w\n%s", err, out), cleanUp())
	}
	return binary, cleanUp, nil
}

// runner runs turns, each in a process of its own, so that no contender meets
// the heap that another has left.
type runner struct {
	binary, before string
	cores          int
}

func (r runner) run(ctx context.Context, t turn, benchtime time.Duration) (output []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, turnLimit)
	defer cancel()
	length := t.benchtime
	if length == "" {
		length = benchtime.String()
	}
	binary := r.binary
	if t.before {
		binary = r.before
	}
	cmd := exec.CommandContext(ctx, binary, "-test.run=^$", "-test.bench="+t.pattern(),
		"-test.benchtime="+length, "-test.cpu="+strconv.Itoa(r.cores), "-test.benchmem")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	output, err = cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s of %s: %w\n%s%s", t.bench, t.who, err, output, stderr.Bytes())
	}
	if t.before {
		output = bytes.ReplaceAll(output, []byte("/who="+product), []byte("/who="+earlier))
	}
	return output, nil
}

// served is the share of a core that a turn had of each that it kept busy: 1
// on a quiet machine. It is 1 for turns of which that is not known.
func served(t turn, s report.Sample) float64 {
	wall, cpu := s.Values["ns/op"], s.Values["cpu-ns/op"]
	if t.busy == 0 || wall == 0 || cpu == 0 {
		return 1
	}
	return cpu / wall / float64(t.busy)
}

// enough is the share from which a turn counts without another try.
const enough = 0.9

// takeTurns runs every turn once a round. A turn that had too little of the
// cores is tried again; the try that had most counts, whatever it measured.
// All go to the record.
func takeTurns(ctx context.Context, o options, turns []turn, r runner, raw *record.Record, progress io.Writer) (report.Set, error) {
	var set report.Set
	start := time.Now()
	for round := 1; round <= o.rounds; round++ {
		if err := raw.Round(round); err != nil {
			return nil, err
		}
		for i, t := range turns {
			if _, err := fmt.Fprintf(progress, "\r\x1b[Kround %d of %d, %d of %d, %v: %s of %s", round, o.rounds, i+1, len(turns),
				time.Since(start).Round(time.Second), t.bench, t.who); err != nil {
				return nil, err
			}
			best, err := bestTry(ctx, o, t, r, raw, round)
			if errors.Is(err, errAbsent) {
				continue
			}
			if err != nil {
				_, printErr := fmt.Fprintln(progress)
				return nil, errors.Join(err, printErr)
			}
			set = append(set, best)
		}
	}
	_, err := fmt.Fprintln(progress)
	return set, err
}

func bestTry(ctx context.Context, o options, t turn, r runner, raw *record.Record, round int) (report.Sample, error) {
	var best report.Sample
	var faults []error
	most := -1.0
	for range o.tries {
		s, out, err := oneTry(ctx, o, t, r, round)
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, errAbsent) {
				return best, errors.Join(err, ctx.Err())
			}
			// One in many may fail by rights: the hour of a limit ends while it
			// is pressed. It is reported only if no other try succeeds.
			faults = append(faults, err)
			continue
		}
		share := served(t, s)
		note := ""
		if share < enough {
			note = fmt.Sprintf("the line above had %.2f of each core that it kept busy", share)
		}
		if err := raw.Write(out, note); err != nil {
			return best, err
		}
		if share > most {
			best, most = s, share
		}
		if share >= enough {
			break
		}
	}
	if most < 0 {
		return best, errors.Join(faults...)
	}
	return best, nil
}

func oneTry(ctx context.Context, o options, t turn, r runner, round int) (s report.Sample, out []byte, err error) {
	if out, err = r.run(ctx, t, o.benchtime); err != nil {
		return s, nil, err
	}
	samples, err := report.Parse(bytes.NewReader(out), round)
	if err != nil {
		return s, nil, err
	}
	if len(samples) == 0 && t.before {
		return s, nil, errAbsent
	}
	if len(samples) != 1 {
		return s, nil, fmt.Errorf("%s of %s: %d results, want one; is the benchmark there?\n%s", t.bench, t.who, len(samples), out)
	}
	return samples[0], out, nil
}
