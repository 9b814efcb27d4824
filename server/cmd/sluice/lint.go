// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/server/internal/cli"
	"github.com/sluicegate/sluice/server/internal/lint"
	"github.com/sluicegate/sluice/server/internal/serve"
)

var lintCommand = cli.Command{
	Name: "lint", Args: "FILE", Summary: "check a configuration and explain it in plain words",
	Doc: "explains each rule of FILE and its worst case, and warns about settings without effect. FILE may be - for standard input. It exits with 1 if FILE has a fault or a case does not hold. A fault is also where serve would not start with a file that FILE names: keys, certificates, tokens.",
	Flags: []cli.Flag{
		{Name: "test", Value: "CASES", Repeat: true, Doc: "run the given-expect cases in CASES, on virtual time, in the place of the explanation"},
		{Name: "strict", Doc: "exit with 1 on warnings, too"},
		{Name: "without-files", Doc: "do not check the files that FILE names, where these are elsewhere"},
		{Name: "format", Value: "FORMAT", Words: lintFormats, Doc: "text, json, or github for annotations of a workflow (default text)"},
		{Name: "json", Doc: "as --format json"},
	},
	Run: runLint,
}

// runLint checks a configuration file.
func runLint(ctx context.Context, c *cli.Call) error {
	format := c.One("format")
	switch {
	case len(c.Args) != 1:
		return cli.Usagef("expected one file, got %d", len(c.Args))
	case format != "" && !slices.Contains(lintFormats, format):
		return cli.Usagef("--format %q: expected text, json or github", format)
	case c.Given("json") && format != "" && format != "json":
		return cli.Usagef("--json and --format %s exclude each other; give one", format)
	case c.Given("json"):
		format = "json"
	}
	name, data, err := readFile(c, c.Args[0])
	if err != nil {
		return err
	}
	r := lintReport{File: name}
	file, err := config.Parse(name, data)
	r.fault(err)
	if err == nil {
		r.Report = lint.Check(file, time.Now())
		if !c.Given("without-files") {
			r.fault(serve.CheckFiles(file))
		}
		for _, cases := range c.Values["test"] {
			r.runCases(ctx, file, cases)
		}
	}
	if err := r.write(c, format); err != nil {
		return fmt.Errorf("standard output: %w", err)
	}
	if !r.ok() || c.Given("strict") && r.Report != nil && len(r.Warnings) > 0 {
		return cli.ErrFailed
	}
	return nil
}
