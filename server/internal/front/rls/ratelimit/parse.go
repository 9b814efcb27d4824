// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package ratelimit

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/sluicegate/sluice/config"
)

// Bounds of the files.
const (
	maxBytes  = 32 << 20 // of one file
	maxNodes  = 100_000  // values, beyond as many as the file has bytes
	maxDepth  = 64       // of descriptors in each other
	maxFaults = 1000
)

// File is a file to be read.
type File struct {
	Name string
	Data []byte
}

// Parse reads files, each of which has the limits of a domain. With merge several may have the
// same domain. The error is [config.Faults] with all faults. The notes are about keys that have
// no effect where they stand; the service ignores them, too.
func Parse(files []File, merge bool) (c *Config, notes config.Faults, err error) {
	r := &reader{domains: make(map[string]*node)}
	for i := range files {
		r.file(&files[i], merge)
	}
	if len(r.faults) > 0 {
		return nil, r.notes, r.faults
	}
	return &Config{domains: r.domains}, r.notes, nil
}

// reader reads files and collects their faults.
type reader struct {
	domains map[string]*node
	name    string // of the file
	left    int    // how many more nodes may be read
	faults  config.Faults
	notes   config.Faults
}

func (r *reader) fault(n *yaml.Node, format string, args ...any) {
	r.add(&r.faults, n, format, args...)
}

func (r *reader) note(n *yaml.Node, format string, args ...any) { r.add(&r.notes, n, format, args...) }

func (r *reader) add(to *config.Faults, n *yaml.Node, format string, args ...any) {
	f := config.Fault{File: r.name, Problem: fmt.Sprintf(format, args...)}
	if n != nil {
		f.Line, f.Column = n.Line, n.Column
	}
	if *to = append(*to, f); len(*to) >= maxFaults {
		r.left = -1 // no more is read
	}
}

// file reads one file.
func (r *reader) file(f *File, merge bool) {
	r.name, r.left = f.Name, maxNodes+len(f.Data)
	from, notesFrom := len(r.faults), len(r.notes)
	defer func() {
		r.faults = append(r.faults[:from], sorted(r.faults[from:])...)
		r.notes = append(r.notes[:notesFrom], sorted(r.notes[notesFrom:])...)
	}()
	if len(f.Data) > maxBytes {
		r.fault(nil, "error loading config file: %d bytes; at most %d are read", len(f.Data), maxBytes)
		return
	}
	dec := yaml.NewDecoder(bytes.NewReader(f.Data))
	var doc yaml.Node
	if err := dec.Decode(&doc); err != nil && !errors.Is(err, io.EOF) {
		r.syntax(err)
		return
	}
	if more := (yaml.Node{}); dec.Decode(&more) == nil {
		r.note(&more, "a second document has no effect; a file has one")
	}
	var n *yaml.Node
	if doc.Kind == yaml.DocumentNode && len(doc.Content) == 1 {
		n = r.enter(doc.Content[0])
	}
	if n == nil || n.Kind == yaml.ScalarNode && resolve(n).kind == null {
		r.fault(nil, "config file cannot have empty domain; add domain: NAME")
		return
	}
	r.root(n, merge)
}

// syntax adds an error of the parser.
func (r *reader) syntax(err error) {
	f := config.Fault{File: r.name, Problem: "error loading config file: " + err.Error()}
	if at, ok := errors.AsType[*yaml.LoadError](err); ok {
		f.Line, f.Column, f.Problem = at.Mark.Line, at.Mark.Column, "error loading config file: "+at.Message
	}
	r.faults = append(r.faults, f)
}

// sorted returns faults by place, without duplicates.
func sorted(f config.Faults) config.Faults {
	slices.SortStableFunc(f, func(a, b config.Fault) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return slices.Compact(f)
}

// keys are the keys of a file, with the mapping in which each has its effect.
var keys = map[string]string{
	"domain": inFile, "descriptors": "",
	"key": inDescriptor, "value": inDescriptor, "rate_limit": inDescriptor, "shadow_mode": inDescriptor, "quota_mode": inDescriptor,
	"detailed_metric": inDescriptor, "value_to_metric": inDescriptor, "share_threshold": inDescriptor, "metadata": inDescriptor,
	"unit": inLimit, "requests_per_unit": inLimit, "unlimited": inLimit, "replaces": inLimit, "name": "",
	"limits": inLimit, "slots": inLimit, "ttl": inLimit, // extended
}

// The mappings of a file.
const (
	inFile       = "the file"
	inDescriptor = "a descriptor"
	inLimit      = "rate_limit"
	inReplaces   = "replaces"
)

// mapping reads a mapping by the readers of its keys.
func (r *reader) mapping(n *yaml.Node, where string, fields map[string]func(*yaml.Node)) bool {
	at := n
	if n = r.enter(n); n == nil {
		return false
	}
	if n.Kind != yaml.MappingNode {
		r.fault(at, "error loading config file: %s is %s; use keys and values", where, kindOf(n))
		return false
	}
	for _, p := range r.pairs(n) {
		belongs, known := keys[p.key.Value]
		read := fields[p.key.Value]
		switch {
		case !known:
			r.fault(p.key, "config error, unknown key '%s'; use %s", shorten(p.key.Value), strings.Join(allKeys(where), ", "))
		case read != nil:
			read(p.value)
		case slices.Contains(extended[:], p.key.Value): // the service refuses it
			r.fault(p.key, "%s has no effect in %s; move it into %s", p.key.Value, where, belongs)
		default:
			if belongs == "" {
				belongs = "another mapping"
			}
			r.note(p.key, "%s has no effect in %s; it belongs in %s", p.key.Value, where, belongs)
			r.misplaced(p.value)
		}
	}
	return true
}

// allKeys returns the keys that have an effect in a mapping.
func allKeys(where string) (all []string) {
	for key, in := range keys {
		if in == where || key == "descriptors" && where != inLimit && where != inReplaces || key == "name" && where != inFile && where != inDescriptor {
			all = append(all, key)
		}
	}
	slices.Sort(all)
	return all
}

// misplaced checks the value of a key without effect as the service does.
func (r *reader) misplaced(n *yaml.Node) {
	at := n
	switch n = r.enter(n); {
	case n == nil:
	case n.Kind == yaml.MappingNode:
		r.mapping(n, "another mapping", nil)
	case n.Kind == yaml.SequenceNode:
		r.list(n, func(item *yaml.Node) { r.mapping(item, "another mapping", nil) })
	case resolve(n).kind == float:
		r.fault(at, "error checking config: %s is a fraction; put it in quotes", shorten(n.Value))
	}
}

// list reads a list of mappings.
func (r *reader) list(n *yaml.Node, read func(*yaml.Node)) {
	at := n
	if n = r.enter(n); n == nil || n.Kind == yaml.ScalarNode && resolve(n).kind == null {
		return
	}
	if n.Kind != yaml.SequenceNode {
		r.fault(at, "error loading config file: %s is no list; begin each item with a dash", kindOf(n))
		return
	}
	for _, item := range n.Content {
		if m := r.enter(item); m != nil && m.Kind != yaml.MappingNode {
			r.fault(item, "config error, yaml file contains list of type other than map: %s; use keys and values", kindOf(m))
		} else if m != nil {
			read(item)
		}
	}
}

// scalarOf returns a scalar, or nil if it is none, or null.
func (r *reader) scalarOf(n *yaml.Node) (*yaml.Node, scalar) {
	at := n
	if n = r.enter(n); n == nil {
		return nil, scalar{}
	}
	if n.Kind != yaml.ScalarNode {
		r.fault(at, "error loading config file: %s where a value is due; use one word", kindOf(n))
		return nil, scalar{}
	}
	s := resolve(n)
	if s.kind == float {
		r.fault(at, "error checking config: %s is a fraction; put it in quotes", shorten(n.Value))
	}
	if s.kind == null || s.kind == float {
		return nil, s
	}
	return n, s
}

func (r *reader) text(into *string) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if v, _ := r.scalarOf(n); v != nil {
			*into = v.Value
		}
	}
}

func (r *reader) flag(into *bool) func(*yaml.Node) {
	return func(n *yaml.Node) {
		switch v, s := r.scalarOf(n); {
		case v == nil:
		case s.kind != boolean:
			r.fault(n, "error loading config file: %s is neither true nor false", kindOf(v))
		default:
			*into = s.truth
		}
	}
}

func (r *reader) number(into *uint32) func(*yaml.Node) {
	return func(n *yaml.Node) {
		switch v, s := r.scalarOf(n); {
		case v == nil:
		case s.kind != integer || s.whole < 0 || s.whole > math.MaxUint32:
			r.fault(n, "error loading config file: %s is no whole number from 0 to %d", kindOf(v), uint32(math.MaxUint32))
		default:
			*into = uint32(s.whole)
		}
	}
}

// root reads the mapping of a file.
func (r *reader) root(n *yaml.Node, merge bool) {
	var domain string
	var at, list *yaml.Node
	if !r.mapping(n, inFile, map[string]func(*yaml.Node){
		"domain":      func(v *yaml.Node) { at = v; r.text(&domain)(v) },
		"descriptors": func(v *yaml.Node) { list = v },
	}) {
		return
	}
	if domain == "" {
		r.fault(cmp.Or(at, n), "config file cannot have empty domain; add domain: NAME")
	}
	d := r.domains[domain]
	switch {
	case domain == "":
		d = &node{} // its faults are reported, too
	case d != nil && !merge:
		r.fault(at, "duplicate domain '%s' in config file; use one file for each domain, or merge them", shorten(domain))
		d = &node{}
	case d == nil:
		d = &node{}
		r.domains[domain] = d
	}
	if list != nil {
		r.descriptors(d, domain, list, 0)
	}
}

// descriptors reads a list of descriptors below parent.
func (r *reader) descriptors(parent *node, path string, list *yaml.Node, depth int) {
	if depth >= maxDepth {
		r.fault(list, "descriptors are nested %d deep; use at most %d levels", depth+1, maxDepth)
		return
	}
	r.list(list, func(n *yaml.Node) { r.descriptor(parent, path, n, depth) })
}

// descriptor reads one descriptor.
func (r *reader) descriptor(parent *node, path string, n *yaml.Node, depth int) {
	var key, value string
	var limit, below, metadata *yaml.Node
	child, l := &node{}, &Limit{File: r.name}
	r.mapping(n, inDescriptor, map[string]func(*yaml.Node){
		"key": r.text(&key), "value": r.text(&value),
		"rate_limit": func(v *yaml.Node) { limit = v }, "descriptors": func(v *yaml.Node) { below = v }, "metadata": func(v *yaml.Node) { metadata = v },
		"shadow_mode": r.flag(&l.Shadow), "quota_mode": r.flag(&l.Quota),
		"detailed_metric": r.flag(&child.detailed), "value_to_metric": r.flag(&child.valueToMetric), "share_threshold": r.flag(&child.share),
	})
	at := n
	for at.Kind == yaml.AliasNode {
		at = at.Alias
	}
	l.Line = at.Line
	if key == "" {
		r.fault(at, "descriptor has empty key; add key: NAME")
	}
	child.name, child.value = key, value
	if child.key = key; value != "" {
		child.key += "_" + value
	}
	l.Path = path + "." + child.key
	if !parent.add(child) && key != "" {
		r.fault(at, "duplicate descriptor composite key '%s'; remove one of them", shorten(l.Path))
	}
	if child.share && len(child.pattern) == 0 {
		r.fault(at, "share_threshold can only be used with wildcard values (containing '*'), but found key '%s'; remove it", shorten(child.key))
	}
	if v := r.enter(metadata); v != nil && !(v.Kind == yaml.ScalarNode && resolve(v).kind == null) {
		if v.Kind != yaml.MappingNode {
			r.fault(metadata, "error loading config file: metadata is %s; use keys and values", kindOf(v))
		} else {
			l.Metadata, _ = r.any(v).(map[string]any)
		}
	}
	if v := r.enter(limit); v != nil && !(v.Kind == yaml.ScalarNode && resolve(v).kind == null) && r.limit(l, v) {
		if child.limit = l; l.Slots.Cap > 0 {
			r.owner(at, child)
		}
	}
	if below != nil {
		r.descriptors(child, l.Path, below, depth+1)
	}
}

// limit reads a rate_limit into l.
func (r *reader) limit(l *Limit, n *yaml.Node) bool {
	var unit string
	var unitAt, replaces, limits, slots, ttl *yaml.Node
	if !r.mapping(n, inLimit, map[string]func(*yaml.Node){
		"unit":              func(v *yaml.Node) { unitAt = v; r.text(&unit)(v) },
		"requests_per_unit": r.number(&l.PerUnit), "unlimited": r.flag(&l.Unlimited), "name": r.text(&l.Name),
		"replaces": func(v *yaml.Node) { replaces = v },
		"limits":   func(v *yaml.Node) { limits = v }, "slots": func(v *yaml.Node) { slots = v }, "ttl": func(v *yaml.Node) { ttl = v },
	}) {
		return false
	}
	l.Unit = Unit(max(slices.Index(unitNames[:], strings.ToLower(unit)), 0))
	switch {
	case limits != nil || slots != nil || ttl != nil:
		r.extend(l, n, unitAt, limits, slots, ttl)
	case l.Unlimited && l.Unit != Unknown:
		r.fault(unitAt, "should not specify rate limit unit when unlimited; remove one of them")
	case !l.Unlimited && l.Unit == Unknown:
		r.fault(cmp.Or(unitAt, n), "invalid rate limit unit '%s'; use second, minute, hour, day, week, month or year", shorten(unit))
	}
	if replaces != nil {
		r.list(replaces, func(n *yaml.Node) {
			var name string
			r.mapping(n, inReplaces, map[string]func(*yaml.Node){"name": r.text(&name)})
			switch name {
			case "":
				r.fault(n, "should not have an empty replaces entry; add name: NAME")
			case l.Name:
				r.fault(n, "replaces should not contain name of same descriptor; remove it")
			}
			l.Replaces = append(l.Replaces, name)
		})
	}
	return true
}

// kindOf describes a node for an error.
func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	default:
		return fmt.Sprintf("%q", shorten(n.Value))
	}
}
