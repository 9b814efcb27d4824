// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// repository makes one with the root, a module that requires it and one that requires both, and what a release
// stamps. It returns its folder and that of its origin.
func repository(t *testing.T) (dir, origin string) {
	t.Helper()
	dir, origin = t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		"Makefile":   "PUBLISHED := . one one/two\n",
		"go.mod":     "module " + root + "\n\ngo 1.26.0\n",
		"a.go":       "package sluice\n",
		"one/go.mod": "module " + root + "/one\n\ngo 1.26.0\n\nrequire " + root + " v0.0.0\n\nreplace " + root + " => ..\n",
		"one/a.go":   "package one\n\nimport _ \"" + root + "\"\n",
		"one/two/go.mod": "module " + root + "/one/two\n\ngo 1.26.0\n\nrequire " + root + "/one v0.0.0\n\nrequire " + root + " v0.0.0 // indirect\n\n" +
			"replace " + root + " => ../..\n\nreplace " + root + "/one => ..\n",
		"one/two/a.go": "package two\n\nimport _ \"" + root + "/one\"\n",
	} {
		if err := write(filepath.Join(dir, name), []byte(text), false); err != nil {
			t.Fatal(err)
		}
	}
	for name := range stamps {
		if err := write(filepath.Join(dir, name), []byte(read(t, "../../"+name)), false); err != nil {
			t.Fatal(err)
		}
	}
	git(t, origin, "init", "--quiet", "--bare", "--initial-branch=main")
	git(t, dir, "init", "--quiet", "--initial-branch=main")
	git(t, dir, "config", "user.name", "Ann")
	git(t, dir, "config", "user.email", "ann@example.org")
	git(t, dir, "remote", "add", "origin", origin)
	git(t, dir, "add", ".")
	git(t, dir, "commit", "--quiet", "--message", "first")
	git(t, dir, "push", "--quiet", "origin", "main")
	return dir, origin
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := output(t.Context(), dir, nil, "git", args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// newRelease returns one of a repository whose modules need nothing from elsewhere.
func newRelease(t *testing.T, repository string, publish bool) *release {
	t.Helper()
	t.Setenv("GOPROXY", "off")
	work := t.TempDir()
	t.Cleanup(func() {
		// The module cache is read-only.
		if err := filepath.WalkDir(work, func(path string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				err = os.Chmod(path, 0o700) //nolint:gosec // a folder
			}
			return err
		}); err != nil {
			t.Error(err)
		}
	})
	return &release{repository: repository, version: "v1.2.3", publish: publish, work: work, source: filepath.Join(work, "source"), dist: filepath.Join(work, "dist")}
}

// TestPublish: the commits and tags come into the repository, the command that is printed pushes them, and
// modules are found by these tags. The version cannot be made twice, but it can be checked.
func TestPublish(t *testing.T) {
	dir, origin := repository(t)
	r := newRelease(t, dir, true)
	for _, do := range []func() error{
		func() error { return r.checkout(t.Context()) }, func() error { return r.tag(t.Context()) },
		func() error { git(t, r.source, "tag", "v1.99.0", "v1.2.3^{commit}"); return nil }, // as nextRoot
		func() error { return r.offer(t.Context()) },
	} {
		if err := do(); err != nil {
			t.Fatal(err)
		}
	}
	if got := git(t, dir, "tag", "--list"); got != "one/two/v1.2.3\none/v1.2.3\nv1.2.3" {
		t.Errorf("the tags are %q", got)
	}
	if got := git(t, dir, "status", "--porcelain") + git(t, dir, "log", "--format=%s"); got != "first" {
		t.Errorf("the branch is no longer as it was: %q", got)
	}
	for line := range strings.SplitSeq(r.pushes(), "&&") {
		if out, err := exec.CommandContext(t.Context(), "sh", "-c", "cd '"+dir+"' && "+line).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
	}
	if got := git(t, origin, "log", "--format=%an %s", "main"); got != "Ann release: v1.2.3\nAnn first" {
		t.Errorf("the main branch has the commits %q", got)
	}
	for name, want := range map[string]string{
		"v1.2.3:CHANGELOG.md": "## Unreleased\n\n## 1.2.3 - 20", "v1.2.3:deploy/helm/sluice/Chart.yaml": "\nversion: 1.2.3\nappVersion: v1.2.3\n",
		"v1.2.3:deploy/kubernetes/base/kustomization.yaml": "    newTag: v1.2.3", "main:one/go.mod": "replace ",
		"one/two/v1.2.3:one/two/go.mod": "require " + root + "/one v1.2.3\n\nrequire " + root + " v1.2.3 // indirect",
		"one/two/v1.2.3:one/two/go.sum": root + "/one v1.2.3 h1:", "one/v1.2.3:one/go.mod": "require " + root + " v1.2.3",
	} {
		if got := git(t, origin, "show", name); !strings.Contains(got, want) || strings.Contains(name, "/v1.2.3:") && strings.Contains(got, "replace") {
			t.Errorf("%s has no %q:\n%s", name, want, got)
		}
	}

	again := newRelease(t, dir, true)
	if err := again.checkout(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := again.tag(t.Context()); err == nil || !strings.Contains(err.Error(), "never moved") {
		t.Errorf("the version is made twice: %v", err)
	}
	again.publish = false
	if err := again.tag(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestFirstRelease: what the documents say of the time before it is taken out first.
func TestFirstRelease(t *testing.T) {
	dir, _ := repository(t)
	if err := write(filepath.Join(dir, "docs/a.md"), []byte("Install it.\nThere is no release yet.\n"), false); err != nil {
		t.Fatal(err)
	}
	git(t, dir, "add", ".")
	git(t, dir, "commit", "--quiet", "--message", "docs")
	if err := newRelease(t, dir, true).checkout(t.Context()); err == nil || !strings.Contains(err.Error(), "docs/a.md:2:") {
		t.Errorf("got %v", err)
	}
	if err := newRelease(t, dir, false).checkout(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestChangesAreNotReleased: a release is what is committed.
func TestChangesAreNotReleased(t *testing.T) {
	dir, _ := repository(t)
	if err := write(filepath.Join(dir, "a.go"), []byte("package sluice // changed\n"), false); err != nil {
		t.Fatal(err)
	}
	if err := newRelease(t, dir, true).checkout(t.Context()); err == nil || !strings.Contains(err.Error(), "a.go") {
		t.Errorf("got %v", err)
	}
}

// TestVersions: a version that modules cannot have is refused.
func TestVersions(t *testing.T) {
	for _, args := range [][]string{{"."}, {".", "1.2.3"}, {".", "devel"}, {"-publish", ".", "v1.2"}, {"-publish"}} {
		if err := run(t.Context(), args); err == nil || !strings.Contains(err.Error(), "such as v1.2.3") {
			t.Errorf("%q: got %v", args, err)
		}
	}
}
