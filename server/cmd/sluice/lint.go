// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/config/cases"
	"github.com/sluicegate/sluice/internal/regular"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/server/internal/cli"
	"github.com/sluicegate/sluice/server/internal/lint"
	"github.com/sluicegate/sluice/server/internal/serve"
)

var lintCommand = cli.Command{
	Name: "lint", Args: "FILE", Summary: "check a configuration and explain it in plain words",
	Doc: "explains each rule of FILE and its worst case, and warns about settings without effect. FILE may be - for standard input. It exits with 1 if FILE has a fault or a case does not hold. A fault is also where serve would not start with a file that FILE names: keys, certificates, tokens.",
	Flags: []cli.Flag{
		{Name: "test", Value: "CASES", Repeat: true, Doc: "run the given-expect cases in CASES, on virtual time, instead of the explanation"},
		{Name: "strict", Doc: "exit with 1 on warnings, too"},
		{Name: "without-files", Doc: "do not check the files that FILE names, if they are not on this machine"},
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
			r.Warnings = append(r.Warnings, serve.FileWarnings(file)...)
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

var lintFormats = []string{"text", "json", "github"}

// lintReport is the result of lint.
type lintReport struct {
	File         string
	*lint.Report // nil if the file has faults
	Faults       []config.Fault
	Cases        []*cases.Results
}

// fault adds faults with their places. Any other error is a fault of the whole file.
func (r *lintReport) fault(err error) {
	if err == nil {
		return
	}
	if faults, ok := errors.AsType[config.Faults](err); ok {
		r.Faults = append(r.Faults, faults...)
		return
	}
	for line := range strings.Lines(err.Error()) {
		r.Faults = append(r.Faults, config.Fault{File: r.File, Problem: strings.TrimPrefix(strings.TrimSuffix(line, "\n"), r.File+": ")})
	}
}

// runCases runs a file of cases.
func (r *lintReport) runCases(ctx context.Context, c *config.Config, name string) {
	data, err := regular.ReadGiven(name, mostRead)
	if err != nil {
		r.Faults = append(r.Faults, config.Fault{File: name, Problem: err.Error()})
		return
	}
	results, err := cases.Run(ctx, c, name, data, func(now func() time.Time) sluice.Store {
		return memstore.New(memstore.Options{MaxKeys: 1 << 16, Now: now})
	})
	if err != nil {
		r.fault(err)
		return
	}
	r.Cases = append(r.Cases, results)
}

// ok reports whether there is no fault and all cases hold.
func (r *lintReport) ok() bool {
	failed := 0
	for _, results := range r.Cases {
		failed += results.Failed()
	}
	return len(r.Faults) == 0 && failed == 0
}

func (r *lintReport) write(c *cli.Call, format string) error {
	switch format {
	case "json":
		return c.JSON(r.doc())
	case "github":
		return c.Print(r.annotations())
	}
	var b strings.Builder
	switch {
	case r.Report == nil:
	case !c.Given("test"):
		if err := r.WriteText(&b); err != nil {
			return err
		}
	case c.Given("strict"): // warnings decide the exit code
		for _, w := range r.Warnings {
			b.WriteString(w.String() + "\n")
		}
	}
	for _, results := range r.Cases {
		if err := results.WriteText(&b); err != nil {
			return err
		}
	}
	var faults strings.Builder
	for _, f := range r.Faults {
		faults.WriteString(f.Error() + "\n")
	}
	_, err := io.WriteString(c.Stderr, faults.String())
	return cmp.Or(c.Print(b.String()), err)
}

// annotations returns the report as commands of a GitHub workflow:
// https://docs.github.com/actions/reference/workflow-commands-for-github-actions
func (r *lintReport) annotations() string {
	var b strings.Builder
	property := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	message := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	line := func(level, file string, line, column int, text string) {
		fmt.Fprintf(&b, "::%s file=%s", level, property.Replace(file))
		if line > 0 {
			fmt.Fprintf(&b, ",line=%d", line)
		}
		if column > 0 {
			fmt.Fprintf(&b, ",col=%d", column)
		}
		b.WriteString("::" + message.Replace(text) + "\n")
	}
	for _, f := range r.Faults {
		line("error", f.File, f.Line, f.Column, f.Problem)
	}
	for _, results := range r.Cases {
		for _, c := range results.Cases {
			for _, f := range c.Failures {
				line("error", f.File, f.Line, f.Column, c.Name+": "+f.Problem)
			}
		}
	}
	if r.Report != nil {
		for _, w := range r.Warnings {
			line("warning", w.File, w.Line, w.Column, w.Problem)
		}
		for _, h := range r.Hints {
			line("notice", h.File, h.Line, 0, h.Text)
		}
	}
	return b.String()
}

// lintDoc is a report as JSON.
type lintDoc struct {
	File      string         `json:"file"`
	Version   string         `json:"version,omitempty"` // only of a file without faults
	OK        bool           `json:"ok"`
	Faults    []placeDoc     `json:"faults"`
	Warnings  []lint.Warning `json:"warnings"`
	Hints     []lint.Hint    `json:"hints"`
	Listeners []lint.Words   `json:"listeners"`
	Rules     []lint.Words   `json:"rules"`
	Cases     []caseDoc      `json:"cases"`
}

type placeDoc struct {
	File   string `json:"file"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
	Text   string `json:"text"`
}

type caseDoc struct {
	File     string     `json:"file"`
	Name     string     `json:"name"`
	Line     int        `json:"line"`
	OK       bool       `json:"ok"`
	Failures []placeDoc `json:"failures"`
}

func (r *lintReport) doc() lintDoc {
	d := lintDoc{File: r.File, OK: r.ok(), Faults: places(r.Faults), Warnings: []lint.Warning{}, Hints: []lint.Hint{}, Listeners: []lint.Words{}, Rules: []lint.Words{}, Cases: []caseDoc{}}
	for _, results := range r.Cases {
		for _, c := range results.Cases {
			d.Cases = append(d.Cases, caseDoc{results.File, c.Name, c.Line, len(c.Failures) == 0, places(c.Failures)})
		}
	}
	if l := r.Report; l != nil {
		d.Version, d.Warnings, d.Hints = l.Version, append(d.Warnings, l.Warnings...), append(d.Hints, l.Hints...)
		d.Listeners, d.Rules = append(d.Listeners, l.Listeners...), append(d.Rules, l.Rules...)
	}
	return d
}

func places(faults []config.Fault) []placeDoc {
	docs := make([]placeDoc, len(faults))
	for i, f := range faults {
		docs[i] = placeDoc{File: f.File, Line: f.Line, Column: f.Column, Text: f.Problem}
	}
	return docs
}
