// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// host is what is written above results: when, where and of what.
type host struct {
	date    time.Time
	commit  string
	machine string
	cores   int
	flags   string
}

func inspect(ctx context.Context, o options) (host, error) {
	commit, err := revision(ctx)
	if err != nil {
		return host{}, err
	}
	cpu, err := processor()
	if err != nil {
		return host{}, err
	}
	return host{
		date:    time.Now().UTC(),
		commit:  commit,
		machine: fmt.Sprintf("%s, %d processors", cpu, runtime.NumCPU()),
		cores:   o.cores,
		flags:   fmt.Sprintf("-rounds %d -benchtime %v -cores %d -tries %d -groups %s -who %v", o.rounds, o.benchtime, o.cores, o.tries, strings.Join(o.groups, ","), o.who),
	}, nil
}

// revision is the commit, with a plus if the tree differs from it.
func revision(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--abbrev=12", "--dirty=+").Output()
	if err != nil {
		return "", fmt.Errorf("git describe: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// processor is the processor's name where the system tells it.
func processor() (string, error) {
	text, err := os.ReadFile("/proc/cpuinfo")
	if errors.Is(err, fs.ErrNotExist) {
		return runtime.GOARCH, nil
	}
	if err != nil {
		return "", err
	}
	sc := bufio.NewScanner(bytes.NewReader(text))
	for sc.Scan() {
		if name, value, ok := strings.Cut(sc.Text(), ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value), nil
		}
	}
	return runtime.GOARCH, sc.Err()
}

// loadAverage is the system's, or empty where it tells none.
func loadAverage() (string, error) {
	text, err := os.ReadFile("/proc/loadavg")
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return strings.TrimSpace(string(text)), err
}

// header is in the format of Go benchmark results, as benchstat reads it.
func (h host) header() string {
	return fmt.Sprintf("date: %s\ncommit: %s\ngo: %s\ngoos: %s\ngoarch: %s\ncpu: %s\ncores: %d\nflags: %s\n",
		h.date.Format(time.RFC3339), h.commit, runtime.Version(), runtime.GOOS, runtime.GOARCH, h.machine, h.cores, h.flags)
}

// record is the raw results.
type record struct {
	path string // without its ending
	file *os.File
}

// newRecord opens a file in dir; with no dir it keeps nothing.
func newRecord(dir string, h host) (*record, error) {
	if dir == "" {
		return &record{}, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, h.date.Format("2006-01-02T150405Z")+"-"+strings.TrimSuffix(h.commit, "+"))
	f, err := os.Create(path + ".txt")
	if err != nil {
		return nil, err
	}
	if _, err := f.WriteString(h.header()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &record{path: path, file: f}, nil
}

// round notes that a round begins, and how busy the machine is.
func (r *record) round(n int) error {
	if r.file == nil {
		return nil
	}
	load, err := loadAverage()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(r.file, "\n# round %d, load average %s\n", n, load)
	return err
}

// write keeps the result lines of a turn's output.
func (r *record) write(output []byte, share float64) error {
	if r.file == nil {
		return nil
	}
	for line := range bytes.Lines(output) {
		if !bytes.HasPrefix(line, []byte("Benchmark")) {
			continue
		}
		if share < enough {
			line = append(bytes.TrimRight(line, "\n"), fmt.Sprintf("\n# the line above had %.2f of each core that it kept busy\n", share)...)
		}
		if _, err := r.file.Write(line); err != nil {
			return err
		}
	}
	return nil
}

func (r *record) close() error {
	if r.file == nil {
		return nil
	}
	return r.file.Close()
}
