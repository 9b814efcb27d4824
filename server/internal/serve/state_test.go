// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package serve_test

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/serve"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// stateful returns a configuration that keeps its state in a file.
func stateful(file, limit string) string {
	return fmt.Sprintf("store: {memory: {state: %q}}\nrules: [{name: gateway, by: query.userId, limits: %s}]\n", file, limit)
}

// TestStateOutlivesAStop: units used before a clean stop are used after it, also under a
// changed quota.
func TestStateOutlivesAStop(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "sluice.state")
	for _, c := range []struct {
		limit string
		want  []int
	}{
		{"2/min sliding-log", []int{http.StatusOK}},
		{"2/min sliding-log", []int{http.StatusOK, http.StatusTooManyRequests}},
		{"2/min sliding-log", []int{http.StatusTooManyRequests}},
		{"4/min sliding-log", []int{http.StatusOK, http.StatusOK, http.StatusTooManyRequests}},
	} {
		r := servetest.Start(t, stateful(file, c.limit), servetest.Stopped)
		r.WantAll(t, c.want, "/?userId=u1")
		r.End(t)
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode(); got != 0o600 {
			t.Errorf("mode %v, want only its owner to read it", got)
		}
		left, err := os.ReadDir(filepath.Dir(file))
		if err != nil || len(left) != 1 {
			t.Errorf("left in the folder: %v, %v", left, err)
		}
	}
}

func TestStateThatCannotBe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		testkit.WriteFile(t, path, content)
		return path
	}
	whole := filepath.Join(dir, "whole")
	r := servetest.Start(t, stateful(whole, "10/min sliding-log"))
	r.Get(t, "/?userId=u1")
	r.End(t)
	good := testkit.ReadFile(t, whole)
	flipped := append([]byte(nil), good...)
	flipped[len(flipped)/2] ^= 1
	fifo := filepath.Join(dir, "fifo")
	servetest.Pipe(t, fifo)
	for _, c := range []struct{ name, path, want string }{
		{"not a snapshot", write("text", []byte("hello\n")), "move the file away"},
		{"empty", write("empty", nil), "move the file away"},
		{"cut short", write("short", good[:len(good)-1]), "move the file away"},
		{"damaged", write("damaged", flipped), "move the file away"},
		{"a folder", dir, "is a directory; use the path of a regular file"},
		{"a pipe", fifo, "is a pipe; use the path of a regular file"},
		{"in no folder", filepath.Join(dir, "none", "x"), "its folder cannot be written to"},
	} {
		t.Run(c.name, func(t *testing.T) {
			conf, err := config.Parse("f", []byte("listen: 127.0.0.1:0\nadmin: off\n"+stateful(c.path, "10/min sliding-log")))
			if err != nil {
				t.Fatal(err)
			}
			content := func() []byte {
				if c.path == fifo {
					return nil
				}
				text, _ := os.ReadFile(c.path) // only a file has a content to compare
				return text
			}
			before := content()
			err = serve.Run(t.Context(), serve.Options{Config: conf, Out: io.Discard, Log: slog.New(slog.DiscardHandler)})
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.path) {
				t.Errorf("error %v, want %q", err, c.want)
			}
			if after := content(); string(after) != string(before) {
				t.Error("the file was changed")
			}
		})
	}
}

// TestStateThatCannotBeSaved: a stop that cannot save its state returns an error and leaves no
// file behind.
func TestStateThatCannotBeSaved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "sluice.state")
	r := servetest.Start(t, stateful(file, "10/min sliding-log"))
	if err := os.Mkdir(file, 0o700); err != nil { // in its way
		t.Fatal(err)
	}
	if err := r.Wait(); err == nil || !strings.Contains(err.Error(), "cannot be written") {
		t.Errorf("error %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left in the folder: %v, %v", left, err)
	}
}

// TestLeftovers: the next start removes the temporary files of killed processes.
func TestLeftovers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"state.123.tmp", "overrides.json.4567.tmp", "mine.1.tmp"} {
		testkit.WriteFile(t, filepath.Join(dir, name), "half of")
	}
	s := servetest.Start(t, fmt.Sprintf("store: {memory: {state: %q}}\nrules: [{name: a, limits: 1000/min}]\n", filepath.Join(dir, "state")), func(o *serve.Options) {
		o.Overrides = filepath.Join(dir, "overrides.json")
	})
	left, err := filepath.Glob(filepath.Join(dir, "*.tmp"))
	if err != nil || len(left) != 1 || filepath.Base(left[0]) != "mine.1.tmp" {
		t.Errorf("left %v, %v", left, err)
	}
	s.End(t)
}
