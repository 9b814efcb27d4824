// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package arrivals

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Formats are the names of the formats, in the order in which they are tried.
var Formats = []string{"decisions", "caddy", "json", "zeek", "alb", "envoy", "combined", "common", "tsv", "csv", "blanks"}

// open returns the parser of a format, for a file that begins with the lines of sample. The
// error says why the lines are not of the format.
func open(format string, sample []string, o Options) (p parser, err error) {
	text := []column{colClient, colMethod, colTarget, colRequest, colStatus, colWritten}
	full := append(text, colHost, colRead, colAgent) //nolint:gocritic // another list
	var columns *chosen
	switch format {
	case "decisions":
		return &decisionLog{o}, nil
	case "caddy":
		return &caddyLog{o}, nil
	case "json":
		j, err := detectJSON(sample, o)
		if err != nil {
			return nil, err
		}
		return j, nil
	case "zeek":
		return &table{separator: '\t', zeek: true, options: o, err: errors.New("no #fields before it")}, nil
	case "alb":
		columns, err = choose(o, format, full...)
		return &albLog{columns: columns}, err
	case "envoy":
		columns, err = choose(o, format, full...)
		return &envoyLog{columns: columns}, err
	case "combined":
		columns, err = choose(o, format, append(text, colAgent, colReferer)...)
		return &commonLog{combined: true, columns: columns}, err
	case "common":
		columns, err = choose(o, format, text...)
		return &commonLog{columns: columns}, err
	case "tsv":
		return detectTable('\t', sample, o)
	case "csv":
		separator := byte(',')
		if len(sample) > 0 && strings.Count(sample[0], ";") > strings.Count(sample[0], ",") {
			separator = ';'
		}
		return detectTable(separator, sample, o)
	case "blanks":
		return detectTable(' ', sample, o)
	}
	return nil, fmt.Errorf("--format %q: expected one of %s", format, strings.Join(Formats, ", "))
}

// detect finds the format of a file by its first lines: the first one that reads half of them
// or more.
func detect(sample []string, o Options) (format string, p parser, err error) {
	if o.Format != "" {
		p, err = open(o.Format, sample, o)
		return o.Format, p, err
	}
	var best error
	for _, format := range Formats {
		p, err := open(format, sample, o)
		if t, ok := p.(*table); ok && t.zeek && !fits(format, p, sample) {
			p, err = nil, t.err
		}
		wrong := new(columnError)
		switch {
		case best == nil && errors.As(err, &wrong) && (p == nil || fits(format, p, sample)):
			best = err // an option is wrong, not the format
		case err == nil && fits(format, p, sample):
			p, err = open(format, sample, o) // as at the start of the file
			return format, p, err
		}
	}
	if best == nil {
		best = fmt.Errorf("most lines are of no format that is known: tried %s; name one with --format, and the column of the time with --time", strings.Join(Formats, ", "))
	}
	return "", nil, best
}

// fits reports whether a parser reads half of the lines or more.
func fits(format string, p parser, sample []string) bool {
	good, all := 0, 0
	for _, line := range sample {
		var a Arrival
		ok, err := p.parse(line, &a)
		if ok && err == nil && (format != "combined" || a.Has&Agent != 0) {
			good++
		}
		if ok || err != nil {
			all++
		}
	}
	return good > 0 && 2*good >= all
}

// shorten returns the beginning of a text that is shown.
func shorten(s string) string {
	const most = 120
	if len(s) <= most {
		return s
	}
	s = s[:most]
	for i := 0; i < utf8.UTFMax && len(s) > 0 && !utf8.ValidString(s[len(s)-1:]); i++ {
		s = s[:len(s)-1]
	}
	return s + "…"
}
