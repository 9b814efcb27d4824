// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/sluicegate/sluice/internal/spelling"
)

var errHelp = errors.New("help is asked for")

func isHelp(arg string) bool {
	switch arg {
	case "--help", "-help", "-h":
		return true
	}
	return false
}

// parse splits arguments into the values of flags and the rest, in any order. The
// error is a [UsageError] with all faults, or errHelp.
func (c *Command) parse(args []string) (Values, []string, error) {
	values, rest, err := Parse(c.Flags, args)
	if err != nil && !errors.Is(err, errHelp) {
		err = &UsageError{err}
	}
	return values, rest, err
}

// Parse splits arguments into the values of flags and the rest, in any order. A flag
// is -NAME or --NAME, its value the next argument or behind a =. The error joins all
// faults.
func Parse(flags []Flag, args []string) (values Values, rest []string, err error) {
	values = make(Values)
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	for i := 0; i < len(args); i++ {
		arg, value, joined := strings.Cut(args[i], "=")
		name := strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-")
		next := i+1 < len(args) && !strings.HasPrefix(args[i+1], "-")
		f := named(flags, name)
		switch {
		case !strings.HasPrefix(arg, "-") || args[i] == "-":
			rest = append(rest, args[i])
			continue
		case isHelp(arg):
			return values, nil, errHelp
		case f == nil:
			fault("unknown flag %s%s", arg, suggest(name, flags))
			if next && !joined {
				i++ // most likely its value
			}
			continue
		case f.Value == "":
			on, err := strconv.ParseBool(value)
			if joined && err != nil {
				fault("--%s: expected no value, or true or false, got %q", name, value)
			}
			if joined && !on {
				continue
			}
			value = ""
		case joined:
		case i+1 == len(args):
			fault("--%s: expected a value: --%s %s", name, name, f.Value)
			continue
		default:
			i++
			value = args[i]
		}
		if len(values[name]) == 1 && !f.Repeat {
			fault("--%s: given twice; it has one value", name)
		}
		values[name] = append(values[name], value)
	}
	return values, rest, errors.Join(faults...)
}

func named(flags []Flag, name string) *Flag {
	for i := range flags {
		if flags[i].Name == name {
			return &flags[i]
		}
	}
	return nil
}

// suggest returns the flag that may have been meant.
func suggest(name string, flags []Flag) string {
	best := spelling.Nearest(name, func(yield func(string) bool) {
		for i := range flags {
			if !yield(flags[i].Name) {
				return
			}
		}
	})
	if best == "" {
		return ""
	}
	return "; did you mean --" + best
}
