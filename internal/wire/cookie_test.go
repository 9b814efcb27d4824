// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/internal/wire"
)

func cookies(lines []string, name string) (values []string, problem string) {
	return wire.Cookies(&http.Request{Header: http.Header{"Cookie": lines}}, name)
}

func TestCookies(t *testing.T) {
	for _, c := range []struct {
		name   string
		fields []string
		want   []string
		ok     bool
	}{
		{"none", nil, nil, true},
		{"another", []string{"a=b; resid=x"}, nil, true},
		{"one", []string{"a=b; sid=x"}, []string{"x"}, true},
		{"empty", []string{"sid="}, []string{""}, true},
		{"quoted", []string{`sid="x"`}, []string{"x"}, true},
		{"a name in quotes", []string{`"sid"=x`}, nil, true},
		{"quoted, empty", []string{`sid=""`}, []string{""}, true},
		{"escaped", []string{"sid=%61b%63"}, []string{"abc"}, true},
		{"escapes that are none", []string{"sid=%6x%"}, []string{"%6x%"}, true},
		{"a plus, and an escaped one", []string{"sid=a+b%2B"}, []string{"a b "}, true},
		{"an escaped blank", []string{"sid=a%20b"}, []string{"a b"}, true},
		{"an escaped comma and quotes", []string{"sid=%22a%2C%22"}, []string{`"a,"`}, true},
		{"an equals sign", []string{"sid=a=b=="}, []string{"a=b=="}, true},
		{"of an object", []string{"sid=j:%7B%22a%22:1%7D"}, []string{`j:{"a":1}`}, true},
		{"two", []string{"sid=x; sid=y"}, []string{"x", "y"}, true},
		{"two fields", []string{"sid=x", "sid=y"}, []string{"x", "y"}, true},
		{"an octal escape", []string{`sid="\141bc"`}, nil, false},
		{"a second one with an escape", []string{`sid=x; sid="\141bc"`}, nil, false},
		{"a second one with a backslash", []string{`sid=x; sid=abc\`}, nil, false},
		{"a second one with bytes above ASCII", []string{"sid=x; sid=ab\xe9"}, nil, false},
		{"a second one with spaces around its name", []string{"sid=x;\t sid =\"\\141\""}, nil, false},
		{"a second one without a value", []string{"sid=x; sid"}, []string{"x", ""}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, problem := cookies(c.fields, "sid")
			if !slices.Equal(got, c.want) || (problem == "") != c.ok {
				t.Errorf("got %q, %q; want %q, %v", got, problem, c.want, c.ok)
			}
		})
	}
}

// TestCookieSpellings: every spelling that a server may read as the session v is refused, or is
// v. The text after sid=w would be another budget.
func TestCookieSpellings(t *testing.T) {
	const refused, twice = "", "twice"
	for _, c := range []struct{ line, want string }{
		{"sid=v", "v"},
		// Blanks around the value, the name and the pair.
		{"sid= v", "v"},
		{"sid=   v   ", "v"},
		{"sid=\tv\t ", "v"},
		{"  sid=v", "v"},
		{"sid =v", "v"},
		{"\t sid\t =\t v ;", "v"},
		{";;sid=v;;", "v"},
		{"sid=\u00a0v", refused},
		{"sid=v\xa0", refused},
		{"sid=v\u2003", refused},
		{"sid=v\x0b", refused},
		{"sid=v\x1f", refused},
		{"sid=v\x00w", refused},
		{"sid=v\x7f", refused},
		// One value for servers that unescape it.
		{"sid=a+b", "a b"},
		{"sid=a%2Bb", "a b"},
		{"sid=a%2bb", "a b"},
		{"sid=a%20b", "a b"},
		// Blanks and commas within it.
		{"sid=w v", refused},
		{"sid=w sid=v", refused},
		{"sid=v sid=w", refused},
		{"sid=v w", refused},
		{"sid=v\tw", refused},
		{"sid=v,w", refused},
		{"sid=v,", refused},
		{"sid=,v", refused},
		{"sid=w,sid=v", refused},
		{`sid=" v"`, refused},
		{`sid="v "`, refused},
		{`sid="v,w"`, refused},
		// Quotes and escapes.
		{`sid="v"`, "v"},
		{`sid= "v" `, "v"},
		{`sid="v`, refused},
		{`sid=v"`, refused},
		{`sid="v"w`, refused},
		{`sid="v" w`, refused},
		{`sid=""v""`, refused},
		{`sid="\v"`, refused},
		{`sid="\166"`, refused},
		{`sid=\v`, refused},
		{"sid=%76", "v"},
		{`sid="%76"`, "v"},
		{"sid=j:%22v%22", refused},
		{"sid=j:%20%0A%22v%22", refused},
		{"sid=j%3A%22%5Cu0076%22", refused},
		// The name.
		{"sid=w; sid\u00a0=v", refused},
		{"sid\u00a0=v; sid=w", refused},
		{"sid=w; \u00a0sid=v", refused},
		{"sid=w; sid\xa0=v", refused},
		{"sid=w; sid\x85=v", refused},
		{"sid=w; sid\u2003\u2028\u3000=v", refused},
		{"sid=w; \ufeffsid=v", refused},
		{"sid=w; s\u00a0id=v", refused},
		{"sid=w; s id=v", refused},
		{"sid=w; sid\x0b=v", refused},
		{"sid=w; sid\x1c=v", refused},
		{"sid=w; \x00sid=v", refused},
		{"sid=w; SID=v", refused},
		{"Sid=v", refused},
		{"sid=w; %73id=v", refused},
		{"sid=w; s%69%64=v", refused},
		{"sid=w; %20%20sid=v", refused},
		{"sid=w; ++sid=v", refused},
		{"sid=w; %53ID=v", refused},
		{"sid=w; =sid=v", refused},
		{"sid=w; ==sid=v", refused},
		{"sid=w; = sid=v", refused},
		{"=sid=v", refused},
		// In the value of another cookie.
		{"sid=w; a=b sid=v", refused},
		{"a=b sid=v; sid=w", refused},
		{"sid=w; a=b\tsid = v", refused},
		{"sid=w; a=b,sid=v", refused},
		{"sid=w; a=b, sid=v", refused},
		{"sid=w; a=b,=sid=v", refused},
		{"sid=w; a=b\u00a0sid=v", refused},
		{"sid=w; a=b\x0csid=v", refused},
		{`sid=w; a="b" sid=v`, refused},
		{`sid=w; a="b",sid="v"`, refused},
		{"sid=w; a sid=v", refused},
		{"sid=w; a,sid=v", refused},
		{"sid=w; a\xa0sid=v", refused},
		{"sid=w; ,sid=v", refused},
		{"sid=w; a= sid=v", refused},
		{"sid=w; a=b SID=v", refused},
		{"sid=w; a=b %73id=v", refused},
		{"sid=w; sid%00x=v", refused},
		{"$Version=1, sid=v; sid=w", refused},
		{"$Version=1; sid=w, sid=v", refused},
		{`$Version="1"; sid="v"; $Path="/"`, "v"},
		// Beside other cookies.
		{"a=b;sid=v;c=d", "v"},
		{"sid=v; Path=/; HttpOnly", "v"},
		{"a; sid=v", "v"},
		{"=; sid=v", "v"},
		{`a="; sid=v; "`, "v"},
		{"\u00a0sid=v", refused},
		{"sid=\u3000v", refused},
		{"sid\u2028=v", refused},
		{"sid='v'", "'v'"},
		// More than once.
		{"sid=v; sid=w", twice},
		{"sid=v; sid=v", twice},
		{"sid=w; sid =v", twice},
		{"sid=w;sid=v", twice},
		{`sid=w; sid="v"`, twice},
		{"sid=w; sid", twice},
		{"sid; sid=v", twice},
		{"sid=; sid=v", twice},
		{"sid=w\nsid=v", twice}, // two lines
		{`a="; sid=w; b="; sid=v`, twice},
	} {
		got, problem := cookies(strings.Split(c.line, "\n"), "sid")
		switch {
		case c.want == refused:
			if problem == "" || got != nil {
				t.Errorf("%q: got %q, want it refused", c.line, got)
			}
		case c.want == twice:
			if problem != "" || len(got) != 2 {
				t.Errorf("%q: got %q, %q; want two", c.line, got, problem)
			}
		case problem != "" || !slices.Equal(got, []string{c.want}):
			t.Errorf("%q: got %q, %q; want %q", c.line, got, problem, c.want)
		}
	}
	// The form of a variable's name in PHP.
	for _, line := range []string{"my_sid=w; my.sid=v", "my_sid=w; my sid=v", "my_sid=w; my[sid=v", "my_sid=w; my%20sid=v", "my_sid=w; My+sid=v"} {
		if got, problem := cookies([]string{line}, "my_sid"); problem == "" {
			t.Errorf("%q: got %q, want it refused", line, got)
		}
	}
}

// TestCookiesOfOthers: other names are not refused.
func TestCookiesOfOthers(t *testing.T) {
	for _, line := range []string{
		"sid=v; sid2=w; asid=w; s_id=w; si=w; id=w",
		"sid=v; a=b=sid=w; a=sid=w; a=sid; a=my sid is w",
		"sid=v; a=Mon, 23 Nov 2026 09:00:00 GMT; b={\"x\": 1, \"y\": 2}",
		"sid=v; a=x\xff\u00a0; a=\"x y\"; a; =; =w; SID",
		"sid=v; session%69d=w; a%20b=c; \u00e9=w",
		"; sid=v; ;",
	} {
		if got, problem := cookies([]string{line}, "sid"); problem != "" || !slices.Equal(got, []string{"v"}) {
			t.Errorf("%q: got %q, %q; want v", line, got, problem)
		}
	}
	if got, problem := cookies([]string{"connect.sid=v; connect_sid=w"}, "connect.sid"); problem != "" || !slices.Equal(got, []string{"v"}) {
		t.Errorf("got %q, %q; want v", got, problem)
	}
}

// FuzzCookies: blanks around separators and names, quotes around a value and cookies of other
// names do not change the values.
func FuzzCookies(f *testing.F) {
	for _, seed := range []string{"", "a=b; sid=v", "a=b sid=v", "=sid=v", "sid\xa0=v", "%73id=v", "=;=,= sid", strings.Repeat("%20=", 50)} {
		f.Add(seed, "v")
	}
	f.Fuzz(func(t *testing.T, line, value string) {
		values, problem := cookies([]string{line}, "sid")
		if problem != "" && values != nil {
			t.Fatalf("%q: refused, and %q", line, values)
		}
		if problem == "" {
			spread := strings.ReplaceAll(line, ";", " ;\t ") + "; other=1"
			if got, problem := cookies([]string{spread}, "sid"); problem != "" || !slices.Equal(got, values) {
				t.Fatalf("%q: got %q, %q; want %q as of %q", spread, got, problem, values, line)
			}
		}
		if _, problem := cookies([]string{"sid=" + value}, "sid"); problem != "" || strings.ContainsAny(value, ";\"") {
			return
		}
		plain, _ := cookies([]string{"sid=" + value}, "sid")
		for _, other := range []string{`sid="` + strings.Trim(value, " \t\r\n") + `"`, "a=b; sid \t=  " + value + " ; c"} {
			if got, problem := cookies([]string{other}, "sid"); problem != "" || !slices.Equal(got, plain) {
				t.Fatalf("%q: got %q, %q; want %q", other, got, problem, plain)
			}
		}
	})
}

func BenchmarkCookies(b *testing.B) {
	for _, c := range []struct{ name, line string }{
		{"one", "sid=0123456789abcdef0123456789abcdef"},
		{"among others", "_ga=GA1.2.1234567890.1700000000; _gid=GA1.2.987654321.1700000000; theme=dark; sid=0123456789abcdef0123456789abcdef; lang=en-GB; consent=eyJhIjoxLCJiIjoyfQ=="},
		{"missing", "_ga=GA1.2.1234567890.1700000000; theme=dark"},
		{"4 KB", strings.Repeat("a=eyJhIjoxLCJiIjoyfQ==; ", 170) + "sid=v"},
	} {
		b.Run(c.name, func(b *testing.B) {
			r := &http.Request{Header: http.Header{"Cookie": {c.line}}}
			b.ReportAllocs()
			for b.Loop() {
				wire.Cookies(r, "sid")
			}
		})
	}
}
