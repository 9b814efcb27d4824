// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/internal/spelling"
)

// errHelp is returned where the flags ask for help.
var errHelp = flag.ErrHelp

// What goes with --config, and what may be given more than once.
var (
	besideFile = []string{"config", "overrides", "audit", "drain"}
	repeatable = []string{"limit", "by", "trust", "admin-host"}
	ofServe    = append([]string{
		"listen", "upstream", "admin", "fields", "state", "store", "failure", "config", "overrides", "audit", "drain",
	}, repeatable...)
	switches = []string{"admin-public", "upstream-host", "print-config"}
)

// serveFlags are the flags of serve.
type serveFlags struct {
	values map[string][]string
	on     map[string]bool // of the switches
	drain  time.Duration
	file   string // that says what the flags do, without --config
	faults []error
}

func (f *serveFlags) fault(format string, args ...any) {
	f.faults = append(f.faults, fmt.Errorf(format, args...))
}

// given reports whether a flag is there.
func (f *serveFlags) given(name string) bool { return len(f.values[name]) > 0 || f.on[name] }

// one returns the value of a flag, empty if it is not there.
func (f *serveFlags) one(name string) string { return last(f.values[name]) }

// parseServe reads the flags of serve. What they say without --config is in the
// file, as [config.Parse] reads it. The error joins all faults, one a line, or is
// errHelp.
func parseServe(args []string) (*serveFlags, *config.Config, error) {
	f := &serveFlags{values: make(map[string][]string), on: make(map[string]bool), drain: 30 * time.Second}
	if err := f.read(args); err != nil {
		return nil, nil, err
	}
	if f.given("drain") {
		d, err := time.ParseDuration(f.one("drain"))
		if err != nil || d < 0 || d > 24*time.Hour {
			f.fault("--drain %q: is not a duration from 0s to 24h; write for example 30s", f.one("drain"))
		}
		f.drain = d
	}
	var c *config.Config
	if f.given("config") {
		f.checkBesideFile()
	} else {
		c = f.parse()
	}
	return f, c, errors.Join(f.faults...)
}

// checkBesideFile finds what does not go with --config.
func (f *serveFlags) checkBesideFile() {
	if f.one("config") == "" {
		f.fault("--config: names no file; write for example sluice.yaml")
	}
	for _, name := range slices.Concat(ofServe, switches) {
		if f.given(name) && !slices.Contains(besideFile, name) {
			f.fault("--%s: does not go with --config: write it into the file; only --overrides, --audit and --drain do", name)
		}
	}
}

// read parses args, going on behind each fault.
func (f *serveFlags) read(args []string) error {
	fs := flag.NewFlagSet("serve", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	for _, name := range switches {
		fs.BoolFunc(name, "", func(s string) error {
			on, err := strconv.ParseBool(s)
			f.on[name] = on
			return err
		})
	}
	for _, name := range ofServe {
		fs.Func(name, "", func(s string) error {
			if f.given(name) && !slices.Contains(repeatable, name) {
				f.fault("--%s: given twice; it has one value", name)
				return nil
			}
			f.values[name] = append(f.values[name], s)
			return nil
		})
	}
	for len(args) > 0 {
		err := fs.Parse(args)
		rest := fs.Args()
		if len(rest) == len(args) && err != nil { // it has not got by this one
			rest = rest[1:]
		}
		name, unknown := "", false
		if err != nil {
			name, unknown = strings.CutPrefix(err.Error(), "flag provided but not defined: -")
		}
		switch {
		case errors.Is(err, flag.ErrHelp):
			return errHelp
		case unknown:
			f.fault("--%s: there is no such flag%s; see sluice serve --help", name, suggest(name))
			if len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
				rest = rest[1:] // most likely its value
			}
		case err != nil:
			f.fault("%w; see sluice serve --help", err)
		case len(rest) > 0:
			f.fault("%q: is not a flag; every value has its flag before it, in quotes if it has spaces; see sluice serve --help", rest[0])
			rest = rest[1:]
		}
		args = rest
	}
	return nil
}

// suggest returns the flag that may have been meant.
func suggest(name string) string {
	best := spelling.Nearest(name, slices.Values(slices.Concat(ofServe, switches)))
	if best == "" {
		return ""
	}
	return "; did you mean --" + best
}
