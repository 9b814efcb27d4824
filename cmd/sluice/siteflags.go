// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// siteConfig is what the flags beside --config say.
type siteConfig struct {
	file      string
	overrides string // file; empty: in memory only
	audit     string // file; empty: standard error
	drain     time.Duration

	now func() time.Time // of the store; nil is the system's clock
}

// namesFile reports whether the flags of serve name a configuration file.
func namesFile(args []string) bool {
	return slices.ContainsFunc(args, func(arg string) bool {
		name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		return strings.HasPrefix(arg, "-") && name == "config"
	})
}

// parseSite reads the flags of serve --config. The error joins all faults, or is
// errHelp.
func parseSite(args []string) (siteConfig, error) {
	c := siteConfig{drain: 30 * time.Second}
	fs := flag.NewFlagSet("serve", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	fs.StringVar(&c.file, "config", "", "")
	fs.StringVar(&c.overrides, "overrides", "", "")
	fs.StringVar(&c.audit, "audit", "", "")
	fs.DurationVar(&c.drain, "drain", c.drain, "")
	err := fs.Parse(args)
	var faults []error
	switch {
	case errors.Is(err, flag.ErrHelp):
		return c, errHelp
	case err != nil && strings.HasPrefix(err.Error(), "flag provided but not defined: -"):
		name := strings.TrimPrefix(err.Error(), "flag provided but not defined: -")
		faults = append(faults, fmt.Errorf("--%s: does not go with --config: write it into the file; only --overrides, --audit and --drain do", name))
	case err != nil:
		faults = append(faults, fmt.Errorf("%w; see sluice serve --help", err))
	case fs.NArg() > 0:
		faults = append(faults, fmt.Errorf("%q: is not a flag; see sluice serve --help", fs.Arg(0)))
	case c.file == "":
		faults = append(faults, errors.New("--config: names no file; write for example sluice.yaml"))
	}
	if c.drain < 0 || c.drain > 24*time.Hour {
		faults = append(faults, fmt.Errorf("--drain %v: is not a duration from 0s to 24h; write for example 30s", c.drain))
	}
	return c, errors.Join(faults...)
}
