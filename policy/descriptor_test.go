// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/policy"
)

// entries returns fields of entries such as user=* or path=/a,/b.
func entries(texts ...string) (fields []policy.Field) {
	for _, text := range texts {
		name, values, _ := strings.Cut(text, "=")
		f := policy.Field{Name: name}
		if values != "" {
			f.Values = strings.Split(values, ",")
		}
		fields = append(fields, f)
	}
	return fields
}

// TestMatchDescriptor: a rule matches descriptors that have its entries and no others.
func TestMatchDescriptor(t *testing.T) {
	p := compile(t,
		rule("user", policy.Match{Descriptor: entries("user")}),
		rule("both", policy.Match{Descriptor: entries("user", "path=/a,/b/*")}),
		rule("shop", policy.Match{Hosts: []string{"shop"}, Descriptor: entries("path=/*/x*y")}),
		rule("rest", policy.Match{Descriptor: entries("user", "path"), ExceptDescriptor: entries("user=root", "path=/a,/b/*")}),
		rule("any", policy.Match{ExceptDescriptor: entries("user=root")}),
		rule("value", policy.Match{Descriptor: entries("user=ada")}),
	)
	for _, test := range []struct{ host, descriptor, want string }{
		{"", "", ""},
		{"", "user=ada", "user any value"},
		{"", "user=root", "user"},
		{"", "user=", "any"},
		{"", "other=a", "any"},
		{"", "user=ada path=/a", "both any"},
		{"", "path=/a user=ada", "both any"},
		{"", "user=root path=/a", "both"},
		{"", "user=ada path=/b/", "both any"},
		{"", "user=ada path=/b", "rest any"},
		{"", "user=root path=/b", ""},
		{"", "user=ada path=/a more=1", "any"},
		{"shop", "path=/a/xy", "shop any"},
		{"shop", "path=/a/x1y2y", "shop any"},
		{"shop", "path=/a/x", "any"},
		{"shop", "path=/x/y", "any"},
		{"", "path=/a/xy", "any"},
	} {
		q := policy.Request{Host: test.host, Path: "/"}
		for e := range strings.FieldsSeq(test.descriptor) {
			if q.Descriptor == nil {
				q.Descriptor = make(map[string]string)
			}
			key, value, _ := strings.Cut(e, "=")
			q.Descriptor[key] = value
		}
		if got, want := matched(p, q.Attributes()), strings.Fields(test.want); !slices.Equal(got, want) {
			t.Errorf("%s %s: %v, want %v", test.host, test.descriptor, got, want)
		}
		if got := matched(p, struct{ policy.Attributes }{q.Attributes()}); len(got) > 0 {
			t.Errorf("without descriptors: %v", got)
		}
	}
}

// doubled has two entries of one key.
type doubled struct{ policy.Attributes }

func (doubled) Descriptor(key string) ([]string, int) {
	if key != "user" {
		return nil, 2
	}
	return []string{"a", "b"}, 2
}

// TestDescriptorKey: the key of a descriptor is made of entries, each of which is there once.
func TestDescriptorKey(t *testing.T) {
	r := one("r", []policy.Part{policy.Descriptor("user"), policy.Host()}, "1/min")
	r.Levels[0].Missing = policy.Skip
	p := compile(t, r)
	var m policy.Matches
	q := policy.Request{Host: "shop", Descriptor: map[string]string{"user": "ada", "path": "/a"}}
	for _, test := range []struct {
		a     policy.Attributes
		key   string
		ok    bool
		fault string
	}{
		{q.Attributes(), "ada|shop", true, ""},
		{struct{ policy.Attributes }{q.Attributes()}, "", false, ""},
		{doubled{q.Attributes()}, "", false, "descriptor user is sent more than once; send it once"},
	} {
		p.Match(test.a, &m)
		key, ok, err := m.Key(0, &p.Levels(0)[0])
		if key != test.key || ok != test.ok || (err != nil) != (test.fault != "") || err != nil && err.Error() != test.fault {
			t.Errorf("%q %v %v, want %+v", key, ok, err, test)
		}
	}
	p = compile(t, rule("two", policy.Match{Descriptor: entries("user", "path")}), rule("one", policy.Match{Descriptor: entries("user")}))
	if got := matched(p, doubled{q.Attributes()}); len(got) > 0 {
		t.Error(got)
	}
}

// TestDescriptorDifferences: a rule says which entry differs.
func TestDescriptorDifferences(t *testing.T) {
	p := compile(t, rule("r", policy.Match{Descriptor: entries("user", "path=/a*"), ExceptDescriptor: entries("user=root")}))
	for want, d := range map[string]map[string]string{
		"descriptor: its entries are other than those of the rule": {"user": "ada"},
		"descriptor user: is not there, or empty":                  {"user": "", "path": "/a"},
		"descriptor path: is not /a*":                              {"user": "ada", "path": "/b"},
		"descriptor user: is excepted":                             {"user": "root", "path": "/a"},
	} {
		var m policy.Matches
		p.Match((&policy.Request{Descriptor: d}).Attributes(), &m)
		if got, _ := m.Differences(0); !slices.Equal(got, []string{want}) {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
	if q := p.Example(0); q.Descriptor["user"] != "example" || q.Descriptor["path"] != "/aexample" {
		t.Errorf("%v", q)
	}
}
