// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package config reads the rules of a sluice file into a Go program, which puts them
// around its own handler. The file is that of sluice serve (docs/configuration.md);
// its listeners, upstreams, stores and logs are checked, and left to the program.
//
//	rules:
//	  - name: login
//	    match: {method: POST, path: /login}
//	    by: ip
//	    limits: 5/min
//
// Reading is strict: an unknown key, a rule that can never match and a name used
// twice are faults. All faults of a file are reported at once. The commands sluice
// lint and sluice lint --test say what the rules do, and try them on virtual time.
package config

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/sluicegate/sluice/internal/config"
	"github.com/sluicegate/sluice/policy"
)

// Config is what a file says of rules and clients. It is not changed once returned,
// and may be used concurrently if no caller changes it.
type Config struct {
	// Version is 12 hexadecimal digits, equal for files of equal bytes.
	Version string
	// Policy has the rules.
	Policy *policy.Policy
	// Trusted are the proxies whose ClientHeader is trusted, from client_ip.
	Trusted []netip.Prefix
	// ClientHeader names the header field with the client's address; empty:
	// X-Forwarded-For.
	ClientHeader string
	// ClientHops is how many addresses from the right of that field the client's is,
	// from 1; zero: Trusted says it.
	ClientHops int
	// Allow are the networks whose clients are let in; none: all. Clients of Deny are
	// refused even if Allow has them.
	Allow, Deny []netip.Prefix
}

// Fault is one thing that is wrong with a file.
type Fault struct {
	File         string // its name, as given
	Line, Column int    // from 1; zero if it is the file as a whole
	Problem      string // what is wrong, and what to write instead
}

// String returns FILE:LINE:COLUMN: and the problem; without the parts that are zero.
func (f Fault) String() string {
	switch {
	case f.Line == 0:
		return f.File + ": " + f.Problem
	case f.Column == 0:
		return fmt.Sprintf("%s:%d: %s", f.File, f.Line, f.Problem)
	}
	return fmt.Sprintf("%s:%d:%d: %s", f.File, f.Line, f.Column, f.Problem)
}

// FileError says all that is wrong with a file, by place.
type FileError struct{ Faults []Fault }

// Error returns all faults, a line each.
func (e *FileError) Error() string {
	lines := make([]string, len(e.Faults))
	for i, f := range e.Faults {
		lines[i] = f.String()
	}
	return strings.Join(lines, "\n")
}

// Load reads a file of at most 32 MiB. A file that cannot be read is an error of
// package os; one with faults is a [*FileError].
func Load(name string) (*Config, error) { return of(config.Load(name)) }

// Parse reads what a file of that name holds. Its error is a [*FileError].
func Parse(name string, data []byte) (*Config, error) { return of(config.Parse(name, data)) }

func of(c *config.Config, err error) (*Config, error) {
	if err != nil {
		var faults config.Faults
		if !errors.As(err, &faults) {
			return nil, err
		}
		e := &FileError{Faults: make([]Fault, len(faults))}
		for i, f := range faults {
			e.Faults[i] = Fault(f)
		}
		return nil, e
	}
	return &Config{
		Version: c.Version, Policy: c.Policy, Allow: c.Allow, Deny: c.Deny,
		Trusted: c.ClientIP.Trusted, ClientHeader: c.ClientIP.Header, ClientHops: int(c.ClientIP.Hops),
	}, nil
}
