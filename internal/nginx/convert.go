// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package nginx turns the request limits of an nginx configuration, or of an
// Ingress for ingress-nginx, into sluice's file. Quotas, bursts and delays are
// kept exactly as nginx counts them; what cannot be kept is noted line by line.
//
// For each location it finds what nginx's phases do with a request there, in their
// order: rewrite of the server, find location, rewrite of the location, limits,
// try_files, error_page. Locations whose requests have the same limits in the end
// become a rule.
package nginx

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// MaxBytes is how long all files together may be that Convert reads.
const MaxBytes = 16 << 20

// File is one file of a configuration.
type File struct {
	Name, Text string
	// Part has the file read only where another one includes it.
	Part bool
}

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

// Convert reads the files of an nginx configuration, or what nginx -T prints, or a
// file of Ingress objects in YAML, and returns the rules as sluice's file has them,
// and notes in the order of their lines. An include of a file that is not among
// files is noted. A configuration that cannot be read at all is a [*SyntaxError].
// Check says what is wrong with a file of ours: a rule that it finds fault with is
// left out.
func Convert(files []File, check func(yaml []byte) (problems []string)) (yaml []byte, notes []Note, err error) {
	c := &converter{
		check: check, noted: map[Note]bool{}, names: map[string]bool{}, again: map[string]int{},
		zones: map[string]*zone{}, tables: map[string]*directive{},
	}
	bytes := 0
	parts := slices.DeleteFunc(slices.Clone(files), func(f File) bool { return !f.Part })
	for _, f := range append(slices.DeleteFunc(slices.Clone(files), func(f File) bool { return f.Part }), parts...) {
		if bytes += len(f.Text); bytes > MaxBytes {
			return nil, nil, &SyntaxError{f.Name, 1, fmt.Sprintf("more than %d bytes; convert a part of it", MaxBytes)}
		}
		c.files = append(c.files, printed(File{f.Name, strings.ToValidUTF8(f.Text, "\uFFFD"), f.Part})...)
	}
	if len(c.files) == 0 {
		return nil, nil, fmt.Errorf("nginx: no files: %w", ErrNoLimits)
	}
	if len(c.files) == 1 && ingressKind.MatchString(c.files[0].Text) {
		err = c.ingresses(c.files[0])
	} else {
		err = c.configuration()
	}
	if err == nil {
		yaml, err = c.checked()
	}
	slices.SortStableFunc(c.notes, func(a, b Note) int {
		return cmp.Or(c.order(a.File)-c.order(b.File), a.Line-b.Line, strings.Compare(a.Text, b.Text))
	})
	return yaml, c.notes, err
}

// order returns the place of a file among the files.
func (c *converter) order(name string) int {
	return slices.IndexFunc(c.files, func(f File) bool { return f.Name == name })
}

// checked returns the rules as a file, without those that are not valid there.
func (c *converter) checked() ([]byte, error) {
	c.rules = slices.DeleteFunc(c.rules, func(r rule) bool {
		return !c.valid(r.origin[0], []rule{r}, "not kept: ")
	})
	if len(c.rules) == 0 {
		return nil, fmt.Errorf("nginx: %s: %w", c.files[0].Name, ErrNoLimits)
	}
	yaml := c.write(c.rules)
	for _, problem := range c.check(yaml) {
		c.note(nil, "the rules together: %s", problem)
	}
	return yaml, nil
}

// valid notes what is wrong with rules alone.
func (c *converter) valid(d *directive, rules []rule, prefix string) bool {
	alone := converter{files: c.files}
	problems := c.check(alone.write(rules))
	for _, problem := range problems {
		c.note(d, "%s%s", prefix, problem)
	}
	return len(problems) == 0
}

// converter gathers rules and notes.
type converter struct {
	files   []File
	check   func(yaml []byte) (problems []string)
	notes   []Note
	noted   map[Note]bool
	zones   map[string]*zone
	rules   []rule
	names   map[string]bool       // of rules
	again   map[string]int        // how often a name was taken already
	tables  map[string]*directive // geo and map blocks, by what they are and the variable that they set
	count   int                   // of directives that were read
	size    int                   // of files that were read, in bytes
	kind    string                // the directive that areas are being made of: limit_req or limit_conn
	areas   []area
	listens []listen
	routes  []route
	client  *client // nil until the first location that is limited
}

// note notes something about a directive; nil: about all.
func (c *converter) note(d *directive, format string, args ...any) {
	n := Note{File: c.files[0].Name, Text: fmt.Sprintf(format, args...)}
	if d != nil {
		n.File, n.Line = d.file, d.line
	}
	if !c.noted[n] {
		c.noted[n] = true
		c.notes = append(c.notes, n)
	}
}

func (c *converter) configuration() error {
	http, err := c.read()
	if err != nil {
		return err
	}
	servers := c.servers(http)
	c.bind(servers)
	c.survey(http.list)
	servers = c.gateway(http, servers)
	for _, c.kind = range []string{"limit_req", "limit_conn"} {
		c.fates(servers)
		c.hosts(servers)
		for _, s := range servers {
			c.group(s)
		}
		c.merge()
	}
	c.unknown(http.list)
	for _, s := range servers {
		if s.limited || s.routed {
			c.unknown(s.list)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.zones)) {
		if z := c.zones[name]; !z.used {
			c.note(z.at, "zone %s is used nowhere; left out", name)
		}
	}
	return nil
}
