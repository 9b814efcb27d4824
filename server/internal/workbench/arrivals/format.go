// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package arrivals

import (
	"errors"
	"fmt"
	"strings"
)

// parser reads the lines of one file. ok is false for lines that are not requests, such as
// comments.
type parser interface {
	parse(line string, a *Arrival) (ok bool, err error)
}

// Formats are the names of the formats, in the order in which they are tried.
var Formats = []string{"decisions", "caddy", "json", "zeek", "alb", "envoy", "combined", "common", "tsv", "csv", "blanks"}

var errComments = errors.New("no line #fields before it")

// open returns the parser of a format, for a file that begins with the lines of sample, and
// how it reads them.
func open(format string, sample []string, o Options) (p parser, reads string, err error) {
	t := &table{options: o, cut: fields}
	switch format {
	case "decisions", "caddy", "json":
		if p, err = detectJSON(format, sample, o); err == nil && format == "json" {
			j := p.(*jsonLines) //nolint:forcetypeassert // it is one
			format += ", time in " + j.names[j.time]
		}
		return p, format, err
	case "zeek":
		t.cut, t.zeek, t.err = separated('\t'), true, errComments
		if fits(format, t, sample); t.err != nil {
			return nil, format, t.err
		}
		return t, format, nil
	case "alb", "envoy", "combined", "common":
		if format == "combined" || format == "common" {
			t.cut = clfFields
		}
		t.layout, err = newLayout(strings.Fields(fixed[format].names), o)
		t.least, t.header = fixed[format].least, "\n" // no line equals it
		if wrong := new(columnError); errors.As(err, &wrong) {
			t.layout, _ = newLayout(strings.Fields(fixed[format].names), Options{})
			if !fits(format, t, sample) {
				err = errFields
			}
		}
		return t, format, err
	case "tsv", "csv", "blanks":
		by := map[string]byte{"tsv": '\t', "csv": ','}[format]
		if first := sample[comments(sample):]; format == "csv" && len(first) > 0 && strings.Count(first[0], ";") > strings.Count(first[0], ",") {
			by = ';'
		}
		if t.cut = separated(by); format == "blanks" {
			t.cut = func(cells []string, line string) []string { return append(cells, strings.Fields(line)...) }
		}
		if err = t.detect(sample); err != nil {
			return nil, format, err
		}
		if t.header == "" {
			t.header, format = "\n", format+" without a header"
		}
		return t, fmt.Sprintf("%s, time in column %d", format, t.time+1), nil
	}
	return nil, format, fmt.Errorf("--format %q: expected one of %s", format, strings.Join(Formats, ", "))
}

// detect finds the format of a file by its first lines: the first one that reads a third of
// them or more. The error says what is wrong with an option, or that no format fits.
func detect(sample []string, o Options) (p parser, reads string, err error) {
	if o.Format != "" {
		return open(o.Format, sample, o)
	}
	for _, format := range Formats {
		p, reads, oerr := open(format, sample, o)
		if wrong := new(columnError); errors.As(oerr, &wrong) && err == nil {
			err = oerr
		}
		if oerr == nil && fits(format, p, sample) {
			return p, reads, nil
		}
	}
	if err == nil {
		err = fmt.Errorf("most lines are of no format that is known: tried %s; name one with --format, and the column of the time with --time", strings.Join(Formats, ", "))
	}
	return nil, "", err
}

// fits reports whether a parser reads a third of the lines or more.
func fits(format string, p parser, sample []string) bool {
	good, all := 0, 0
	j, _ := p.(*jsonLines)
	for _, line := range sample {
		var a Arrival
		ok, err := p.parse(line, &a)
		if errors.Is(err, errKey) || errors.Is(err, errCost) || j != nil && j.timed && errors.Is(err, errTime) {
			ok, err = true, nil // the format is read, and the line lacks what an option names
		}
		if ok && err == nil && (format != "combined" || a.Has&(Agent|Referer) != 0 || strings.HasSuffix(line, `"-" "-"`)) {
			good++
		}
		if ok || err != nil {
			all++
		}
	}
	return good > 0 && 3*good >= all
}

// shorten returns the beginning of a text that is shown.
func shorten(s string) string {
	if len(s) <= 120 {
		return s
	}
	return strings.ToValidUTF8(s[:120], "") + "…"
}
