// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package attack_test

import (
	"fmt"
	"strings"
	"testing"
)

// smuggled is a text that servers may split into requests at other places than the gateway
// does. "GET /end" follows each.
//
// {H} are the fields that every request has; {S} is a request hidden by the others.
type smuggled struct {
	name, raw string
	// saw is what the upstream gets: methods, targets and bodies. A body that is cut off
	// arrives in part, though it was evaluated.
	saw string
}

const last = "GET /end"

var smuggling = []smuggled{
	{"nothing is hidden", "POST /a HTTP/1.1\r\n{H}Content-Length: 2\r\n\r\nhi", "POST /a hi, " + last},
	{"chunks", "POST /a HTTP/1.1\r\n{H}Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", "POST /a hi, " + last},
	{"one behind the other", "GET /a HTTP/1.1\r\n{H}\r\n{S}", "GET /a, GET /hidden, " + last},
	{"a body that looks like one", "POST /a HTTP/1.1\r\n{H}Content-Length: {n}\r\n\r\n{S}", "POST /a {S}, " + last},
	{"a body of GET", "GET /a HTTP/1.1\r\n{H}Content-Length: {n}\r\n\r\n{S}", "GET /a {S}, " + last},

	{"both lengths", "POST /a HTTP/1.1\r\n{H}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{S}", "POST /a, GET /hidden, " + last},
	{"both lengths, chunks first", "POST /a HTTP/1.1\r\n{H}Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n{S}", "POST /a, GET /hidden, " + last},
	{"both lengths, of 0", "POST /a HTTP/1.1\r\n{H}Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", "POST /a hi, " + last},
	{"coding in capitals", "POST /a HTTP/1.1\r\n{H}Transfer-Encoding: CHUNKED\r\n\r\n2\r\nhi\r\n0\r\n\r\n", "POST /a hi, " + last},
	{"coding xchunked", "POST /a HTTP/1.1\r\n{H}Content-Length: 4\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n{S}", ""},
	{"coding identity", "POST /a HTTP/1.1\r\n{H}Content-Length: {n}\r\nTransfer-Encoding: identity\r\n\r\n{S}", ""},
	{"coding in quotes", "POST /a HTTP/1.1\r\n{H}Content-Length: 4\r\nTransfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n{S}", ""},
	{"two codings", "POST /a HTTP/1.1\r\n{H}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n{S}", ""},
	{"chunked twice", "POST /a HTTP/1.1\r\n{H}Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n{S}", ""},
	{"chunked on two lines", "POST /a HTTP/1.1\r\n{H}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{S}", ""},
	{"chunked, then identity", "POST /a HTTP/1.1\r\n{H}Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n{S}", ""},
	{"identity, then chunked", "POST /a HTTP/1.1\r\n{H}Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{S}", ""},
	{"coding behind a comma", "POST /a HTTP/1.1\r\n{H}Content-Length: 4\r\nTransfer-Encoding: ,chunked\r\n\r\n0\r\n\r\n{S}", ""},
	{"coding with a parameter", "POST /a HTTP/1.1\r\n{H}Transfer-Encoding: chunked;q=1\r\n\r\n0\r\n\r\n{S}", ""},
	{"coding behind a tab", "POST /a HTTP/1.1\r\n{H}Transfer-Encoding:\tchunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", "POST /a hi, " + last},
	{"coding before a vertical tab", "POST /a HTTP/1.1\r\n{H}Content-Length: 4\r\nTransfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n{S}", ""},
	{"coding behind NUL", "POST /a HTTP/1.1\r\n{H}Content-Length: 4\r\nTransfer-Encoding: chunked\x00\r\n\r\n0\r\n\r\n{S}", ""},
	{"no coding", "POST /a HTTP/1.1\r\n{H}Content-Length: {n}\r\nTransfer-Encoding:\r\n\r\n{S}", ""},
	{"a blank before the colon", "POST /a HTTP/1.1\r\n{H}Content-Length: 4\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n{S}", ""},
	{"a blank before the name", "POST /a HTTP/1.1\r\n{H}Content-Length: 4\r\n Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n{S}", ""},
	{"a blank before the first name", "POST /a HTTP/1.1\r\n Transfer-Encoding: chunked\r\n{H}Content-Length: 4\r\n\r\n0\r\n\r\n{S}", ""},
	{"a folded line", "POST /a HTTP/1.1\r\n{H}Content-Length: 4\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n{S}", "POST /a, GET /hidden, " + last},
	{"a folded line of another field", "POST /a HTTP/1.1\r\n{H}X-A: b\r\n\tTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\nhi", "POST /a hi, " + last},
	{"coding with an underscore", "POST /a HTTP/1.1\r\n{H}Content-Length: 2\r\nTransfer_Encoding: chunked\r\n\r\nhi", "POST /a hi, " + last},
	{"coding named by Connection", "POST /a HTTP/1.1\r\n{H}Connection: Transfer-Encoding\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", "POST /a hi, " + last},
	{"length named by Connection", "POST /a HTTP/1.1\r\n{H}Connection: Content-Length\r\nContent-Length: {n}\r\n\r\n{S}", "POST /a {S}, " + last},

	{"two lengths", "POST /a HTTP/1.1\r\n{H}Content-Length: 2\r\nContent-Length: {n}\r\n\r\n{S}", ""},
	{"two lengths that agree", "POST /a HTTP/1.1\r\n{H}Content-Length: 2\r\nContent-Length: 2\r\n\r\nhi", "POST /a hi, " + last},
	{"lengths behind commas", "POST /a HTTP/1.1\r\n{H}Content-Length: 2, {n}\r\n\r\n{S}", ""},
	{"lengths behind commas that agree", "POST /a HTTP/1.1\r\n{H}Content-Length: 2, 2\r\n\r\nhi", ""},
	{"a length with a sign", "POST /a HTTP/1.1\r\n{H}Content-Length: +2\r\n\r\nhi", ""},
	{"a length below 0", "POST /a HTTP/1.1\r\n{H}Content-Length: -1\r\n\r\n{S}", ""},
	{"a length with blanks", "POST /a HTTP/1.1\r\n{H}Content-Length:   2 \t\r\n\r\nhi", "POST /a hi, " + last},
	{"a length with a blank within", "POST /a HTTP/1.1\r\n{H}Content-Length: 0 2\r\n\r\nhi", ""},
	{"a length with an underscore", "POST /a HTTP/1.1\r\n{H}Content-Length: 1_0\r\n\r\n{S}", ""},
	{"a length in base 16", "POST /a HTTP/1.1\r\n{H}Content-Length: 0x2\r\n\r\n{S}", ""},
	{"a length with zeros in front", "POST /a HTTP/1.1\r\n{H}Content-Length: 002\r\n\r\nhi", "POST /a hi, " + last},
	{"a length that is too large", "POST /a HTTP/1.1\r\n{H}Content-Length: 18446744073709551618\r\n\r\nhi", ""},
	{"no length", "POST /a HTTP/1.1\r\n{H}Content-Length:\r\n\r\n{S}", ""},
	{"Content_Length", "POST /a HTTP/1.1\r\n{H}Content-Length: 2\r\nContent_Length: 9\r\n\r\nhi", "POST /a hi, " + last},

	{"a chunk with an extension", "POST /a HTTP/1.1\r\n{H}Transfer-Encoding: chunked\r\n\r\n2;a=b\r\nhi\r\n0\r\n\r\n", "POST /a hi, " + last},
	{"an extension with bare LF", "POST /a HTTP/1.1\r\n{H}Transfer-Encoding: chunked\r\n\r\n2;a\nhi\r\n0\r\n\r\n", "cut"},
	{"an extension with bare CR", "POST /a HTTP/1.1\r\n{H}Transfer-Encoding: chunked\r\n\r\n2;a\rb\r\nhi\r\n0\r\n\r\n", "cut"},
	{"a chunk that ends in bare LF", "POST /a HTTP/1.1\r\n{H}Transfer-Encoding: chunked\r\n\r\n2\nhi\r\n0\r\n\r\n", "cut"},
	{"a chunk without an end of line behind", "POST /a HTTP/1.1\r\n{H}Transfer-Encoding: chunked\r\n\r\n2\r\nhi0\r\n\r\n", "cut"},
	{"a chunk that is longer than it says", "POST /a HTTP/1.1\r\n{H}Transfer-Encoding: chunked\r\n\r\n1\r\nhi\r\n0\r\n\r\n", "cut"},
	{"a chunk of 0x2", "POST /a HTTP/1.1\r\n{H}Transfer-Encoding: chunked\r\n\r\n0x2\r\nhi\r\n0\r\n\r\n", "cut"},
	{"a chunk of 1_0", "POST /a HTTP/1.1\r\n{H}Transfer-Encoding: chunked\r\n\r\n1_0\r\nhi\r\n0\r\n\r\n", "cut"},
	{"a chunk of +2", "POST /a HTTP/1.1\r\n{H}Transfer-Encoding: chunked\r\n\r\n+2\r\nhi\r\n0\r\n\r\n", "cut"},
	{"a chunk of -2", "POST /a HTTP/1.1\r\n{H}Transfer-Encoding: chunked\r\n\r\n-2\r\nhi\r\n0\r\n\r\n", "cut"},
	{"a chunk with blanks behind its size", "POST /a HTTP/1.1\r\n{H}Transfer-Encoding: chunked\r\n\r\n2 \t\r\nhi\r\n0\r\n\r\n", "POST /a hi, " + last},
	{"a chunk with a blank before its size", "POST /a HTTP/1.1\r\n{H}Transfer-Encoding: chunked\r\n\r\n 2\r\nhi\r\n0\r\n\r\n", "cut"},
	{"a chunk with zeros in front", "POST /a HTTP/1.1\r\n{H}Transfer-Encoding: chunked\r\n\r\n0002\r\nhi\r\n0\r\n\r\n", "POST /a hi, " + last},
	{"a chunk that is too large", "POST /a HTTP/1.1\r\n{H}Transfer-Encoding: chunked\r\n\r\n10000000000000002\r\nhi\r\n0\r\n\r\n", "cut"},
	{"a chunk without a size", "POST /a HTTP/1.1\r\n{H}Transfer-Encoding: chunked\r\n\r\n\r\nhi\r\n0\r\n\r\n", "cut"},

	{"a trailer", "POST /a HTTP/1.1\r\n{H}Trailer: X-T\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nX-T: 1\r\n\r\n", "POST /a hi, " + last},
	{"a length in the trailer", "POST /a HTTP/1.1\r\n{H}Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nContent-Length: 40\r\n\r\n", "POST /a hi, " + last},
	{"a length that is announced there", "POST /a HTTP/1.1\r\n{H}Trailer: Content-Length\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nContent-Length: 40\r\n\r\n", ""},
	{"a coding that is announced there", "POST /a HTTP/1.1\r\n{H}Trailer: Transfer-Encoding\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nTransfer-Encoding: x\r\n\r\n", ""},
	{"a trailer with bare LF", "POST /a HTTP/1.1\r\n{H}Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\nX-T: 1\n\n", "cut"},

	{"lines that end in bare LF", "GET /a HTTP/1.1\nHost: x\nX-Row: {R}\n\n", "GET /a, " + last},
	{"a head that ends in bare LF", "POST /a HTTP/1.1\r\n{H}Content-Length: 2\n\nhi", "POST /a hi, " + last},
	{"bare CR in a field", "GET /a HTTP/1.1\r\n{H}X-A: b\rTransfer-Encoding: chunked\r\n\r\n", ""},
	{"bare CR for the end of the head", "GET /a HTTP/1.1\r\n{H}X-A: b\r\r\n\r\n", ""},
	{"NUL in a field", "GET /a HTTP/1.1\r\n{H}X-A: b\x00c\r\n\r\n", ""},
	{"NUL in a name", "GET /a HTTP/1.1\r\n{H}X-A\x00: b\r\n\r\n", ""},
	{"a name with a blank", "GET /a HTTP/1.1\r\n{H}X A: b\r\n\r\n", ""},
	{"a field without a name", "GET /a HTTP/1.1\r\n{H}: b\r\n\r\n", ""},
	{"a field without a colon", "GET /a HTTP/1.1\r\n{H}Transfer-Encoding\r\n\r\n", ""},
	{"a name in UTF-8", "GET /a HTTP/1.1\r\n{H}X-Ä: b\r\n\r\n", ""},
	{"two hosts", "GET /a HTTP/1.1\r\n{H}Host: y\r\n\r\n", ""},
	{"two hosts behind a comma", "GET /a HTTP/1.1\r\nHost: x, y\r\nX-Row: {R}\r\n\r\n", ""},
	{"no host", "GET /a HTTP/1.1\r\nX-Row: {R}\r\n\r\n", ""},
	{"another host in the target", "GET http://y/a HTTP/1.1\r\n{H}\r\n", "GET /a, " + last},
	{"a host with a slash", "GET /a HTTP/1.1\r\nHost: x/hidden\r\nX-Row: {R}\r\n\r\n", ""},
	{"a blank in the target", "GET /a HTTP/1.1 x HTTP/1.1\r\n{H}\r\n", ""},
	{"a request in the target", "GET /a%20HTTP/1.1%0d%0aHost:%20x%0d%0a%0d%0a HTTP/1.1\r\n{H}\r\n", "GET /a%20HTTP/1.1%0d%0aHost:%20x%0d%0a%0d%0a, " + last},
	{"two blanks behind the method", "GET  /a HTTP/1.1\r\n{H}\r\n", ""},
	{"a tab behind the method", "GET\t/a HTTP/1.1\r\n{H}\r\n", ""},
	{"empty lines in front", "\r\n\r\nGET /a HTTP/1.1\r\n{H}\r\n", ""},

	{"HTTP/0.9", "GET /a\r\n", ""},
	{"HTTP/1.0", "GET /a HTTP/1.0\r\n{H}Connection: keep-alive\r\n\r\n", "GET /a, " + last},
	{"HTTP/1.0 with chunks", "POST /a HTTP/1.0\r\n{H}Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", "POST /a"},
	{"HTTP/1.0 with both lengths", "POST /a HTTP/1.0\r\n{H}Connection: keep-alive\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{S}", "POST /a 0, GET /hidden, " + last},
	{"HTTP/1.2", "GET /a HTTP/1.2\r\n{H}\r\n", "GET /a, " + last},
	{"HTTP/2.0", "GET /a HTTP/2.0\r\n{H}\r\n", ""},
	{"HTTP/1.10", "GET /a HTTP/1.10\r\n{H}\r\n", ""},
	{"http/1.1", "GET /a http/1.1\r\n{H}\r\n", ""},
	{"an upgrade to h2c", "GET /a HTTP/1.1\r\n{H}Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n", "GET /a, " + last},
	{"an upgrade to h2c with a body", "POST /a HTTP/1.1\r\n{H}Connection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: {n}\r\n\r\n{S}", "POST /a {S}, " + last},
	{"an upgrade that is refused", "GET /a HTTP/1.1\r\n{H}Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n", "GET /a, " + last},
	{"a preface of HTTP/2 with a length", "PRI * HTTP/2.0\r\n{H}Content-Length: 4\r\n\r\nSM\r\n\r\n", "PRI /%2A SM"},
	{"Expect", "POST /a HTTP/1.1\r\n{H}Expect: 100-continue\r\nContent-Length: 2\r\n\r\nhi", "POST /a hi, " + last},
	{"Expect and chunks", "POST /a HTTP/1.1\r\n{H}Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", "POST /a hi, " + last},
	{"Expect of GET", "GET /a HTTP/1.1\r\n{H}Expect: 100-continue\r\n\r\n", "GET /a, " + last},
	{"another Expect", "POST /a HTTP/1.1\r\n{H}Expect: 100-continued\r\nContent-Length: {n}\r\n\r\n{S}", ""},
	{"a body of DELETE", "DELETE /a HTTP/1.1\r\n{H}Content-Length: 2\r\n\r\nhi", "DELETE /a hi, " + last},
	{"CONNECT", "CONNECT y:443 HTTP/1.1\r\n{H}\r\n{S}", "CONNECT /, GET /hidden, " + last},
	{"TRACE with a body", "TRACE /a HTTP/1.1\r\n{H}Content-Length: 2\r\n\r\nhi", "TRACE /a hi, " + last},
}

// TestSmuggling: the upstream gets the evaluated requests, one by one, in a form in which no
// server reads others.
func TestSmuggling(t *testing.T) {
	t.Parallel()
	g, u := behind(t, `rules: [{name: all, by: ip, limits: 1000/h sliding-log}]`)
	t.Run("rows", func(t *testing.T) {
		for i, s := range smuggling {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				row, c := number("smuggle", i), g.client(address())
				fields := "Host: x\r\nX-Row: " + row + "\r\n"
				hidden := "GET /hidden HTTP/1.1\r\n" + fields + "\r\n"
				fill := strings.NewReplacer("{H}", fields, "{R}", row, "{S}", hidden, "{n}", fmt.Sprint(len(hidden)))
				replies := c.send(t, fill.Replace(s.raw+"GET /end HTTP/1.1\r\n{H}Connection: close\r\n\r\n"))
				saw := u.saw(t, row)
				whole := len(saw)
				if s.saw == "cut" {
					saw, whole = []string{"cut"}, 1
				}
				want := strings.ReplaceAll(s.saw, "{S}", strings.TrimSpace(hidden))
				if got := strings.Join(saw, ", "); got != want {
					t.Errorf("the upstream got %q, want %q", got, want)
				}
				if evaluated := 1000 - c.own(t, "all"); evaluated != whole {
					t.Errorf("%d requests were evaluated, and %d arrived", evaluated, whole)
				}
				// A refusal may be lost if the gateway has not read all.
				if got := statuses(replies); len(got) > 0 && !strings.HasSuffix(s.saw, last) && got[len(got)-1] < 400 {
					t.Errorf("answered %v, want a refusal at the end", got)
				}
			})
		}
	})
	if got := u.of(""); got != nil {
		t.Errorf("the upstream got, beside: %+v", got)
	}
}
