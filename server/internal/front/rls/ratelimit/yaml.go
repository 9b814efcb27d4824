// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package ratelimit

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// pair is a key of a mapping and its value.
type pair struct{ key, value *yaml.Node }

// enter resolves an alias and counts the node. It returns nil if n is nil, or once the file is
// too long: aliases of aliases can expand to far more than its size.
func (r *reader) enter(n *yaml.Node) *yaml.Node {
	for n != nil && n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n == nil || r.left < 0 {
		return nil
	}
	if r.left--; r.left < 0 {
		r.fault(n, "aliases make the file too long; use fewer")
		return nil
	}
	return n
}

// pairs returns the keys of a mapping. Those of a merge key stand before its own.
func (r *reader) pairs(n *yaml.Node) []pair {
	var own, merged []pair
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind == yaml.ScalarNode && plain(key) && key.Value == "<<" {
			merged = append(merged, r.merged(value)...)
			continue
		}
		k := r.enter(key)
		switch {
		case k == nil:
			return own
		case k.Kind != yaml.ScalarNode:
			r.fault(key, "config error, key is not of type string: a key is a list or a mapping; use one word")
		case resolve(k).kind != text:
			r.fault(key, "config error, key is not of type string: %s; put it in quotes", shorten(k.Value))
		default:
			if i := slices.IndexFunc(own, func(p pair) bool { return p.key.Value == k.Value }); i >= 0 {
				r.fault(key, "%q is on line %d already; remove one of them", shorten(k.Value), own[i].key.Line)
				continue
			}
			own = append(own, pair{k, value})
		}
	}
	for _, p := range merged {
		if !slices.ContainsFunc(own, func(o pair) bool { return o.key.Value == p.key.Value }) {
			own = append(own, p)
		}
	}
	return own
}

// merged returns the keys that a merge key brings: those of a mapping, or of a list of them.
func (r *reader) merged(n *yaml.Node) (all []pair) {
	at := n
	switch n = r.enter(n); {
	case n == nil:
	case n.Kind == yaml.MappingNode:
		return r.pairs(n)
	case n.Kind == yaml.SequenceNode:
		for _, item := range n.Content {
			if m := r.enter(item); m != nil && m.Kind == yaml.MappingNode {
				all = append(all, r.pairs(m)...)
			} else if m != nil {
				r.fault(item, "a merge key needs a mapping; use an alias of one")
			}
		}
	default:
		r.fault(at, "a merge key needs a mapping; use an alias of one")
	}
	return all
}

// scalarKind is the kind of a scalar.
type scalarKind uint8

const (
	text scalarKind = iota
	integer
	float
	boolean
	null
)

// scalar is a scalar as YAML 1.1 reads it.
type scalar struct {
	kind   scalarKind
	whole  int64 // of an integer; math.MinInt64 if it does not fit
	number float64
	truth  bool
}

var words = map[string]scalar{
	"": {kind: null}, "~": {kind: null}, "null": {kind: null}, "Null": {kind: null}, "NULL": {kind: null},
	".nan": {kind: float, number: math.NaN()}, ".NaN": {kind: float, number: math.NaN()}, ".NAN": {kind: float, number: math.NaN()},
}

func init() {
	for _, w := range []string{"y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"} {
		words[w] = scalar{kind: boolean, truth: true}
	}
	for _, w := range []string{"n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"} {
		words[w] = scalar{kind: boolean}
	}
	for _, w := range []string{".inf", ".Inf", ".INF"} {
		words[w], words["+"+w] = scalar{kind: float, number: math.Inf(1)}, scalar{kind: float, number: math.Inf(1)}
		words["-"+w] = scalar{kind: float, number: math.Inf(-1)}
	}
}

var floatForm = regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`)

// plain reports whether a scalar has neither quotes nor a tag.
func plain(n *yaml.Node) bool {
	return n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle|yaml.TaggedStyle) == 0
}

// resolve returns a scalar as YAML 1.1 reads it, with its yes and no.
func resolve(n *yaml.Node) scalar {
	tagged := n.Style&yaml.TaggedStyle != 0 && n.Tag != "!!str" && strings.HasPrefix(n.Tag, "!!")
	if !plain(n) && !tagged {
		return scalar{}
	}
	if s, ok := words[n.Value]; ok {
		return s
	}
	if strings.IndexByte("0123456789+-.", n.Value[0]) < 0 {
		return scalar{}
	}
	digits := strings.ReplaceAll(n.Value, "_", "")
	if v, err := strconv.ParseInt(digits, 0, 64); err == nil {
		return scalar{kind: integer, whole: v, number: float64(v)}
	}
	if v, err := strconv.ParseUint(digits, 0, 64); err == nil {
		return scalar{kind: integer, whole: math.MinInt64, number: float64(v)}
	}
	if floatForm.MatchString(digits) {
		if v, err := strconv.ParseFloat(digits, 64); err == nil {
			return scalar{kind: float, number: v}
		}
	}
	return scalar{}
}

// any returns a value of metadata.
func (r *reader) any(n *yaml.Node) any {
	if n = r.enter(n); n == nil {
		return nil
	}
	if n.Kind == yaml.MappingNode {
		values := make(map[string]any)
		for i := 0; i+1 < len(n.Content); i += 2 {
			if key := r.enter(n.Content[i]); key != nil && key.Kind == yaml.ScalarNode {
				values[key.Value] = r.any(n.Content[i+1])
			} else if key != nil {
				r.fault(n.Content[i], "error parsing metadata: a key is a list or a mapping; use one word")
			}
		}
		return values
	}
	if n.Kind == yaml.SequenceNode {
		values := make([]any, 0, len(n.Content))
		for _, item := range n.Content {
			values = append(values, r.any(item))
		}
		return values
	}
	switch s := resolve(n); s.kind {
	case integer, float:
		return s.number
	case boolean:
		return s.truth
	case null:
		return nil
	default:
		return n.Value
	}
}

// shorten returns a text of a file for an error.
func shorten(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
