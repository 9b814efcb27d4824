// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/internal/wire"
)

// readers are ways in which servers read a parameter.
var readers = map[string]func(raw, name string) []string{
	"net/url": func(raw, name string) []string {
		values, _ := url.ParseQuery(raw)
		return values[name]
	},
	"ampersands":          func(raw, name string) []string { return leniently(strings.Split(raw, "&"), name, same) },
	"semicolons":          func(raw, name string) []string { return leniently(strings.FieldsFunc(raw, separates), name, same) },
	"up to a number sign": func(raw, name string) []string { return leniently(strings.Split(before(raw), "&"), name, same) },
	"semicolons, up to that": func(raw, name string) []string {
		return leniently(strings.FieldsFunc(before(raw), separates), name, same)
	},
	"without case": func(raw, name string) []string { return leniently(strings.Split(raw, "&"), name, strings.EqualFold) },
	"lists":        func(raw, name string) []string { return leniently(strings.Split(raw, "&"), name, listed) },
}

func same(key, name string) bool { return key == name }

// listed is roughly the way in which PHP reads names.
func listed(key, name string) bool {
	key, _, _ = strings.Cut(strings.TrimLeft(key, " "), "\x00")
	key, _, _ = strings.Cut(key, "[")
	return key == name
}

func separates(c rune) bool { return c == '&' || c == ';' }

func before(raw string) string {
	raw, _, _ = strings.Cut(raw, "#")
	return raw
}

// leniently keeps invalid escapes.
func leniently(pairs []string, name string, is func(key, name string) bool) (values []string) {
	for _, pair := range pairs {
		if key, value, _ := strings.Cut(pair, "="); pair != "" && is(wire.Unescape(key), name) {
			values = append(values, wire.Unescape(value))
		}
	}
	return values
}

// agree reports whether all readers find the same values.
func agree(raw, name string) bool {
	want := readers["net/url"](raw, name)
	for _, read := range readers {
		if !slices.Equal(read(raw, name), want) {
			return false
		}
	}
	return true
}

func TestQuery(t *testing.T) {
	for raw, want := range map[string][]string{
		"":                {},
		"q=1":             {"1"},
		"q=1&r&q=2":       {"1", "2"},
		"q":               {""},
		"%71=a+b%20c":     {"a b c"},
		"r=100%&q=1&s;t":  {"1"},
		"q=1&r#":          {"1"},
		"q=100%":          nil,
		"q=%zz":           nil,
		"q=1;r":           nil,
		"r;q=1":           nil,
		"q=1&r;q=1":       nil,
		"q=1#":            nil,
		"r#&q=1":          nil,
		"q#r":             nil,
		"r;q#s":           nil,
		"r=1#;q=2":        nil,
		"q=1&r#s&t&q=2":   nil,
		"qq=1%&r;qq&q%=1": {},
		"qq=1&aq=2&q_=3":  {},
		"Q=1":             nil,
		"q=1&Q=2":         nil,
		"q=1&+q=2":        nil,
		"%20q=2":          nil,
		"q[]=2":           nil,
		"q=1&q%5Ba%5D=2":  nil,
		"q=1&q%00x=2":     nil,
	} {
		got, ok := wire.AppendQuery(nil, raw, "q")
		if ok != (want != nil) || ok && !slices.Equal(got, want) {
			t.Errorf("%q: got %q, %v, want %q", raw, got, ok, want)
		}
		if ok != agree(raw, "q") {
			t.Errorf("%q: ok %v, but that servers agree on it is %v", raw, ok, !ok)
		}
	}
}

// FuzzQuery: if AppendQuery is ok, all readers find its values.
func FuzzQuery(f *testing.F) {
	for _, raw := range []string{"q=1&r=2", "q=100%", "a;q=1", "a#&q=1", "%71=1&q", "q=%c3%a4+b", "&&q=&=;q#"} {
		f.Add(raw, "q")
	}
	f.Fuzz(func(t *testing.T, raw, name string) {
		if name == "" || strings.ContainsAny(name, " [\x00") || strings.Count(raw, "&") > 5000 {
			return
		}
		got, ok := wire.AppendQuery(nil, raw, name)
		if !ok {
			return
		}
		for reader, read := range readers {
			if values := read(raw, name); !slices.Equal(values, got) {
				t.Errorf("%q of %q: %s reads %q, got %q", name, raw, reader, values, got)
			}
		}
	})
}
