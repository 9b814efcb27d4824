// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package accesslog_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/wire"
	"github.com/sluicegate/sluice/server/internal/accesslog"
	"github.com/sluicegate/sluice/server/internal/front"
)

// ada is a client.
var ada = netip.MustParseAddr("192.0.2.7")

// record returns the record of a request, from a client or none.
func record(r *http.Request, client netip.Addr, status int) *front.Record {
	of := new(wire.Attributes)
	of.Reset(r, client, nil)
	rec := &front.Record{Ended: true, Request: of, Status: status, Out: 512, At: time.Date(2026, 1, 2, 15, 4, 5, 0, time.FixedZone("", 3600))}
	rec.FromHTTP(r)
	return rec
}

func TestLine(t *testing.T) {
	r := httptest.NewRequest(http.MethodGet, "/v1/items?page=2", nil)
	got := accesslog.Append(nil, record(r, ada, 200))
	const want = `192.0.2.7 - - [02/Jan/2026:14:04:05 +0000] "GET /v1/items?page=2 HTTP/1.1" 200 512 "-" "-"` + "\n"
	if string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
	r.Header.Set("Referer", "https://example.com/")
	r.Header.Set("User-Agent", "curl/8.5.0")
	got = accesslog.Append(got[:0], record(r, netip.Addr{}, 0))
	const other = `- - - [02/Jan/2026:14:04:05 +0000] "GET /v1/items?page=2 HTTP/1.1" 000 512 "https://example.com/" "curl/8.5.0"` + "\n"
	if string(got) != other {
		t.Errorf("got %s, want %s", got, other)
	}
}

// combined splits a line as readers of the combined format do.
var combined = regexp.MustCompile(`^[0-9.]+ - - \[[^\]]+\] "([^"]*) ([^"]*) (HTTP/[0-9.]+)" [0-9]{3} [0-9]+ "([^"]*)" "([^"]*)"\n$`)

// FuzzLine: any request is one line of printable ASCII of bounded length, with all fields in
// place.
func FuzzLine(f *testing.F) {
	f.Add("GET", "/", "", "curl")
	f.Add("GET", "/\" 200 1 \"x\" \"y\"\n127.0.0.1 - -", "\\\"", "\x1b[2J\xff")
	f.Add(strings.Repeat("x", 100), "/"+strings.Repeat("\xff", 9000), strings.Repeat("\"", 9000), strings.Repeat("ü", 9000))
	f.Fuzz(func(t *testing.T, method, target, referer, agent string) {
		r := &http.Request{Method: method, RequestURI: target, Proto: "HTTP/1.1", Header: http.Header{"Referer": {referer}, "User-Agent": {agent}}}
		line := string(accesslog.Append(nil, record(r, ada, 200)))
		if !combined.MatchString(line) || strings.Count(line, "\n") != 1 || len(line) > 32<<10 {
			t.Errorf("%d bytes: %.300q", len(line), line)
		}
		if i := strings.IndexFunc(line[:len(line)-1], func(c rune) bool { return c < ' ' || c > '~' }); i >= 0 {
			t.Errorf("%.300q has what it must not at %d", line, i)
		}
	})
}

func TestNoAllocations(t *testing.T) {
	r := record(httptest.NewRequest(http.MethodGet, "/v1/items?page=2", nil), ada, 200)
	b := accesslog.Append(nil, r)
	if n := testing.AllocsPerRun(100, func() { b = accesslog.Append(b[:0], r) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
