// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/internal/spelling"
)

// errHelp is returned where arguments ask for help.
var errHelp = errors.New("help is asked for")

// splitArgs splits arguments into the values of flags, switches, which take none
// and have an empty one, and the rest, in any order. The error joins all faults,
// or is errHelp.
func splitArgs(args, switches []string, valued ...string) (values map[string][]string, rest []string, err error) {
	values = make(map[string][]string)
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	for i := 0; i < len(args); i++ {
		name, value, joined := strings.Cut(args[i], "=")
		flag := strings.TrimPrefix(strings.TrimPrefix(name, "-"), "-")
		next := i+1 < len(args) && !strings.HasPrefix(args[i+1], "-")
		switch {
		case !strings.HasPrefix(args[i], "-") || args[i] == "-":
			rest = append(rest, args[i])
		case flag == "help" || flag == "h":
			return nil, nil, errHelp
		case slices.Contains(switches, flag):
			on, err := strconv.ParseBool(value)
			if joined && err != nil {
				fault("--%s: takes no value but true or false", flag)
			}
			if on || !joined {
				values[flag] = append(values[flag], "")
			}
		case !slices.Contains(valued, flag):
			fault("%s: there is no such flag%s", name, suggest(flag, slices.Concat(valued, switches)))
			if next && !joined {
				i++ // most likely its value
			}
		case joined:
			values[flag] = append(values[flag], value)
		case i+1 == len(args):
			fault("--%s: lacks its value", flag)
		default:
			i++
			values[flag] = append(values[flag], args[i])
		}
	}
	return values, rest, errors.Join(faults...)
}

// suggest returns the flag that may have been meant.
func suggest(name string, flags []string) string {
	best := spelling.Nearest(name, slices.Values(flags))
	if best == "" {
		return ""
	}
	return "; did you mean --" + best
}

// The flags of serve.
var (
	besideFile = []string{"config", "overrides", "audit", "drain", "log-format", "log-level"}
	repeatable = []string{"limit", "by", "block", "trust", "admin-host"}
	ofServe    = slices.Concat([]string{"listen", "upstream", "admin", "fields", "state", "store", "failure", "like", "decision-log", "access-log"}, besideFile, repeatable)
	switches   = []string{"admin-public", "upstream-host", "print-config"}
)

var (
	logFormats = []string{"text", "json"}
	logLevels  = map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}
)

// logger returns what the program writes its own log to.
func (f *serveFlags) logger(w io.Writer) *slog.Logger {
	o := &slog.HandlerOptions{Level: f.level}
	if f.json() {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

// json reports whether the log is of JSON.
func (f *serveFlags) json() bool { return f.one("log-format") == "json" }

// serveFlags are the flags of serve.
type serveFlags struct {
	values map[string][]string
	drain  time.Duration
	level  slog.Level // of what is logged
	file   string     // that says what the flags do, without --config
	faults []error
}

func (f *serveFlags) fault(format string, args ...any) {
	f.faults = append(f.faults, fmt.Errorf(format, args...))
}

// given reports whether a flag is there.
func (f *serveFlags) given(name string) bool { return len(f.values[name]) > 0 }

// one returns the value of a flag, empty if it is not there.
func (f *serveFlags) one(name string) string { return last(f.values[name]) }

// parseServe reads the flags of serve. Without --config it returns what they
// say. The error joins all faults, one a line, or is errHelp.
func parseServe(args []string) (*serveFlags, *config.Config, error) {
	values, rest, err := splitArgs(args, switches, ofServe...)
	if errors.Is(err, errHelp) {
		return nil, nil, err
	}
	f := &serveFlags{values: values, drain: 30 * time.Second}
	if err != nil {
		f.faults = append(f.faults, err)
	}
	for _, word := range rest {
		f.fault("%q: is not a flag; every value has its flag before it, in quotes if it has spaces; see sluice serve --help", word)
	}
	for _, name := range ofServe {
		if len(values[name]) > 1 && !slices.Contains(repeatable, name) {
			f.fault("--%s: given twice; it has one value", name)
		}
	}
	if f.given("drain") {
		d, err := time.ParseDuration(f.one("drain"))
		if err != nil || d < 0 || d > 24*time.Hour {
			f.fault("--drain %q: is not a duration from 0s to 24h; write for example 30s", f.one("drain"))
		}
		f.drain = d
	}
	if f.given("log-format") && !slices.Contains(logFormats, f.one("log-format")) {
		f.fault("--log-format %q: write text or json", f.one("log-format"))
	}
	if f.given("log-level") {
		level, ok := logLevels[f.one("log-level")]
		if !ok {
			f.fault("--log-level %q: write debug, info, warn or error", f.one("log-level"))
		}
		f.level = level
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
			f.fault("--%s: does not go with --config: write it into the file; only --overrides, --audit, --drain, --log-format and --log-level do", name)
		}
	}
}
