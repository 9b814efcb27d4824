// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package nginx turns the request limits of an nginx configuration, or of an
// Ingress for ingress-nginx, into sluice's file. Quotas, bursts and delays are
// kept exactly as nginx counts them; what cannot be kept is noted line by line.
package nginx

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// MaxBytes is the largest configuration that Convert reads.
const MaxBytes = 16 << 20

// Note is something of the configuration that sluice's file does not keep, or
// that a reader should know.
type Note struct {
	File string
	Line int // from 1; 0 if it is about the file as a whole
	Text string
}

// String returns FILE:LINE: and the text.
func (n Note) String() string {
	if n.Line == 0 {
		return n.File + ": " + n.Text
	}
	return fmt.Sprintf("%s:%d: %s", n.File, n.Line, n.Text)
}

// SyntaxError is a configuration that cannot be read.
type SyntaxError struct {
	File    string
	Line    int
	Problem string
}

// Error returns FILE:LINE: and the problem.
func (e *SyntaxError) Error() string { return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Problem) }

// ErrNoLimits is what Convert returns, with its notes, for a configuration from
// which no limit could be taken.
var ErrNoLimits = errors.New("no limit that can be converted")

// Convert reads an nginx configuration, or Ingress objects in YAML, and returns
// the rules as sluice's file has them, and notes in the order of their lines.
// Files that are included are not read but noted. A configuration that cannot
// be read at all is a [*SyntaxError]. The name is for notes and errors. Check says
// what is wrong with a file of ours: a rule that it finds fault with is left out.
func Convert(r io.Reader, name string, check func(yaml []byte) (problems []string)) (yaml []byte, notes []Note, err error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxBytes+1))
	if err != nil {
		return nil, nil, fmt.Errorf("nginx: read %s: %w", name, err)
	}
	if len(data) > MaxBytes {
		return nil, nil, &SyntaxError{name, 1, fmt.Sprintf("more than %d bytes; convert a part of it", MaxBytes)}
	}
	c := &converter{
		file: name, check: check, noted: map[Note]bool{},
		zones: map[string]*zone{}, tables: map[string]*directive{},
		names: map[string]bool{}, again: map[string]int{},
	}
	text := strings.ToValidUTF8(string(data), "\uFFFD")
	if ingressKind.MatchString(text) {
		err = c.ingresses(text)
	} else {
		err = c.configuration(text)
	}
	if err == nil {
		yaml, err = c.checked()
	}
	slices.SortStableFunc(c.notes, func(a, b Note) int { return cmp.Compare(a.Line, b.Line) })
	return yaml, c.notes, err
}

// checked returns the rules as a file, without those that are not valid there.
func (c *converter) checked() ([]byte, error) {
	c.rules = slices.DeleteFunc(c.rules, func(r rule) bool {
		return !c.valid(r.origin[0], []rule{r}, "not kept: ")
	})
	if len(c.rules) == 0 {
		return nil, fmt.Errorf("nginx: %s: %w", c.file, ErrNoLimits)
	}
	c.valid(0, c.rules, "the rules together: ")
	return c.write(c.rules), nil
}

// valid notes what is wrong with rules.
func (c *converter) valid(line int, rules []rule, prefix string) bool {
	problems := c.check(c.write(rules))
	for _, problem := range problems {
		c.note(line, "%s%s", prefix, problem)
	}
	return len(problems) == 0
}

// converter gathers rules and notes.
type converter struct {
	file    string
	check   func(yaml []byte) (problems []string)
	notes   []Note
	noted   map[Note]bool
	zones   map[string]*zone
	rules   []rule
	names   map[string]bool       // of rules
	again   map[string]int        // how often a name was taken already
	tables  map[string]*directive // geo and map blocks, by what they are and the variable that they set
	trusted []string              // proxies of set_real_ip_from
	header  string                // of real_ip_header
	realIP  *directive
	kind    string // the directive that areas are being made of: limit_req or limit_conn
	areas   []area
}

func (c *converter) note(line int, format string, args ...any) {
	n := Note{c.file, line, fmt.Sprintf(format, args...)}
	if !c.noted[n] {
		c.noted[n] = true
		c.notes = append(c.notes, n)
	}
}

func (c *converter) configuration(text string) error {
	tree, err := parse(c.file, text)
	if err != nil {
		return err
	}
	c.survey(tree)
	top := tree
	if http := find(tree, "http"); http != nil {
		top = http.block
	}
	for _, c.kind = range []string{"limit_req", "limit_conn"} {
		c.server(top)
		c.merge()
	}
	for _, name := range slices.Sorted(maps.Keys(c.zones)) {
		if z := c.zones[name]; !z.used {
			c.note(z.line, "zone %s is used nowhere in this file; left out", name)
		}
	}
	return nil
}
