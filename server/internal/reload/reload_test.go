// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package reload_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/reload"
)

func text(quota int) string {
	return fmt.Sprintf("rules: [{name: a, by: ip, limits: %d/min}]\n", quota)
}

// watched is a running Watcher with its reports.
type watched struct {
	*reload.Watcher
	file     string
	hurry    chan os.Signal
	refuse   error
	names    string  // a file that the configuration names
	applied  []int64 // quotas
	reported []string
}

// watch runs a Watcher in a synctest bubble, where a second passes when everything else is
// idle.
func watch(t *testing.T, story func(*watched)) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "sluice.yaml")
	synctest.Test(t, func(t *testing.T) {
		w := &watched{file: file, hurry: make(chan os.Signal), names: filepath.Join(filepath.Dir(file), "key")}
		w.write(t, text(1))
		c, err := config.Load(file)
		if err != nil {
			t.Fatal(err)
		}
		w.Watcher = reload.New(reload.Options{
			File: file, MaxBytes: bounds.MaxFileBytes,
			Load: func(data []byte, named func([]string)) error {
				c, err := config.Parse(file, data)
				if err != nil {
					return err
				}
				named([]string{w.names})
				if w.refuse == nil {
					w.applied = append(w.applied, c.Policy.Rules()[0].Levels[0].Limits[0].Quota)
				}
				return w.refuse
			},
			Changed: func(_ reload.Version, err error) { w.reported = append(w.reported, fmt.Sprint(err)) },
		}, reload.Version{File: file, Hash: c.Version, Loaded: time.Now()}, []string{w.names})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			w.Run(ctx, w.hurry)
		}()
		story(w)
		stop()
		<-done
	})
}

func (w *watched) write(t *testing.T, text string) {
	t.Helper()
	testkit.WriteFile(t, w.file, text)
}

// pass lets the Watcher check three times.
func pass() {
	time.Sleep(3*reload.Every + reload.Every/2)
	synctest.Wait()
}

func TestWatch(t *testing.T) {
	watch(t, func(w *watched) {
		first, failure := w.Status()
		if failure != nil {
			t.Fatal(failure)
		}
		expect := func(what string, quotas, reported int, failed string) {
			t.Helper()
			v, failure := w.Status()
			if len(w.applied) != quotas || len(w.reported) != reported {
				t.Errorf("%s: applied %v, reported %q", what, w.applied, w.reported)
			}
			if (failure == nil) != (failed == "") || failure != nil && !strings.Contains(failure.Error(), failed) {
				t.Errorf("%s: failure %v, want %q", what, failure, failed)
			}
			if quotas == 0 && v != first {
				t.Errorf("%s: version %v, want %v", what, v, first)
			}
		}
		pass()
		expect("nothing happened", 0, 0, "")
		w.write(t, text(1))
		pass()
		expect("written as it was", 0, 0, "")
		w.write(t, "rules: [{nmae: a}]\n")
		pass()
		expect("a bad file", 0, 1, "sluice.yaml:1:10:")
		w.write(t, text(1))
		pass()
		expect("as it was before the bad one", 1, 2, "")
		w.write(t, text(22))
		pass()
		expect("another", 2, 3, "")
		if w.applied[1] != 22 {
			t.Errorf("applied %v", w.applied)
		}
		if v, _ := w.Status(); v.Hash == first.Hash || !v.Loaded.After(first.Loaded) {
			t.Errorf("version %v after %v", v, first)
		}
		if err := os.Remove(w.file); err != nil {
			t.Fatal(err)
		}
		pass()
		expect("no file", 2, 4, "no such file")
		w.write(t, text(22))
		pass()
		expect("the file is back as it was", 3, 5, "")
		w.hurry <- syscall.SIGHUP
		synctest.Wait()
		expect("a signal", 4, 6, "")
		w.refuse = errors.New("no such upstream")
		w.write(t, text(333))
		pass()
		expect("one that cannot be applied", 4, 7, "no such upstream")
		w.refuse = nil
		if err := w.Reload(); err != nil {
			t.Error(err)
		}
		expect("once more", 5, 8, "")
	})
}

// TestNamedFiles: a named file reloads the configuration if its content has changed, and only
// then.
func TestNamedFiles(t *testing.T) {
	watch(t, func(w *watched) {
		key := func(text string) {
			t.Helper()
			testkit.WriteFile(t, w.names, text)
			pass()
		}
		expect := func(what string, applied int) {
			t.Helper()
			if len(w.applied) != applied {
				t.Errorf("%s: applied %d times, want %d", what, len(w.applied), applied)
			}
		}
		pass()
		expect("nothing happened", 0)
		key("one")
		expect("it is there", 1)
		key("one")
		expect("written as it was", 1)
		key("two")
		expect("another", 2)
		w.refuse = errors.New("a bad key")
		key("bad")
		if _, failure := w.Status(); failure == nil || failure.Error() != "a bad key" || len(w.reported) != 3 {
			t.Errorf("failure %v, reported %q", failure, w.reported)
		}
		w.refuse = nil
		key("three")
		expect("a good one after a bad one", 3)
		if _, failure := w.Status(); failure != nil {
			t.Errorf("failure %v", failure)
		}
		if err := os.Remove(w.names); err != nil {
			t.Fatal(err)
		}
		pass()
		expect("it is gone", 4) // Load returns that it cannot be read
	})
}

// TestNamedFolder: a folder reloads the configuration if other names are in it, and a long file if
// its end has changed.
func TestNamedFolder(t *testing.T) {
	watch(t, func(w *watched) {
		expect := func(what string, applied int) {
			t.Helper()
			pass()
			if len(w.applied) != applied {
				t.Errorf("%s: applied %d times, want %d", what, len(w.applied), applied)
			}
			_, _ = w.Status() // its lock orders this before the next load
		}
		if err := os.Mkdir(w.names, 0o700); err != nil {
			t.Fatal(err)
		}
		expect("it is there", 1)
		testkit.WriteFile(t, filepath.Join(w.names, "a"), "1")
		expect("a file", 2)
		testkit.WriteFile(t, filepath.Join(w.names, ".b"), "1")
		testkit.WriteFile(t, filepath.Join(w.names, "a"), "2")
		expect("a hidden file, and another content", 2)
		if err := os.Rename(filepath.Join(w.names, "a"), filepath.Join(w.names, "b")); err != nil {
			t.Fatal(err)
		}
		expect("another name", 3)
		if err := os.Remove(filepath.Join(w.names, "b")); err != nil {
			t.Fatal(err)
		}
		expect("none", 4)
		if err := os.RemoveAll(w.names); err != nil {
			t.Fatal(err)
		}
		long := strings.Repeat("#", 2<<20)
		testkit.WriteFile(t, w.names, long+"1")
		expect("a file in its place", 5)
		testkit.WriteFile(t, w.names, long+"22")
		expect("another end", 6)
	})
}

// TestAround: Around calls the function that reads, applies and reports a file, also one with
// faults; a check of an unchanged file is not within it.
func TestAround(t *testing.T) {
	file := testkit.TempFile(t, "sluice.yaml", text(1))
	var story []string
	w := reload.New(reload.Options{
		File: file, MaxBytes: bounds.MaxFileBytes,
		Load: func(data []byte, _ func([]string)) error {
			_, err := config.Parse(file, data)
			if err == nil {
				story = append(story, "apply")
			}
			return err
		},
		Around: func(f func() error) error {
			story = append(story, "begin")
			err := f()
			story = append(story, "end")
			return err
		},
		Changed: func(_ reload.Version, err error) { story = append(story, fmt.Sprint("changed ", err == nil)) },
	}, reload.Version{File: file}, nil)
	if err := w.Reload(); err != nil {
		t.Error(err)
	}
	testkit.WriteFile(t, file, "rules: 1\n")
	if err := w.Reload(); err == nil {
		t.Error("a file with faults: got no error")
	}
	const want = "begin apply changed true end begin changed false end"
	if got := strings.Join(story, " "); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
