// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package record keeps raw results with what is known of the machine.
package record

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

// Host is what is written above results: when, where and of what.
type Host struct {
	Date    time.Time
	Commit  string // with a plus if the tree differs from it
	Machine string
	Cores   int
	Flags   string
}

// Inspect returns what is known of this machine and this tree. Flags is how the
// results were asked for.
func Inspect(ctx context.Context, cores int, flags string) (Host, error) {
	commit, err := revision(ctx)
	if err != nil {
		return Host{}, err
	}
	cpu, err := processor()
	if err != nil {
		return Host{}, err
	}
	return Host{
		Date:    time.Now().UTC(),
		Commit:  commit,
		Machine: fmt.Sprintf("%s, %d processors", cpu, runtime.NumCPU()),
		Cores:   cores,
		Flags:   flags,
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

// processor is the processor's name where the system reports it.
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

// loadAverage is the system's, or empty where it reports none.
func loadAverage() (string, error) {
	text, err := os.ReadFile("/proc/loadavg")
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return strings.TrimSpace(string(text)), err
}

// Header is in the format of Go benchmark results, as benchstat reads it.
func (h Host) Header() string {
	return fmt.Sprintf("date: %s\ncommit: %s\ngo: %s\ngoos: %s\ngoarch: %s\ncpu: %s\ncores: %d\nflags: %s\n",
		h.Date.Format(time.RFC3339), h.Commit, runtime.Version(), runtime.GOOS, runtime.GOARCH, h.Machine, h.Cores, h.Flags)
}

// Record is a file of raw results, or of none.
type Record struct {
	path string // without its ending
	file *os.File
}

// New opens a file in dir whose name begins with prefix; with no dir it keeps
// nothing.
func New(dir, prefix string, h Host) (*Record, error) {
	if dir == "" {
		return &Record{}, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, prefix+h.Date.Format("2006-01-02T150405Z")+"-"+strings.TrimSuffix(h.Commit, "+"))
	f, err := os.Create(path + ".txt")
	if err != nil {
		return nil, err
	}
	if _, err := f.WriteString(h.Header()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &Record{path: path, file: f}, nil
}

// Path is the file's without its ending, empty if nothing is kept.
func (r *Record) Path() string { return r.path }

// Round notes that a round begins, and how busy the machine is.
func (r *Record) Round(n int) error {
	load, err := loadAverage()
	if err != nil {
		return err
	}
	return r.Note(fmt.Sprintf("\n# round %d, load average %s\n", n, load))
}

// Note keeps text as it is.
func (r *Record) Note(text string) error {
	if r.file == nil {
		return nil
	}
	_, err := r.file.WriteString(text)
	return err
}

// Write keeps the result lines of a benchmark's output, with a note behind each
// if there is one.
func (r *Record) Write(output []byte, note string) error {
	for line := range bytes.Lines(output) {
		if !bytes.HasPrefix(line, []byte("Benchmark")) {
			continue
		}
		text := string(bytes.TrimRight(line, "\n")) + "\n"
		if note != "" {
			text += "# " + note + "\n"
		}
		if err := r.Note(text); err != nil {
			return err
		}
	}
	return nil
}

// Close closes the file.
func (r *Record) Close() error {
	if r.file == nil {
		return nil
	}
	return r.file.Close()
}
