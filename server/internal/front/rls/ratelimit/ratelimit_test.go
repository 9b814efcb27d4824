// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package ratelimit_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/server/internal/front/rls/ratelimit"
)

// entry is an entry of a descriptor.
type entry struct{ key, value string }

func (e entry) GetKey() string   { return e.key }
func (e entry) GetValue() string { return e.value }

// entries reads a descriptor, such as a=1,b=.
func entries(text string) (list []entry) {
	for e := range strings.SplitSeq(text, ",") {
		key, value, _ := strings.Cut(e, "=")
		list = append(list, entry{key, value})
	}
	return list
}

func parse(t *testing.T, text string) *ratelimit.Config {
	t.Helper()
	c, notes, err := ratelimit.Parse([]ratelimit.File{{Name: "limits.yaml", Data: []byte(text)}}, false)
	if err != nil || len(notes) > 0 {
		t.Fatalf("%v, notes %v", err, notes)
	}
	return c
}

const basic = `
domain: test-domain
descriptors:
  - key: key1
    value: value1
    descriptors:
      - {key: subkey1, rate_limit: {unit: second, requests_per_unit: 5}}
      - {key: subkey1, value: subvalue1, rate_limit: {unit: SECOND, requests_per_unit: 10}}
  - {key: key2, rate_limit: {unit: minute, requests_per_unit: 20}}
  - {key: key2, value: value2, rate_limit: {unit: minute, requests_per_unit: 30}}
  - {key: key2, value: value3}
  - {key: key3, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: key4, rate_limit: {unit: day, requests_per_unit: 1, name: key4_rate_limit}}
  - key: key5
    value: value5
    rate_limit: {unit: day, requests_per_unit: 15}
    descriptors: [{key: subkey5, value: subvalue5, rate_limit: {unit: day, requests_per_unit: 25}}]
  - {key: key6, rate_limit: {unlimited: true}}
  - {key: key7, detailed_metric: true, rate_limit: {unit: minute, requests_per_unit: 70}}
`

const wild = `
domain: wild
descriptors:
  - {key: wild, value: foo*, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: noWild, value: foo, rate_limit: {unit: hour, requests_per_unit: 2}}
  - {key: midWild, value: bar*b, rate_limit: {unit: hour, requests_per_unit: 3}}
  - {key: multiWild, value: foo*bar*baz, rate_limit: {unit: hour, requests_per_unit: 4}}
  - {key: api, value: /api*v1, rate_limit: {unit: hour, requests_per_unit: 5}}
  - {key: file, value: test*, rate_limit: {unit: hour, requests_per_unit: 100}, share_threshold: true}
  - {key: file, value: test1, rate_limit: {unit: hour, requests_per_unit: 50}}
  - {key: k, value: a, rate_limit: {unit: hour, requests_per_unit: 9}}
  - {key: k, value: a*, rate_limit: {unit: hour, requests_per_unit: 5}}
  - {key: k, value: ab*, rate_limit: {unit: hour, requests_per_unit: 6}}
  - {key: k, rate_limit: {unit: hour, requests_per_unit: 7}}
  - {key: par, value: x, descriptors: [{key: sub, rate_limit: {unit: day, requests_per_unit: 4}}]}
  - {key: par, rate_limit: {unit: day, requests_per_unit: 8}}
  - key: dir
    value: /a/*
    share_threshold: true
    descriptors: [{key: user, value_to_metric: true, rate_limit: {unit: year, requests_per_unit: 11}}]
  - key: twice
    value: overlap*lap
    rate_limit: {unit: week, requests_per_unit: 12}
  - {key: a_b, rate_limit: {unit: month, requests_per_unit: 13}}
  - {key: deep, value_to_metric: true, descriptors: [{key: leaf, detailed_metric: true, rate_limit: {unit: hour, requests_per_unit: 14}}, {key: plain, rate_limit: {unit: hour, requests_per_unit: 15}}]}
`

// TestFind has the vectors of the service's own tests, and those that were seen of it.
func TestFind(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		file, descriptor, want, path, shared string
	}{
		{basic, "key1=something", "", "", ""},
		{basic, "key1=value1", "", "", ""},
		{basic, "key1=value1,subkey1=something", "5/second", "test-domain.key1_value1.subkey1", ""},
		{basic, "key1=value1,subkey1=subvalue1", "10/second", "test-domain.key1_value1.subkey1_subvalue1", ""},
		{basic, "key2=something", "20/minute", "test-domain.key2", ""},
		{basic, "key2=value2", "30/minute", "test-domain.key2_value2", ""},
		{basic, "key2=value3", "", "", ""},
		{basic, "key2=value2,subkey=subvalue", "", "", ""},
		{basic, "key3=foo", "1/hour", "test-domain.key3", ""},
		{basic, "key4=foo", "1/day key4_rate_limit", "test-domain.key4", ""},
		{basic, "key5=value5", "15/day", "test-domain.key5_value5", ""},
		{basic, "key5=value5,subkey5=subvalue5", "25/day", "test-domain.key5_value5.subkey5_subvalue5", ""},
		{basic, "key5=value5,subkey5=subvalue", "", "", ""},
		{basic, "key6=foo", "unlimited", "test-domain.key6", ""},
		{basic, "key7=unspecified_value", "70/minute", "test-domain.key7_unspecified_value", ""},
		{basic, "key7=", "70/minute", "test-domain.key7_", ""},
		{wild, "wild=foo1", "1/hour", "wild.wild_foo*", ""},
		{wild, "wild=foo", "1/hour", "wild.wild_foo*", ""},
		{wild, "wild=bar", "", "", ""},
		{wild, "noWild=foo1", "", "", ""},
		{wild, "midWild=barab", "3/hour", "wild.midWild_bar*b", ""},
		{wild, "midWild=bar123b", "3/hour", "wild.midWild_bar*b", ""},
		{wild, "midWild=barb", "3/hour", "wild.midWild_bar*b", ""},
		{wild, "midWild=bara", "", "", ""},
		{wild, "midWild=xbarb", "", "", ""},
		{wild, "multiWild=foo123bar456baz", "4/hour", "wild.multiWild_foo*bar*baz", ""},
		{wild, "multiWild=foobarbaz", "4/hour", "wild.multiWild_foo*bar*baz", ""},
		{wild, "multiWild=foo123baz", "", "", ""},
		{wild, "multiWild=bar456baz", "", "", ""},
		{wild, "api=/api/v2", "", "", ""},
		{wild, "file=test1", "50/hour", "wild.file_test1", ""},
		{wild, "file=test2", "100/hour", "wild.file_test*", "test*"},
		{wild, "file=test23", "100/hour", "wild.file_test*", "test*"},
		{wild, "k=a", "9/hour", "wild.k_a", ""},
		{wild, "k=abc", "5/hour", "wild.k_a*", ""},
		{wild, "k=zzz", "7/hour", "wild.k", ""},
		{wild, "k=", "7/hour", "wild.k", ""},
		{wild, "par=x", "", "", ""},
		{wild, "par=x,sub=1", "4/day", "wild.par_x.sub", ""},
		{wild, "par=y", "8/day", "wild.par", ""},
		{wild, "par=y,sub=1", "", "", ""},
		{wild, "par=x,sub=1,m=2", "", "", ""},
		{wild, "dir=/a/b,user=u1", "11/year", "wild.dir_/a/*.user_u1", "/a/*|"},
		{wild, "twice=overlap", "", "", ""}, // the parts do not overlap
		{wild, "twice=overlaplap", "12/week", "wild.twice_overlap*lap", ""},
		{wild, "a=b", "13/month", "wild.a_b", ""},
		{wild, "deep=1,leaf=2", "14/hour", "wild.deep_1.leaf_2", ""},
		{wild, "deep=1,plain=2", "15/hour", "wild.deep_1.plain", ""},
	} {
		t.Run(tc.descriptor, func(t *testing.T) {
			t.Parallel()
			c := parse(t, tc.file)
			domain := strings.TrimPrefix(strings.Split(tc.file, "\n")[1], "domain: ")
			m := ratelimit.Find(c, domain, entries(tc.descriptor))
			got, path := "", ""
			switch {
			case m.Limit == nil:
			case m.Unlimited:
				got = "unlimited"
			default:
				got = strings.TrimSpace(fmt.Sprintf("%d/%v %s", m.PerUnit, m.Unit, m.Name))
			}
			if m.Limit != nil {
				path = ratelimit.Path(c, domain, entries(tc.descriptor), m.Shared)
			}
			if shared := strings.Join(m.Shared, "|"); got != tc.want || path != tc.path || shared != tc.shared {
				t.Errorf("%q, path %q, shared %q; want %q, %q, %q", got, path, shared, tc.want, tc.path, tc.shared)
			}
		})
	}
	c := parse(t, basic)
	if m := ratelimit.Find(c, "other", entries("key2=a")); m.Limit != nil || c.Has("other") || !c.Has("test-domain") {
		t.Error("a domain that is not there has limits")
	}
	if got := ratelimit.Brought("test-domain", entries("key1=value1,subkey1=,x=y")); got != "test-domain.key1_value1.subkey1.x_y" {
		t.Error(got)
	}
}

func TestFindDoesNotAllocate(t *testing.T) {
	c, list := parse(t, wild), entries("par=x,sub=1")
	if n := testing.AllocsPerRun(100, func() { ratelimit.Find(c, "wild", list) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestFaults: all faults are found, each at its place, with the words of the service.
func TestFaults(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, file string
		want       []string
	}{
		{"empty", "", []string{"f.yaml: config file cannot have empty domain"}},
		{"no domain", "descriptors: []", []string{"f.yaml:1:1: config file cannot have empty domain"}},
		{"null domain", "domain:\n", []string{"f.yaml:1:8: config file cannot have empty domain"}},
		{"a list", "- domain: a", []string{"f.yaml:1:1: error loading config file"}},
		{"not YAML", "domain: a\ndescriptors: [}", []string{"f.yaml:2:15: error loading config file"}},
		{"unknown key", "domain: a\nratelimit: 1\ndescriptors: [{key: a, algorithm: x}]", []string{
			"f.yaml:2:1: config error, unknown key 'ratelimit'", "f.yaml:3:24: config error, unknown key 'algorithm'",
		}},
		{"key of another type", "domain: a\n0.25: b\ntrue: c", []string{
			"f.yaml:2:1: config error, key is not of type string: 0.25", "f.yaml:3:1: config error, key is not of type string: true",
		}},
		{"list of texts", "domain: a\ndescriptors: [a, {key: b}]", []string{"f.yaml:2:15: config error, yaml file contains list of type other than map: \"a\""}},
		{"no list", "domain: a\ndescriptors: {key: b}", []string{"f.yaml:2:14: error loading config file"}},
		{"fraction", "domain: a\ndescriptors: [{key: b, value: 0.25}]", []string{"f.yaml:2:31: error checking config: 0.25"}},
		{"all at once", `domain: d
descriptors:
  - value: v
  - {key: k, value: v}
  - {key: k_v}
  - {key: l, rate_limit: {unit: foo, requests_per_unit: 1}}
  - {key: m, rate_limit: {unit: day, unlimited: yes}}
  - {key: n, rate_limit: {}}
  - {key: o, share_threshold: true}
  - {key: p, rate_limit: {unit: day, requests_per_unit: -1, name: x, replaces: [{name: ""}, {name: x}]}}
  - {key: q, rate_limit: {unit: day, requests_per_unit: "5"}}
  - {key: r, shadow_mode: maybe}
  - {key: s, key: t}
`, []string{
			"f.yaml:3:5: descriptor has empty key",
			"f.yaml:5:5: duplicate descriptor composite key 'd.k_v'",
			"f.yaml:6:33: invalid rate limit unit 'foo'",
			"f.yaml:7:33: should not specify rate limit unit when unlimited",
			"f.yaml:8:26: invalid rate limit unit ''",
			"f.yaml:9:5: share_threshold can only be used with wildcard values (containing '*'), but found key 'o'",
			"f.yaml:10:57: error loading config file: \"-1\"",
			"f.yaml:10:81: should not have an empty replaces entry",
			"f.yaml:10:93: replaces should not contain name of same descriptor",
			"f.yaml:11:57: error loading config file: \"5\"",
			"f.yaml:12:27: error loading config file: \"maybe\"",
			"f.yaml:13:14: \"key\" is on line 13 already",
		}},
		{"extended", `domain: d
descriptors:
  - {key: a, limits: 5/min, rate_limit: {limits: [5/min, 7/mon], name: n}}
  - {key: b, rate_limit: {limits: "100/min sliding-windw"}}
  - {key: c, rate_limit: {limits: [0/min, {a: b}]}}
  - {key: d, rate_limit: {limits: []}}
  - {key: e, rate_limit: {limits: [5/min, 6/min]}}
  - {key: f, rate_limit: {limits: 5/min, unit: minute, requests_per_unit: 5}}
  - {key: g, rate_limit: {limits: [5/min debt 3, 5/h debt 3 next-waits, 10/s burst 20 leaky-bucket]}}
  - {key: h, rate_limit: {limits: 10/s burst 20 leaky-bucket}}
  - {key: owner, rate_limit: {slots: 10}}
  - {key: i, rate_limit: {slots: 10, ttl: 60s}}
  - {key: j, descriptors: [{key: owner, rate_limit: {slots: 0, ttl: 60s}}, {key: owner, value: v, rate_limit: {slots: 1, ttl: 60s}}]}
  - {key: k, descriptors: [{key: owner, rate_limit: {slots: 1, ttl: 60}}]}
  - {key: l, descriptors: [{key: owner, detailed_metric: true, rate_limit: {slots: 1, ttl: 60s}}]}
  - {key: m, rate_limit: {limits: 5/min, ttl: 60s}}
  - {key: n, rate_limit: {unlimited: true, slots: 5, ttl: 60s}}
`, []string{
			"f.yaml:3:14: limits has no effect in a descriptor; move it into rate_limit",
			"f.yaml:3:60: limit \"7/mon\": ",
			"f.yaml:4:44: limit \"100/min sliding-windw\": ",
			"f.yaml:5:36: limit \"0/min\": Quota: 0 must be 1 to 9007199254740991 units",
			"f.yaml:5:43: error loading config file: a mapping where a value is due",
			"f.yaml:6:35: limits is empty; use for example limits: 100/min",
			"f.yaml:7:35: limit 2 (6/min): limit 1 has the name \"token-bucket.min\" too; name one of them",
			"f.yaml:8:35: limits and slots replace unit, requests_per_unit and unlimited",
			"f.yaml:9:36: limit \"5/min debt 3\": debt has no effect",
			"f.yaml:10:35: limit \"10/s burst 20 leaky-bucket\" delays requests, which Envoy cannot; add nodelay",
			"f.yaml:11:30: slots and ttl belong together",
			"f.yaml:12:5: slots are for a descriptor of owners, not for \"i\"",
			"f.yaml:13:61: Cap: 0 must be 1 to 65536",
			"f.yaml:13:76: slots are for a descriptor of owners, not for \"owner_v\"",
			"f.yaml:14:69: ttl is \"60\"; use a time with its unit, such as 60s",
			"f.yaml:15:28: detailed_metric and value_to_metric would make statistics for each owner",
			"f.yaml:16:47: limits excludes slots and ttl",
			"f.yaml:17:5: ",
			"f.yaml:17:51: limits and slots replace unit",
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, _, err := ratelimit.Parse([]ratelimit.File{{Name: "f.yaml", Data: []byte(tc.file)}}, false)
			faults, _ := errors.AsType[config.Faults](err)
			if len(faults) != len(tc.want) {
				t.Fatalf("%d faults, want %d:\n%v", len(faults), len(tc.want), err)
			}
			for i, want := range tc.want {
				if !strings.HasPrefix(faults[i].Error(), want) {
					t.Errorf("%v\nwant %v", faults[i], want)
				}
			}
		})
	}
}

// TestYAML: files load as the service loads them, whose YAML is version 1.1.
func TestYAML(t *testing.T) {
	t.Parallel()
	c, notes, err := ratelimit.Parse([]ratelimit.File{{Name: "f.yaml", Data: []byte(`
domain: 5
descriptors:
  - &a {key: yes, value: 1.2.3.4, rate_limit: &l {unit: Day, requests_per_unit: 0x10, unlimited: off}, unit: day}
  - {<<: *a, key: 2001-01-01, shadow_mode: ON}
  - {key: "null", value: ~, rate_limit: *l, metadata: {a: [1, 0.5, yes, null, x], 2: {b: c}}}
  - {key: none, rate_limit:, descriptors:}
---
more: true
`)}}, false)
	if err != nil {
		t.Fatal(err)
	}
	if len(notes) != 2 || notes[0].Error() != "f.yaml:4:104: unit has no effect in a descriptor; it belongs in rate_limit" ||
		!strings.HasPrefix(notes[1].Problem, "a second document") {
		t.Errorf("%v", notes)
	}
	for descriptor, want := range map[string]ratelimit.Limit{
		"yes=1.2.3.4":        {Path: "5.yes_1.2.3.4", PerUnit: 16, Unit: ratelimit.Day, File: "f.yaml", Line: 4},
		"2001-01-01=1.2.3.4": {Path: "5.2001-01-01_1.2.3.4", PerUnit: 16, Unit: ratelimit.Day, Shadow: true, File: "f.yaml", Line: 5},
		"null=x": {Path: "5.null", PerUnit: 16, Unit: ratelimit.Day, File: "f.yaml", Line: 6, Metadata: map[string]any{
			"a": []any{1.0, 0.5, true, nil, "x"}, "2": map[string]any{"b": "c"},
		}},
	} {
		if m := ratelimit.Find(c, "5", entries(descriptor)); m.Limit == nil || !reflect.DeepEqual(*m.Limit, want) {
			t.Errorf("%s: %+v", descriptor, m.Limit)
		}
	}
	if m := ratelimit.Find(c, "5", entries("none=x")); m.Limit != nil {
		t.Errorf("%+v", m.Limit)
	}
}

// own has keys that the service does not have.
const own = `
domain: own
descriptors:
  - key: a
    rate_limit: {limits: 100/min sliding-counter, name: n}
    descriptors: [{key: owner, shadow_mode: true, rate_limit: {slots: 10, ttl: 1m}}]
  - {key: b, rate_limit: {limits: [100MB/day calendar UTC fixed-window, "hourly: 5/h"], replaces: [{name: n}]}}
  - {key: owner, rate_limit: {unit: day, requests_per_unit: 5}}
`

// TestOwnKeys: files may have limits of any kind, and slots.
func TestOwnKeys(t *testing.T) {
	t.Parallel()
	c := parse(t, own)
	for descriptor, want := range map[string]ratelimit.Limit{
		"a=x":         {Path: "own.a", Name: "n", Limits: []sluice.Limit{sluice.MustParseLimit("100/min sliding-counter")}, Line: 4},
		"a=x,owner=o": {Path: "own.a.owner", Slots: sluice.SlotLimit{Name: "slots", Cap: 10, TTL: time.Minute}, Shadow: true, Line: 6},
		"b=x": {Path: "own.b", Limits: []sluice.Limit{
			sluice.MustParseLimit("100MB/day calendar UTC fixed-window"), sluice.MustParseLimit("hourly: 5/h"),
		}, Replaces: []string{"n"}, Line: 7},
		"owner=o": {Path: "own.owner", PerUnit: 5, Unit: ratelimit.Day, Line: 8},
	} {
		want.File = "limits.yaml"
		if m := ratelimit.Find(c, "own", entries(descriptor)); m.Limit == nil || !reflect.DeepEqual(*m.Limit, want) {
			t.Errorf("%s: %+v", descriptor, m.Limit)
		}
	}
}

func TestDomains(t *testing.T) {
	t.Parallel()
	files := []ratelimit.File{
		{Name: "a", Data: []byte("domain: d\ndescriptors: [{key: a, rate_limit: {unlimited: true}}]")},
		{Name: "b", Data: []byte("domain: d\ndescriptors: [{key: b, rate_limit: {unlimited: true}}]")},
	}
	if _, _, err := ratelimit.Parse(files, false); err == nil || !strings.HasPrefix(err.Error(), "b:1:9: duplicate domain 'd' in config file") {
		t.Error(err)
	}
	c, _, err := ratelimit.Parse(files, true)
	if err != nil {
		t.Fatal(err)
	}
	for _, descriptor := range []string{"a=1", "b=1"} {
		if ratelimit.Find(c, "d", entries(descriptor)).Limit == nil {
			t.Error(descriptor)
		}
	}
	files[1].Data = files[0].Data
	if _, _, err := ratelimit.Parse(files, true); err == nil || !strings.Contains(err.Error(), "b:2:15: duplicate descriptor composite key 'd.a'") {
		t.Error(err)
	}
}

func TestUnits(t *testing.T) {
	t.Parallel()
	for u, want := range map[ratelimit.Unit]time.Duration{
		ratelimit.Unknown: 0, ratelimit.Second: time.Second, ratelimit.Minute: time.Minute, ratelimit.Hour: time.Hour, ratelimit.Day: 24 * time.Hour,
		ratelimit.Week: 168 * time.Hour, ratelimit.Month: 720 * time.Hour, ratelimit.Year: 8760 * time.Hour, 8: 0, -1: 0,
	} {
		if got := u.Window(); got != want {
			t.Errorf("%v: %v", u, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{basic, wild, own, "domain: &a [*a]", "domain: a\ndescriptors: &d [{key: k, descriptors: *d}]", "a: &a {<<: *a}", "? [a]\n: b", "domain: !!int x"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, _, err := ratelimit.Parse([]ratelimit.File{{Name: "f", Data: data}}, true)
		if _, faults := errors.AsType[config.Faults](err); (c == nil) == (err == nil) || err != nil && !faults {
			t.Fatalf("%v, %v", c, err)
		}
		if c != nil {
			ratelimit.Find(c, "wild", entries("k=abc"))
		}
	})
}
