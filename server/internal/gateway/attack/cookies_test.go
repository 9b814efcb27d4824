// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package attack_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestCookies: one session has one budget for all spellings of its cookie; a spelling that
// servers read in several ways is refused. Package wire has the spellings; here is one of each
// kind.
//
// {s} is the session with a spent budget. Each line is a field Cookie.
func TestCookies(t *testing.T) {
	t.Parallel()
	type row struct {
		name, fields string
		want         []int
	}
	either := []int{refused, charged}
	own := []int{passes, charged} // another session
	rows := []row{
		{"itself", "sid={s}", []int{charged}},
		{"in its own field", "a=b\nsid={s}", []int{charged}},
		{"in quotes", `sid="{s}"`, either},
		{"a blank before the value", "sid= {s}", either},
		{"single quotes", "sid='{s}'", own},
		{"an escape", "sid=%{x}", either},
		{"a bare byte A0 behind the name", "sid\xa0={s}", either},
		{"another before", "sid=w; sid={s}", either},
		{"another field behind", "sid={s}\nsid=w", either},
		{"two behind a comma", "sid=w, sid={s}", either},
		{"an escaped blank", "sid=%20{s}", own},
		{"capitals", "SID={s}", []int{refused}},
		{"named by Connection", "sid={s}\nConnection: Cookie", []int{refused}},
		{"none", "a=b", []int{refused}},
	}
	g, _ := behind(t, `rules: [{name: session, by: cookie.sid, limits: 3/h sliding-log}]`)
	for i, r := range rows {
		for _, version := range []string{"HTTP/1.1", "HTTP/2"} {
			t.Run(r.name+" by "+version, func(t *testing.T) {
				t.Parallel()
				session := "s" + version[5:6] + number("x", i)
				fill := strings.NewReplacer("{s}", session, "{x}", fmt.Sprintf("%x", session[:1])+session[1:])
				c, row := g.client(address()), number("cookie", i)
				for range 3 {
					if got := c.get(t, "plain", "/", "Cookie: sid="+session); got.status != passes {
						t.Fatalf("got %d at first", got.status)
					}
				}
				var fields []string
				for line := range strings.SplitSeq(fill.Replace(r.fields), "\n") {
					if !strings.Contains(line, ": ") {
						line = "Cookie: " + line
					}
					fields = append(fields, line)
				}
				if err := spelled(t, c, row, version, fields, r.want); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// spelled returns how requests with these fields were answered, if not as wanted.
func spelled(t *testing.T, c client, row, version string, fields []string, want []int) error {
	t.Helper()
	for range 4 { // more than one session may use
		var got int
		if version == "HTTP/2" {
			var pairs []string
			for _, f := range fields {
				name, value, _ := strings.Cut(f, ": ")
				if name = strings.ToLower(name); name == "connection" {
					return nil // not a field of HTTP/2
				}
				pairs = append(pairs, name, value)
			}
			h := c.http2(t)
			got = h.status(t, h.open(ended, get(row, pairs...)))
		} else {
			got = c.get(t, row, "/", fields...).status
		}
		if !slices.Contains(want, got) {
			return fmt.Errorf("got %d, want one of %v", got, want)
		}
	}
	return nil
}
