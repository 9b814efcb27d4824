// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package decided

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/internal/testkit"
)

// hashed returns the forms of a key in the log of these tests.
func hashed(key string) [][]byte {
	return [][]byte{fmt.Appendf(nil, `"key_hash":"h-%s"`, key), fmt.Appendf(nil, `"key":%q`, key)}
}

func lineOf(second int, verdict string, status int, rules ...string) string {
	return fmt.Sprintf(`{"v":1,"node":"n","time":"2026-01-02T03:04:%02d.000000Z","method":"GET","path":"/a","verdict":%q,"status":%d,"rules":[%s]}`+"\n",
		second, verdict, status, strings.Join(rules, ","))
}

const (
	ada      = `{"rule":"api","limit":"10/min","mode":"enforced","key_hash":"h-ada","cost":1,"verdict":"allowed","remaining":7,"binds":true}`
	eve      = `{"rule":"api","limit":"10/min","mode":"enforced","key_hash":"h-eve","cost":1,"verdict":"denied","remaining":0,"binds":true}`
	adaPlain = `{"rule":"api","limit":"10/min","mode":"enforced","key":"ada","cost":1,"verdict":"denied","remaining":0,"binds":true}`
	adaOther = `{"rule":"other","limit":"5/h","mode":"enforced","key_hash":"h-ada","cost":1,"verdict":"allowed","remaining":4}`
	adaTrial = `{"rule":"api","limit":"1/min","mode":"candidate","candidate":"tight","key_hash":"h-ada","cost":1,"verdict":"denied","remaining":0}`
	adaLevel = `{"rule":"api","level":"user","limit":"3/h","mode":"enforced","key_hash":"h-ada","cost":1,"verdict":"allowed","remaining":2}`
	all      = `{"rule":"site","limit":"99/min","mode":"enforced","cost":1,"verdict":"allowed","remaining":98}`
	refused  = `{"rule":"site","mode":"enforced","verdict":"refused"}`
)

// TestFind: lines about a key are found in any form of the key, with the limit that explains
// most; other and invalid lines are not.
func TestFind(t *testing.T) {
	apiAda := []Key{{Rule: "api", Key: "ada"}}
	many := ""
	for i := range 30 {
		many += lineOf(i, "allowed", 200, ada)
	}
	for _, c := range []struct {
		name, log  string
		keys       []Key
		want       string // the second, limit and verdict of each
		more       bool
		unreadable int
	}{
		{"an empty log", "", apiAda, "", false, 0},
		{"newest first", lineOf(1, "allowed", 200, ada) + lineOf(2, "denied", 429, adaPlain), apiAda, "2 api 10/min denied, 1 api 10/min allowed", false, 0},
		{"of others", lineOf(1, "denied", 429, eve) + lineOf(2, "allowed", 200, adaOther, all), apiAda, "", false, 0},
		{"of another level", lineOf(1, "allowed", 200, adaLevel), apiAda, "", false, 0},
		{"of its level", lineOf(1, "allowed", 200, adaLevel), []Key{{Rule: "api", Level: "user", Key: "ada"}}, "1 api/user 3/h allowed", false, 0},
		{"the one that binds", lineOf(1, "allowed", 200, adaOther, adaTrial, ada), append(apiAda, Key{Rule: "other", Key: "ada"}), "1 api 10/min allowed", false, 0},
		{"a candidate", lineOf(1, "allowed", 200, adaTrial), apiAda, "1 api 1/min denied", false, 0},
		{"one budget for all", lineOf(1, "allowed", 200, all) + lineOf(2, "refused", 400, refused), []Key{{Rule: "site"}}, "1 site 99/min allowed", false, 0},
		{"20 at most", many, apiAda, strings.TrimSuffix(func() (s string) {
			for i := 29; i >= 10; i-- {
				s += fmt.Sprintf("%d api 10/min allowed, ", i)
			}
			return s
		}(), ", "), true, 0},
		{"bad lines", "no JSON\n" + lineOf(1, "allowed", 200, ada) + "{\"v\":2,\"rules\":[" + ada + "]}\n{\"v\":1,\"time\":3,\"rules\":[" + ada + "]}\n{\"v\":1,\"rules\":[[" + ada + "]]}\n" + strings.Repeat("x", 100_000) + "\n\x00\x00\n" + lineOf(2, "allowed", 200, ada)[:80], apiAda, "1 api 10/min allowed", false, 6},
		{"4 MiB at most", lineOf(1, "allowed", 200, ada) + strings.Repeat(lineOf(2, "denied", 429, eve), mostBytes/100), apiAda, "", true, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := testkit.TempFile(t, "log", c.log)
			l, err := Find(path, c.keys, hashed)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, d := range l.Decisions {
				name := d.Rule
				if d.Level != "" {
					name += "/" + d.Level
				}
				if d.Remaining == nil || d.Method != http.MethodGet || d.Path != "/a" || d.Status == 0 || d.Verdict == "" || d.Mode == "" {
					t.Errorf("lacks something: %+v", d)
				}
				got = append(got, fmt.Sprintf("%d %s %s %s", d.Time.Second(), name, d.Limit, d.LimitVerdict))
			}
			if got := strings.Join(got, ", "); got != c.want || l.More != c.more || l.Unreadable != c.unreadable {
				t.Errorf("got %q, more %v, %d unreadable; want %q, %v, %d", got, l.More, l.Unreadable, c.want, c.more, c.unreadable)
			}
		})
	}
	if _, err := Find(t.TempDir(), apiAda, hashed); err == nil || !strings.HasPrefix(err.Error(), "the decision log cannot be read back: ") {
		t.Errorf("a folder: got %v", err)
	}
	if _, err := Find(filepath.Join(t.TempDir(), "gone"), apiAda, hashed); err == nil {
		t.Error("no file: no error")
	}
}

// FuzzLine: a line is about a key, unreadable, or neither.
func FuzzLine(f *testing.F) {
	for _, seed := range []string{lineOf(1, "allowed", 200, ada, adaTrial), lineOf(2, "denied", 429, adaPlain), "{\"v\":1}", "{\"v\":1,\"rules\":[null," + ada + "]}", "{\"v\":1,\"key\":\"ada\",\"rules\":[{}]}", ""} {
		f.Add([]byte(strings.TrimSuffix(seed, "\n")))
	}
	wanted := []names{{Key: Key{Rule: "api", Key: "ada"}, fields: hashed("ada")}, {Key: Key{Rule: "site"}}}
	f.Fuzz(func(t *testing.T, text []byte) {
		var l List
		l.add(text, wanted)
		if l.Unreadable+len(l.Decisions) > 1 {
			t.Errorf("got %+v", l)
		}
		for _, d := range l.Decisions {
			if d.Rule != "api" && d.Rule != "site" || d.Level != "" {
				t.Errorf("got %+v", d)
			}
		}
	})
}
