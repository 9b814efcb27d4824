// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Command release makes what a release of sluice has in the folder dist, and proves
// that its modules can be used: it tags a copy of the last commit, serves its modules as
// a module proxy does, and builds programs outside against them. It publishes nothing.
//
//	go -C tools run ./release REPOSITORY VERSION
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
)

// published finds the modules of a release, each behind those that it requires.
var published = regexp.MustCompile(`(?m)^PUBLISHED *:= *(.*)$`)

const root = "github.com/sluicegate/sluice"

// release is one run.
type release struct {
	repository, version string
	modules             []string // their folders, "" for the root
	work                string   // a folder that is removed at the end
	source              string   // the copy of the commit
	proxy               string   // file tree of a module proxy
	dist                string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

var semver = regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`)

func run(ctx context.Context, args []string) (err error) {
	if len(args) != 2 || !semver.MatchString(args[1]) {
		return fmt.Errorf("%q; use a repository and a version, such as v1.2.3", args)
	}
	work, err := os.MkdirTemp("", "release")
	if err != nil {
		return err
	}
	defer func() {
		// The module cache is read-only.
		clean := command(context.WithoutCancel(ctx), work, []string{"GOMODCACHE=" + filepath.Join(work, "cache")}, "go", "clean", "-modcache")
		if failed := clean.Run(); err == nil {
			err = failed
		}
		if failed := os.RemoveAll(work); err == nil {
			err = failed
		}
	}()
	r := &release{
		repository: args[0], version: args[1], work: work,
		source: filepath.Join(work, "source"), proxy: filepath.Join(work, "proxy"), dist: filepath.Join(args[0], "dist"),
	}
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"copy the last commit", r.checkout},
		{"publish the modules to a proxy in a folder", r.publish},
		{"build programs outside against them", r.useOutside},
		{"go install", r.install},
		{"programs and packages", r.build},
		{"list of what is in them", r.sbom},
		{"the next root with these modules", r.nextRoot},
		{"checksums", r.checksums},
	} {
		fmt.Println("==", step.name)
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	fmt.Println("== made in", r.dist)
	return nil
}

// command is a command in a folder, with variables beside those of the environment.
func command(ctx context.Context, dir string, env []string, name string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, name, args...) //nolint:gosec // commands of this program
	c.Dir, c.Env = dir, append(os.Environ(), env...)
	c.Stderr = os.Stderr
	return c
}

// output runs a command and returns what it prints, without the space around it.
func output(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	out, err := command(ctx, dir, env, name, args...).Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}

func (r *release) checkout(ctx context.Context) error {
	if _, err := output(ctx, r.work, nil, "git", "clone", "--quiet", "--no-hardlinks", r.repository, r.source); err != nil {
		return err
	}
	makefile, err := os.ReadFile(filepath.Join(r.source, "Makefile"))
	if err != nil {
		return err
	}
	found := published.FindSubmatch(makefile)
	if found == nil {
		return errors.New("the Makefile does not set PUBLISHED")
	}
	for _, dir := range strings.Fields(string(found[1])) {
		r.modules = append(r.modules, strings.TrimPrefix(dir, "."))
	}
	_, err = output(ctx, r.source, nil, "git", "tag", r.version)
	return err
}
