// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Command release makes what a release of sluice has in the folder dist, and proves that it can be used: it makes
// the commits and tags of the version in a copy of the last commit, and everything of these tags. Programs of
// users are built and run with the modules, and the programs, packages, image, chart and Compose file are started.
// It publishes nothing.
//
//	go -C tools run ./release [-publish] REPOSITORY VERSION
//	go -C tools run ./release -image FILE NAME:TAG VERSION ARCHITECTURE PROGRAM
//
// With -publish the commits and tags are brought into the repository at the end, and the command that pushes
// them is printed. With -image it only writes the image of a program, for docker load.
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
	publish             bool
	modules             []string          // their folders, "" for the root
	language            string            // the Go version that they need
	work                string            // a folder that is removed at the end
	source              string            // the copy, at the tags
	dist                string            // what is made
	programs            map[string]string // by platform
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
	if len(args) == 6 && args[0] == "-image" {
		return writeImage(args[1], args[2], args[3], args[4], args[5])
	}
	publish := len(args) > 0 && args[0] == "-publish"
	if publish {
		args = args[1:]
	}
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
		repository: args[0], version: args[1], publish: publish, work: work,
		source: filepath.Join(work, "source"), dist: filepath.Join(args[0], "dist"),
	}
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"copy the last commit", r.checkout},
		{"commits and tags", r.tag},
		{"programs of users with the modules", r.useOutside},
		{"go install", r.install},
		{"programs, packages, chart", r.build},
		{"image", r.writeImages},
		{"list of what is in them", r.sbom},
		{"checksums", r.checksums},
		{"start what was made", r.start},
		{"the next root with these modules", r.nextRoot},
		{"commits and tags into the repository", r.offer},
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

var language = regexp.MustCompile(`(?m)^go (\d+\.\d+\.\d+)$`)

func (r *release) checkout(ctx context.Context) error {
	if changed, err := output(ctx, r.repository, nil, "git", "status", "--porcelain"); err != nil || changed != "" {
		if r.publish {
			return fmt.Errorf("there are changes that are not committed: %s%w", changed, err)
		}
		fmt.Println("   without the changes that are not committed")
	}
	if said, err := output(ctx, r.repository, nil, "git", "grep", "-n", "-e", "is no release yet", "-e", "are no published packages", "--", "*.md"); err == nil && r.publish {
		return fmt.Errorf("these sentences will not be true; take them out, and commit:\n%s", said)
	}
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
	module, err := os.ReadFile(filepath.Join(r.source, "go.mod"))
	if err != nil {
		return err
	}
	line := language.FindSubmatch(module)
	if line == nil {
		return errors.New("go.mod has no line such as go 1.26.0")
	}
	r.language = string(line[1])
	return nil
}
