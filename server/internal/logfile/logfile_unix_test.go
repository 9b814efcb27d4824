// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package logfile

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/testkit"
)

// opened is a File under test.
type opened struct {
	*File
	counts Counts
	logs   bytes.Buffer // read after Close
}

func open(t *testing.T, path string, buffer int) *opened {
	t.Helper()
	o := &opened{}
	f, err := Open(path, Options{
		Counts: &o.counts, Log: slog.New(slog.NewTextHandler(&o.logs, nil)), Name: "test log", Buffer: buffer, retry: time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	o.File = f
	t.Cleanup(func() { o.close(t) })
	return o
}

func (o *opened) close(t *testing.T) {
	t.Helper()
	if err := o.Close(); err != nil {
		t.Error(err)
	}
}

// lines writes the lines from to to.
func (o *opened) lines(from, to int) {
	for i := from; i < to; i++ {
		o.Write(fmt.Appendf(nil, "line %d\n", i))
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// whole fails t unless text consists of complete lines of a test.
func whole(t *testing.T, text string) (n uint64) {
	t.Helper()
	for line := range strings.Lines(text) {
		var i int
		if _, err := fmt.Sscanf(line, "line %d\n", &i); err != nil || !strings.HasSuffix(line, "\n") {
			t.Errorf("a line %q", line)
		}
		n++
	}
	return n
}

func (o *opened) want(t *testing.T, written, dropped uint64) {
	t.Helper()
	if w, d := o.counts.Written.Load(), o.counts.Dropped.Load(); w != written || d != dropped {
		t.Errorf("%d written, %d dropped, want %d and %d", w, d, written, dropped)
	}
}

// TestAllWritten: lines of many goroutines are written whole, once each, while the file is
// moved away repeatedly; an incomplete line from before gets its end.
func TestAllWritten(t *testing.T) {
	const writers, each = 4, 5000
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, []byte("line 7\nline 8"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := open(t, path, 0)
	var all sync.WaitGroup
	for range writers {
		all.Go(func() { o.lines(0, each) })
	}
	var old []string
	for i := range 5 {
		moved := fmt.Sprint(path, i)
		if err := os.Rename(path, moved); err != nil {
			t.Fatal(err)
		}
		old = append(old, moved)
		o.Reopen()
		testkit.Until(t, "a new file", func() bool { _, err := os.Stat(path); return err == nil })
	}
	all.Wait()
	o.close(t)
	n := whole(t, read(t, path))
	for _, path := range old {
		n += whole(t, read(t, path))
	}
	if n != writers*each+2 {
		t.Errorf("%d lines, want %d", n, writers*each+2)
	}
	o.want(t, writers*each, 0)
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

// TestRemoved: a removed file is made again when the log is reopened; if it cannot be made,
// the previous file stays.
func TestRemoved(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "logs")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "log")
	o := open(t, path, 0)
	o.lines(0, 1)
	testkit.Until(t, "a line", func() bool { return o.counts.Written.Load() == 1 })
	if err := os.Rename(folder, folder+"2"); err != nil {
		t.Fatal(err)
	}
	o.Reopen()
	o.lines(1, 2)
	testkit.Until(t, "a line in the file before", func() bool { return o.counts.Written.Load() == 2 })
	if err := os.Rename(folder+"2", folder); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	o.Reopen()
	testkit.Until(t, "the file", func() bool { _, err := os.Stat(path); return err == nil })
	o.lines(2, 3)
	o.close(t)
	if got := read(t, path); got != "line 2\n" {
		t.Errorf("got %q", got)
	}
	o.want(t, 3, 0)
	if !strings.Contains(o.logs.String(), "cannot be opened again; the previous file stays open") {
		t.Errorf("logged %q", o.logs.String())
	}
}

// TestFullDisk: lines that cannot be written wait while there is room, are then dropped and
// counted, and the failure is logged once.
func TestFullDisk(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no /dev/full")
	}
	o := open(t, "/dev/full", 70)
	o.lines(0, 20) // of 7 bytes, and 8
	testkit.Until(t, "a failure", func() bool { return o.counts.Dropped.Load() == 10 })
	o.close(t)
	o.lines(0, 1)
	o.want(t, 0, 21)
	if logs := o.logs.String(); strings.Count(logs, "\n") != 1 || !strings.Contains(logs, "no space left on device") {
		t.Errorf("logged %q", logs)
	}
}

// pipe makes a named pipe.
func pipe(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestPipeWithoutReader: a pipe without a reader delays nothing, and its first reader gets the
// waiting lines.
func TestPipeWithoutReader(t *testing.T) {
	path := pipe(t)
	o := open(t, path, 70)
	o.lines(0, 20)
	testkit.Until(t, "lines to be dropped", func() bool { return o.counts.Dropped.Load() == 10 })
	r, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "the others", func() bool { return o.counts.Written.Load() == 10 })
	o.close(t)
	text, err := io.ReadAll(r)
	if n := whole(t, string(text)); n != 10 || err != nil {
		t.Errorf("%d lines, %v", n, err)
	}
}

// TestPipeWhoseReaderStops: a reader that stops reading, or leaves, delays nothing; the next
// reader gets complete lines.
func TestPipeWhoseReaderStops(t *testing.T) {
	path := pipe(t)
	r, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	o := open(t, path, 100_000)
	for i := 0; o.counts.Dropped.Load() == 0; i += 1000 { // the pipe is full, then the buffer
		o.lines(i, i+1000)
	}
	first := bufio.NewReader(r)
	if line, err := first.ReadString('\n'); line != "line 0\n" || err != nil {
		t.Errorf("read %q, %v", line, err)
	}
	if err := r.Close(); err != nil { // the pipe keeps its bytes
		t.Fatal(err)
	}
	if r, err = os.Open(path); err != nil {
		t.Fatal(err)
	}
	read := make(chan []byte, 1)
	go func() {
		text, _ := io.ReadAll(r)
		read <- text
	}()
	o.lines(0, 10)
	testkit.Until(t, "the rest", func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		return o.wait+len(o.File.lines) == 0
	})
	o.close(t)
	_, behind, _ := strings.Cut(string(<-read), "\n") // the previous reader took the beginning of that line
	whole(t, behind)
	if o.counts.Written.Load() == 0 {
		t.Error("nothing was written")
	}
}

// TestClosedPipe: the end of a program does not wait for a reader that has stopped.
func TestClosedPipe(t *testing.T) {
	path := pipe(t)
	r, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close() //nolint:errcheck // nothing was read
	o := open(t, path, 1<<20)
	o.lines(0, 100_000)
	o.close(t)
	if all := o.counts.Written.Load() + o.counts.Dropped.Load(); all != 100_000 {
		t.Errorf("%d lines are known of", all)
	}
}

// TestNotALog: a path that cannot be appended to is an error at once.
func TestNotALog(t *testing.T) {
	for _, path := range []string{t.TempDir(), filepath.Join(t.TempDir(), "none", "log")} {
		if f, err := Open(path, Options{Counts: new(Counts), Log: slog.New(slog.DiscardHandler), Name: "test log"}); err == nil {
			t.Errorf("%s: opened", path)
			_ = f.Close()
		}
	}
}
