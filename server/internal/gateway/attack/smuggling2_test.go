// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package attack_test

import (
	"testing"

	"github.com/sluicegate/sluice/internal/testkit"
)

// smuggling2 are HTTP/2 requests to the path "/a" that HTTP/1.1 cannot express.
var smuggling2 = []struct {
	name string
	// fields are names and values in turn, after those of a request. A name that begins with
	// ":" replaces the request's own.
	fields []string
	body   string
	saw    string // what the upstream gets, as in smuggled
}{
	{"nothing is hidden", nil, "", "GET /a"},
	{"a body", []string{":method", "POST"}, "hi", "POST /a hi"},
	{"a length that is true", []string{":method", "POST", "content-length", "2"}, "hi", "POST /a hi"},
	{"a body that looks like a request", []string{":method", "POST"}, "GET /hidden HTTP/1.1\r\n\r\n", "POST /a GET /hidden HTTP/1.1"},
	{"a length that is too small", []string{":method", "POST", "content-length", "1"}, "hi", "cut"},
	{"a length of 0", []string{":method", "POST", "content-length", "0"}, "hi", "cut or whole"}, // it is whole before the rest is there
	{"a length that is too large", []string{":method", "POST", "content-length", "9"}, "hi", "cut"},
	{"a length with a sign", []string{":method", "POST", "content-length", "+2"}, "hi", ""},
	{"an empty length", []string{":method", "POST", "content-length", ""}, "hi", ""},
	{"a length beyond 63 bits", []string{":method", "POST", "content-length", "18446744073709551618"}, "hi", ""},
	{"two lengths", []string{":method", "POST", "content-length", "2", "content-length", "9"}, "hi", ""},
	{"a length twice", []string{":method", "POST", "content-length", "2", "content-length", "2"}, "hi", "POST /a hi"},
	{"a coding", []string{":method", "POST", "transfer-encoding", "chunked"}, "0\r\n\r\nGET /hidden HTTP/1.1\r\n\r\n", ""},
	{"a connection", []string{"connection", "close"}, "", ""},
	{"an upgrade", []string{"upgrade", "h2c"}, "", ""},
	{"te", []string{"te", "chunked"}, "", ""},
	{"CR LF in a value", []string{"x-a", "b\r\nTransfer-Encoding: chunked"}, "", ""},
	{"LF in a value", []string{"x-a", "b\nTransfer-Encoding: chunked"}, "", ""},
	{"NUL in a value", []string{"x-a", "b\x00c"}, "", ""},
	{"CR LF in a name", []string{"x-a: b\r\ntransfer-encoding", "chunked"}, "", ""},
	{"a colon in a name", []string{"transfer-encoding: chunked", "b"}, "", ""},
	{"a blank in a name", []string{"transfer-encoding ", "chunked"}, "", ""},
	{"capitals in a name", []string{"Transfer-Encoding", "chunked"}, "", ""},
	{"no name", []string{"", "b"}, "", ""},
	{"CR LF in the path", []string{":path", "/a HTTP/1.1\r\nHost: x\r\n\r\nGET /hidden"}, "", ""},
	{"a blank in the path", []string{":path", "/a HTTP/1.1"}, "", "GET /a%20HTTP/1.1"},
	{"a path without a slash", []string{":path", "a"}, "", ""},
	{"no path", []string{":path", ""}, "", ""},
	{"a URL for a path", []string{":path", "http://y/a"}, "", "GET /a"},
	{"CR LF in the method", []string{":method", "GET /hidden HTTP/1.1\r\nHost: x\r\n\r\nGET"}, "", ""},
	{"a blank in the method", []string{":method", "GET /hidden"}, "", ""},
	{"CR LF in the host", []string{":authority", "x\r\nTransfer-Encoding: chunked"}, "", ""},
	{"a slash in the host", []string{":authority", "x/hidden"}, "", ""},
	{"a user in the host", []string{":authority", "y@x"}, "", ""},
	{"another host in a field", []string{"host", "y"}, "", "GET /a"},
	{"another scheme", []string{":scheme", "file"}, "", ""},
	{"CR LF in the scheme", []string{":scheme", "http://y/a HTTP/1.1\r\n\r\n"}, "", ""},
	{"a second path", []string{":more", "", ":path", "/b"}, "", ""},
	{"an unknown pseudo-field", []string{":more", "", ":hidden", "/b"}, "", ""},
	{"a pseudo-field behind others", []string{"x-a", "b", ":more", "", ":path", "/b"}, "", ""},
	{"CONNECT", []string{":method", "CONNECT"}, "", ""},
	{"CONNECT of a protocol", []string{":method", "CONNECT", ":more", "", ":protocol", "websocket"}, "", ""},
	{"Expect", []string{":method", "POST", "expect", "100-continue"}, "hi", "POST /a hi"},
}

// TestSmugglingHTTP2: a request in frames is passed on as the one request that was evaluated.
func TestSmugglingHTTP2(t *testing.T) {
	t.Parallel()
	g, u := behind(t, `rules: [{name: all, by: ip, limits: 1000/h sliding-log}]`)
	t.Run("rows", func(t *testing.T) {
		for i, s := range smuggling2 {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				row, c := number("smuggle2-", i), g.client(address())
				h := c.http2(t)
				flags := byte(endHeaders)
				if s.body == "" {
					flags |= endStream
				}
				stream := h.open(flags, pseudo(row, s.fields))
				want := 1
				if s.saw == "" {
					want = 0
				}
				evaluated := func() int { return 1000 - c.own(t, "all") }
				if s.body != "" {
					// A faulty body may end the stream before it is evaluated.
					testkit.Until(t, "the request to be evaluated", func() bool { return evaluated() >= want })
					h.frame(frameData, endStream, stream, []byte(s.body))
				}
				status := h.status(t, stream)
				saw := u.saw(t, row)
				if s.saw == "cut" || s.saw == "cut or whole" {
					saw = []string{s.saw}
				}
				if len(saw) != want || want == 1 && saw[0] != s.saw {
					t.Errorf("the upstream got %q, want %q", saw, s.saw)
				}
				if got := evaluated(); got != want {
					t.Errorf("%d requests were evaluated, want %d", got, want)
				}
				if wrong := s.saw == "" || s.saw == "cut"; wrong == (status == 200) && s.saw != "cut or whole" {
					t.Errorf("answered %d", status)
				}
			})
		}
	})
	if got := u.of(""); got != nil {
		t.Errorf("the upstream got, beside: %+v", got)
	}
}

// pseudo returns the fields of a request, with replacements.
func pseudo(row string, fields []string) []byte {
	names := []string{":method", ":scheme", ":authority", ":path"}
	values := map[string]string{":method": "GET", ":scheme": "http", ":authority": "app.example", ":path": "/a"}
	rest := []string{"x-row", row}
	for i := 0; i+1 < len(fields); i += 2 {
		if fields[i] == ":more" { // the rest is used verbatim
			rest = append(rest, fields[i+2:]...)
			break
		}
		if _, ok := values[fields[i]]; ok {
			values[fields[i]] = fields[i+1]
			continue
		}
		rest = append(rest, fields[i], fields[i+1])
	}
	var all []string
	for _, name := range names {
		all = append(all, name, values[name])
	}
	return block(append(all, rest...)...)
}
