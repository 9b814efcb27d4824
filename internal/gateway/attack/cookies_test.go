// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package attack_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestCookies: one session has one budget, in whichever way its cookie is
// written: a spelling that servers read in several ways is refused.
//
// {s} is the session, whose budget is spent. Each line is a field Cookie.
func TestCookies(t *testing.T) {
	t.Parallel()
	type row struct {
		name, fields string
		want         []int
	}
	either := []int{refused, charged}
	own := []int{passes, charged} // it is another session
	rows := []row{
		{"itself", "sid={s}", []int{charged}},
		{"among others", "a=b; sid={s}; c=d", []int{charged}},
		{"without blanks", "a=b;sid={s};c=d", []int{charged}},
		{"in its own field", "a=b\nsid={s}", []int{charged}},
		{"in quotes", `sid="{s}"`, either},
		{"a blank before the value", "sid= {s}", either},
		{"blanks before the value", "sid=     {s}", either},
		{"a tab before the value", "sid=\t{s}", either},
		{"a blank behind the value", "sid={s} ", either},
		{"a blank behind, and another cookie", "sid={s} ; a=b", either},
		{"a blank before =", "sid ={s}", either},
		{"blanks around =", "sid = {s}", either},
		{"a tab before the name", "\tsid={s}", either},
		{"a blank before the name", "a=b;   sid={s}", either},
		{"no blank but a tab", "a=b;\tsid={s}", either},
		{"blanks in quotes", `sid=" {s}"`, either},
		{"blanks around quotes", `sid= "{s}" `, either},
		{"single quotes", "sid='{s}'", own},
		{"one quote", `sid="{s}`, either},
		{"a quote within", `sid={s}"`, either},
		{"an escape", "sid=%{x}", either},
		{"a backslash", `sid="\{s}"`, either},
		{"an octal escape", `sid="\163{t}"`, either},
		{"NBSP before the value", "sid=\u00a0{s}", either},
		{"NBSP behind the value", "sid={s}\u00a0", either},
		{"NBSP behind the name", "sid\u00a0={s}", either},
		{"NBSP before the name", "\u00a0sid={s}", either},
		{"a bare byte A0 behind the name", "sid\xa0={s}", either},
		{"a wide blank", "sid=\u3000{s}", either},
		{"a line separator", "sid\u2028={s}", either},
		{"twice, the same", "sid={s}; sid={s}", either},
		{"another before", "sid=w; sid={s}", either},
		{"another behind", "sid={s}; sid=w", either},
		{"another field before", "sid=w\nsid={s}", either},
		{"another field behind", "sid={s}\nsid=w", either},
		{"two without a semicolon", "sid=w sid={s}", either},
		{"two behind a comma", "sid=w, sid={s}", either},
		{"two behind a comma, no blank", "sid=w,sid={s}", either},
		{"a comma behind", "sid={s},", either},
		{"a second one with NBSP", "sid=w; sid\u00a0={s}", either},
		{"a second one with a blank", "sid=w; sid ={s}", either},
		{"a second one with a tab", "sid=w;\tsid\t={s}", either},
		{"a second one in quotes", `sid=w; sid="{s}"`, either},
		{"a second one with a backslash", `sid=w; sid={s}\`, either},
		{"a second one with an octal escape", `sid=w; sid="\163{t}"`, either},
		{"a second one with a byte above ASCII", "sid=w; sid={s}\xa0", either},
		{"a second one in its own field", "sid=w\nsid=\"\\163{t}\"", either},
		{"a second one without =", "sid=w; sid", either},
		{"empty, and then it", "sid=; sid={s}", either},
		{"a name in quotes", `"sid"={s}`, either},
		{"another in quotes around it", `a="; sid={s}; "`, either},
		{"named by $", "$Version=1; sid={s}; $Path=/", either},
		{"an attribute", "sid={s}; Path=/; HttpOnly", either},
		{"behind a name without =", "a; sid={s}", either},
		{"behind an empty one", ";;; sid={s}", either},
		{"behind =", "=; sid={s}", either},
		{"a plus for a blank", "sid=+{s}", own},
		{"an escaped blank", "sid=%20{s}", own},
		{"capitals", "SID={s}", []int{refused}},
		{"named by Connection", "sid={s}\nConnection: Cookie", []int{refused}},
		{"none", "a=b", []int{refused}},
	}
	names(t, rows, func(r *row) string { return r.name })
	g, _ := behind(t, `rules: [{name: session, by: cookie.sid, limits: 3/h sliding-log}]`)
	for i, r := range rows {
		for _, version := range []string{"HTTP/1.1", "HTTP/2"} {
			t.Run(r.name+" by "+version, func(t *testing.T) {
				t.Parallel()
				session := "s" + version[5:6] + number("x", i)
				fill := strings.NewReplacer("{s}", session, "{x}", fmt.Sprintf("%x", session[:1])+session[1:], "{t}", session[1:])
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

// spelled says how requests with these fields were answered, if it is not as
// wanted.
func spelled(t *testing.T, c client, row, version string, fields []string, want []int) error {
	t.Helper()
	for range 4 { // more than one session may use
		var got int
		if version == "HTTP/2" {
			var pairs []string
			for _, f := range fields {
				name, value, _ := strings.Cut(f, ": ")
				if name = strings.ToLower(name); name == "connection" {
					return nil // is not a field of HTTP/2
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
