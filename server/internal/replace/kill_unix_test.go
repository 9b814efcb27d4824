// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build darwin || linux

package replace_test

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/sluicegate/sluice/server/internal/replace"
)

// TestMain lets the test program be one that writes a file and does not end.
func TestMain(m *testing.M) {
	path := os.Getenv("SLUICE_TEST_WRITES")
	if path == "" {
		os.Exit(m.Run())
	}
	err := replace.File(path, func(w io.Writer) error {
		_, err := io.WriteString(w, "half of")
		_, err2 := io.WriteString(os.Stdout, "writing\n")
		_, err3 := io.Copy(io.Discard, os.Stdin) // until it is killed
		return errors.Join(err, err2, err3)
	})
	panic(err)
}

// TestKilled: a process that is killed while it writes leaves the file as it was. What
// it leaves beside goes at the next start.
func TestKilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := replace.File(path, writing("before")); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := exec.CommandContext(t.Context(), self)
	p.Env = append(os.Environ(), "SLUICE_TEST_WRITES="+path)
	if _, err := p.StdinPipe(); err != nil { // which stays open
		t.Fatal(err)
	}
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "writing\n" {
		t.Fatalf("got %q, %v", line, err)
	}
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(); err == nil {
		t.Error("it was not killed")
	}
	if got := names(t, filepath.Dir(path)); len(got) != 2 {
		t.Errorf("nothing was left: %v", got)
	}
	if err := replace.Try(path); err != nil {
		t.Fatal(err)
	}
	if got := names(t, filepath.Dir(path)); len(got) != 1 {
		t.Errorf("after the next start: got %v", got)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "before" {
		t.Errorf("got %q, %v", text, err)
	}
}
