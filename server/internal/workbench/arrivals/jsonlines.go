// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package arrivals

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
)

var errJSON = errors.New("no object of JSON with the fields of the format")

// jsonLines reads an object in each line.
type jsonLines struct {
	*layout
	caddy, decisions bool
	timed            bool // an option names the time
	cells            []string
	clients          []string // the names of the client's field, unless the layout has it
	late             error    // names a field of an option that no object of the first lines has; nil if there is none
}

// object is an object whose values are not read yet.
type object map[string]json.RawMessage

// detectJSON finds the fields by the first lines, and fields that options name and the client in
// later lines, too. Those of objects have the names on the way to them, joined by dots.
func detectJSON(format string, sample []string, o Options) (p parser, err error) {
	j := &jsonLines{caddy: format == "caddy", decisions: format == "decisions", timed: o.Time != ""}
	all := object{}
	for _, line := range sample {
		_ = json.Unmarshal([]byte(line), &all) // adds to it, unless the line is broken
	}
	var names []string
	all.walk("", func(name string) { names = append(names, name) })
	has := func(name string) bool { return slices.Contains(names, name) }
	if len(names) == 0 || j.caddy && !has("request.uri") || j.decisions && !(has("v") && has("verdict") && has("rules")) {
		return nil, errJSON
	}
	for range 4 { // each of three options may name a field of later lines
		var missing *columnError
		if j.layout, err = newLayout(names, o); !errors.As(err, &missing) || missing.name == "" {
			break
		}
		j.late, names = cmp.Or(j.late, err), append(names, missing.name)
	}
	if err != nil {
		return nil, cmp.Or(j.late, err)
	}
	if !slices.Contains(j.kinds, kindClient) {
		j.clients = strings.Fields(kinds[kindClient])
	}
	return j, nil
}

// walk visits the names of all fields, in alphabetical order.
func (o object) walk(under string, visit func(name string)) {
	for _, name := range slices.Sorted(maps.Keys(o)) {
		visit(under + name)
		var inner object
		if o[name][0] == '{' && json.Unmarshal(o[name], &inner) == nil {
			inner.walk(under+name+".", visit)
		}
	}
}

// field returns the value of a field as text: a string, or the only one of a list, without its
// quotes, and any other value as it is written.
func (o object) field(path string) string {
	raw, ok := o[path]
	if name, rest, dot := strings.Cut(path, "."); !ok && dot {
		var inner object
		if json.Unmarshal(o[name], &inner) == nil {
			return inner.field(rest)
		}
	}
	var text string
	var list []string
	switch {
	case len(raw) > 0 && raw[0] == '"' && json.Unmarshal(raw, &text) == nil:
		return text
	case len(raw) > 0 && raw[0] == '[' && json.Unmarshal(raw, &list) == nil && len(list) == 1:
		return list[0]
	case string(raw) == "null":
		return ""
	}
	return string(raw)
}

func (j *jsonLines) parse(line string, a *Arrival) (bool, error) {
	var of object
	if json.Unmarshal([]byte(line), &of) != nil || of == nil {
		return false, errJSON
	}
	j.cells = append(j.cells[:0], make([]string, len(j.names))...)
	for i, name := range j.names {
		if j.kinds[i] != other || i == j.time || i == j.key || i == j.cost {
			j.cells[i] = of.field(name)
		}
	}
	if j.decisions && j.cells[j.time] == "" { // nothing was decided
		j.cells[j.time] = of.field("time")
	}
	if err := j.fill(a, j.cells); err != nil {
		return false, err
	}
	for i := 0; i < len(j.clients) && a.Has&Client == 0; i++ {
		a.set(kindClient, of.field(j.clients[i]))
	}
	if j.caddy { // its line is written at the end
		a.At = max(a.At-a.Took.Microseconds(), 0)
	}
	if j.decisions {
		a.Has &^= Query
		if a.Record = new(Record); json.Unmarshal([]byte(line), a.Record) != nil || string(of["v"]) != "1" {
			return false, errJSON
		}
	}
	return true, nil
}
