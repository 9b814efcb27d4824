// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/server/internal/cli"
)

// goesWithFile reports whether a flag may stand beside --config.
func goesWithFile(name string) bool {
	return slices.ContainsFunc(fileFlags, func(f cli.Flag) bool { return f.Name == name })
}

var (
	logFormats = []string{"text", "json"}
	logLevels  = map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}
)

// logger returns the logger of the program's own log.
func (f *serveFlags) logger(w io.Writer) *slog.Logger {
	o := &slog.HandlerOptions{Level: f.level}
	if f.json() {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

// json reports whether the log is in JSON.
func (f *serveFlags) json() bool { return f.One("log-format") == "json" }

// serveFlags are the flags of serve.
type serveFlags struct {
	cli.Values
	drain  time.Duration
	level  slog.Level // the lowest level that is logged
	file   string     // text of the file made of the flags, without --config
	faults []error
}

func (f *serveFlags) fault(format string, args ...any) {
	f.faults = append(f.faults, fmt.Errorf(format, args...))
}

// parseServe reads the flags of serve; err holds the faults found before. Without
// --config it returns their configuration. The error joins all faults, one a line.
func parseServe(values cli.Values, rest []string, err error) (*serveFlags, *config.Config, error) {
	f := &serveFlags{Values: values, drain: 30 * time.Second}
	if err != nil {
		f.faults = append(f.faults, err)
	}
	for _, word := range rest {
		f.fault("unexpected %q; every value has its flag before it, in quotes if it has spaces", word)
	}
	if f.Given("drain") {
		d, err := time.ParseDuration(f.One("drain"))
		if err != nil || d < 0 || d > 24*time.Hour {
			f.fault("--drain %q: is not a duration from 0s to 24h; use for example 30s", f.One("drain"))
		}
		f.drain = d
	}
	if f.Given("log-format") && !slices.Contains(logFormats, f.One("log-format")) {
		f.fault("--log-format %q: expected text or json", f.One("log-format"))
	}
	if f.Given("log-level") {
		level, ok := logLevels[f.One("log-level")]
		if !ok {
			f.fault("--log-level %q: expected debug, info, warn or error", f.One("log-level"))
		}
		f.level = level
	}
	var c *config.Config
	if f.Given("config") {
		f.checkBesideFile()
	} else {
		c = f.parse()
	}
	return f, c, errors.Join(f.faults...)
}

// checkBesideFile finds the flags that --config excludes.
func (f *serveFlags) checkBesideFile() {
	if f.One("config") == "" {
		f.fault("--config: expected a file, such as sluice.yaml")
	}
	for _, flag := range serveFlagTable() {
		if name := flag.Name; f.Given(name) && !goesWithFile(name) {
			f.fault("--%s: does not go with --config: write it into the file; only --overrides, --audit, --drain, --log-format and --log-level do", name)
		}
	}
}
