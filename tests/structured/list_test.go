// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package structured_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/dunglas/httpsfv"

	"github.com/sluicegate/sluice/internal/structured"
)

// FuzzList: the parser agrees with another reader of RFC 9651.
func FuzzList(f *testing.F) {
	for _, seed := range []string{
		``, `"a";r=1;t=2`, `"a";r=1, "b";r=2`, `a;q=1;w=60;pk=:QQ:`, `"a\"\\";x=?1;y=-1.5;z`, `"a";d=@12;u=%"f%c3%bc"`,
		`"a",`, `("a" "b")`, `"a";r=1000000000000000`, `"a"; r=1`, "\"a\"\t,\t\"b\"", `*x;*y=*z`, `"a";pk=:Q===:`, `"a";r=-`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := structured.ParseList([]string{text})
		if err != nil {
			return
		}
		if len(got) > structured.MaxMembers {
			t.Fatalf("%d members", len(got))
		}
		if len(got) == 0 {
			return
		}
		want, err := httpsfv.UnmarshalList([]string{text})
		if err != nil && strings.Contains(err.Error(), "base64") {
			return // it insists on padding, which RFC 9651 says a reader should not
		}
		if err != nil {
			t.Fatalf("%q was read, but: %v", text, err)
		}
		if len(got) != len(want) {
			t.Fatalf("%q: got %d members; want %d", text, len(got), len(want))
		}
		for i, m := range got {
			w, ok := want[i].(httpsfv.Item)
			if !ok {
				t.Fatalf("%q: member %d is no item", text, i)
			}
			if name := fmt.Sprint(w.Value); name != m.Name {
				t.Errorf("%q: got the name %q; want %q", text, m.Name, name)
			}
			if len(m.Params) != len(w.Params.Names()) {
				t.Errorf("%q: got %d parameters; want %v", text, len(m.Params), w.Params.Names())
			}
			for _, p := range m.Params {
				v, ok := w.Params.Get(p.Key)
				if !ok {
					t.Errorf("%q: parameter %q is not there", text, p.Key)
				}
				if n, isInt := v.(int64); isInt != (p.Kind == 'i') || n != p.Num {
					t.Errorf("%q: got %s=%d; want %v", text, p.Key, p.Num, v)
				}
			}
		}
	})
}

// TestFieldsOfAnswers: another implementation of RFC 9651 reads the fields of limits in every
// answer of package httplimit, and serialises them to the same text.
func TestFieldsOfAnswers(t *testing.T) {
	answers, err := os.ReadFile("../../httplimit/testdata/answers.txt")
	if err != nil {
		t.Fatal(err)
	}
	read := 0
	for line := range strings.Lines(string(answers)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if name != "RateLimit" && name != "RateLimit-Policy" && name != "RateLimit-Warning" || value == "its own" { // an application's field
			continue
		}
		read++
		list, err := httpsfv.UnmarshalList([]string{value})
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		if text, err := httpsfv.Marshal(list); err != nil || text != value {
			t.Errorf("%s: serialised as %q, %v", line, text, err)
		}
	}
	if read < 20 {
		t.Errorf("%d fields were read", read)
	}
}
