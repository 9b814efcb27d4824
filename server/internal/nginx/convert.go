// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package nginx converts the request limits of an nginx configuration, or of an Ingress for
// ingress-nginx, into sluice's file. Quotas, bursts and delays are exactly nginx's; anything
// that cannot be kept is noted by line.
//
// For each location it follows a request through nginx's phases in order: rewrite of the
// server, find location, rewrite of the location, limits, try_files, error_page. Locations
// whose requests end up with the same limits become one rule.
package nginx

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// MaxBytes bounds the size of all files together.
const MaxBytes = 16 << 20

// File is one file of a configuration.
type File struct {
	Name, Text string
	// Part means that the file is read only if another one includes it.
	Part bool
}

// Note is about a part of the configuration that sluice's file does not keep, or that a reader
// should know.
type Note struct {
	File string `json:"file"`
	Line int    `json:"line,omitempty"` // from 1; 0 if it is about the whole file
	Text string `json:"text"`
}

// String returns FILE:LINE: and the text.
func (n Note) String() string {
	if n.Line == 0 {
		return n.File + ": " + n.Text
	}
	return fmt.Sprintf("%s:%d: %s", n.File, n.Line, n.Text)
}

// SyntaxError is the error of a configuration that cannot be read.
type SyntaxError struct {
	File    string
	Line    int
	Problem string
}

// Error returns FILE:LINE: and the problem.
func (e *SyntaxError) Error() string { return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Problem) }

// ErrNoLimits is returned by Convert, with its notes, for a configuration without a limit that
// can be converted.
var ErrNoLimits = errors.New("no limit that can be converted")

// Convert reads the files of an nginx configuration, the output of nginx -T, or a file of
// Ingress objects in YAML. It returns the rules in sluice's format, and notes in the order of
// their lines. An include of a file that is not among files is noted. A configuration that
// cannot be read is a [*SyntaxError]. Check returns the faults of a file in sluice's format: a
// rule with a fault is left out.
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

// order returns the index of a file.
func (c *converter) order(name string) int {
	return slices.IndexFunc(c.files, func(f File) bool { return f.Name == name })
}

// checked returns the rules as a file, without invalid ones.
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

// valid notes the faults of rules that are checked alone, and reports whether there are none.
func (c *converter) valid(d *directive, rules []rule, prefix string) bool {
	alone := converter{files: c.files}
	problems := c.check(alone.write(rules))
	for _, problem := range problems {
		c.note(d, "%s%s", prefix, problem)
	}
	return len(problems) == 0
}

// converter collects rules and notes.
type converter struct {
	files   []File
	check   func(yaml []byte) (problems []string)
	notes   []Note
	noted   map[Note]bool
	zones   map[string]*zone
	rules   []rule
	names   map[string]bool       // of rules
	again   map[string]int        // how often a name was taken
	tables  map[string]*directive // geo and map blocks, by kind and variable
	count   int                   // of directives read
	size    int                   // of files read, in bytes
	kind    string                // the directive of the current areas: limit_req or limit_conn
	areas   []area
	listens []listen
	routes  []route
	client  *client // nil until the first location with limits
}

// note adds a note about a directive, or about the whole file if d is nil.
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
