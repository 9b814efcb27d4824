// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/internal/nginx"
	"github.com/sluicegate/sluice/internal/regular"
	"github.com/sluicegate/sluice/internal/serve"
	"github.com/sluicegate/sluice/memstore"
)

// usageError says what is wrong with a command, and how it is written.
func usageError(stderr io.Writer, err error, use string) int {
	if errors.Is(err, errHelp) {
		say(stderr, use)
		return exitOK
	}
	say(stderr, fmt.Sprintf("sluice: %v; write\n%s", err, use))
	return exitUsage
}

const lintUsage = `  sluice lint FILE [--test CASES]... [--without-files]

says every rule of FILE in plain words with its worst case, and what makes no
sense; with --test it runs the given-expect cases in CASES, on virtual time. It
exits with 1 if FILE has a fault or a case does not hold. A fault is also where
serve would not start with a file that FILE names: keys, certificates, tokens.
Where these are not, as in a test run elsewhere, --without-files passes over them.
`

// runLint checks configuration files.
func runLint(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	const passOver = "without-files"
	values, rest, err := splitArgs(args, []string{passOver}, "test")
	if err == nil && len(rest) != 1 {
		err = fmt.Errorf("lint: names %d files, and needs one", len(rest))
	}
	if err != nil {
		return usageError(stderr, err, lintUsage)
	}
	c, err := config.Load(rest[0])
	if err != nil {
		say(stderr, err.Error()+"\n")
		return exitFailed
	}
	if err := config.Lint(c, time.Now()).WriteText(stdout); err != nil {
		return ended(stderr, fmt.Errorf("standard output: %w", err))
	}
	code := exitOK
	if values[passOver] == nil {
		if err := serve.CheckFiles(c); err != nil {
			say(stderr, err.Error()+"\n")
			code = exitFailed
		}
	}
	for _, name := range values["test"] {
		ok, err := runCases(ctx, c, name, stdout)
		if err != nil {
			say(stderr, err.Error()+"\n")
		}
		if err != nil || !ok {
			code = exitFailed
		}
	}
	return code
}

func runCases(ctx context.Context, c *config.Config, name string, stdout io.Writer) (ok bool, err error) {
	data, err := config.Read(name)
	if err != nil {
		return false, err
	}
	results, err := config.RunCases(ctx, c, name, data, func(now func() time.Time) sluice.Store {
		return memstore.New(memstore.Options{MaxKeys: 1 << 16, Now: now})
	})
	if err != nil {
		return false, err
	}
	if _, err := io.WriteString(stdout, "\n"); err != nil {
		return false, err
	}
	return results.Failed() == 0, results.WriteText(stdout)
}

const convertUsage = `  sluice convert nginx FILE

writes the request limits of an nginx configuration, or of Ingress objects for
ingress-nginx, as rules of sluice's file to standard output. What cannot be kept
is noted on standard error, line by line. FILE may be - for standard input. It
exits with 1 if FILE cannot be read or has no limit.
`

// runConvert turns other programs' configurations into sluice's.
func runConvert(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	_, rest, err := splitArgs(args, nil)
	if err == nil && (len(rest) != 2 || rest[0] != "nginx") {
		err = errors.New("convert: needs a kind, which is nginx, and a file")
	}
	if err != nil {
		return usageError(stderr, err, convertUsage)
	}
	name, from := rest[1], stdin
	if name == "-" {
		name = "standard input"
	} else {
		f, err := regular.OpenGiven(name)
		if err != nil {
			return ended(stderr, err)
		}
		defer f.Close() //nolint:errcheck // it was only read
		from = f
	}
	yaml, notes, err := nginx.Convert(from, name, problemsOf)
	for _, note := range notes {
		say(stderr, note.String()+"\n")
	}
	if err == nil {
		_, err = stdout.Write(yaml)
	}
	return ended(stderr, err)
}

// problemsOf says what is wrong with a file of rules.
func problemsOf(yaml []byte) (problems []string) {
	_, err := config.Parse("", yaml)
	if faults, ok := errors.AsType[config.Faults](err); ok {
		for _, f := range faults {
			problems = append(problems, f.Problem)
		}
	}
	return problems
}
