// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package upstream_test

import (
	"path"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/config/upstream"
)

func TestParse(t *testing.T) {
	for _, s := range []string{
		"http://127.0.0.1:3000", "https://example.com/base", "http://[::1]:80", "http://h:1", "http://h:65535", "http://h:", "h2c://h:50051", "h2c://[::1]",
	} {
		if u, err := upstream.Parse(s); err != nil || u.String() != s {
			t.Errorf("%s: got %v, %v", s, u, err)
		}
	}
	for s, want := range map[string]string{
		"":                                      "is empty; use for example",
		"http://h:x":                            "is not a URL",
		"localhost:3000":                        "does not begin with http://",
		"ftp://h":                               "does not begin with http://",
		"h2c:///x":                              "names no host",
		"h2://h":                                "h2c://; use for example",
		"http://":                               "names no host",
		"http://:80":                            "names no host",
		"http:///x":                             "names no host",
		"http://u:secret@h":                     `the one at "h" holds a user name`,
		"htp://u:secret@h":                      "does not begin with http://",
		"http://u:secret@h:x":                   "is not a URL",
		"http://u:sec?ret@h:x/secret":           "is not a URL",
		"http://u:secret@":                      "names no host",
		"secret@h:3000":                         "is not a URL",
		"http://h/?token=secret":                `"http://h/" has a query`,
		"htp://h/#secret":                       "does not begin with http://",
		"http://h/#a":                           "has a query or a fragment",
		"http://h:0":                            "has the port 0; use one from 1 to 65535",
		"http://h:99999":                        "has the port 99999; use one from 1 to 65535",
		"http://[::1]:070000000000000000000000": "has the port",
		"http://" + strings.Repeat("h", 1<<12):  "has 4103 bytes; use one of 4096 at most",
	} {
		if u, err := upstream.Parse(s); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: got %v, %v, want %q", s, u, err, want)
		}
	}
}

var paths = []struct{ text, want string }{ // want begins with a colon: the error contains the rest
	{"/", "/"},
	{"/api", "/api"},
	{"/api/", "/api/"},
	{"/a.b/..c", "/a.b/..c"},
	{"/caf%C3%A9", "/café"},
	{"/q%3Fx", "/q?x"},
	{"/100%25", "/100%"},
	{"", ":such as /api"},
	{"api", ":such as /api"},
	{"/a//b", ":use /a/b"},
	{"/a//", ":use /a"},
	{"//", ":use /"},
	{"/" + strings.Repeat("a", 1<<12), ":has 4097 bytes; use one of 4096 at most"},
	{"/v/../w", ":use /w"},
	{"/v/.", ":use /v"},
	{"/v/%2e%2E/%C3%A9", ":use /%C3%A9"},
	{"/q?x", ":use /q"},
	{"/q#x", ":use /q"},
	{"/a%2Fb", ":escaped slash"},
	{"/a%", ":use %25"},
}

func TestParsePath(t *testing.T) {
	for _, c := range paths {
		got, err := upstream.ParsePath(c.text)
		if problem, bad := strings.CutPrefix(c.want, ":"); bad {
			if err == nil || !strings.Contains(err.Error(), problem) {
				t.Errorf("%s: got %q, %v, want %q", c.text, got, err, problem)
			}
		} else if err != nil || got != c.want {
			t.Errorf("%s: got %q, %v, want %q", c.text, got, err, c.want)
		}
	}
}

// FuzzParsePath: an accepted path is the clean path of a request.
func FuzzParsePath(f *testing.F) {
	for _, c := range paths {
		f.Add(c.text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := upstream.ParsePath(text)
		if err != nil {
			return
		}
		if bare := strings.TrimSuffix(got, "/"); bare != "" && path.Clean("/"+bare) != bare {
			t.Errorf("%q: %q is not clean", text, got)
		}
	})
}
