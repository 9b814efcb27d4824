// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

var updateDocs = flag.Bool("update", false, "write the answers in docs/admin-api.md")

const adminAPIPage = "../../../docs/admin-api.md"

// sample matches a request of the page and its answer. An excerpt lacks parts of the answer.
var sample = regexp.MustCompile("(?s)```http\n(.*?)```\n\n```json( excerpt)?\n(.*?)```")

// TestAdminAPIPage: the requests of the page are answered with the fields and types that it
// shows.
func TestAdminAPIPage(t *testing.T) {
	t.Parallel()
	page := testkit.ReadFile(t, adminAPIPage)
	r := servetest.Start(t, fmt.Sprintf(`
upstream: %s
admin: {address: "127.0.0.1:0", token_file: %s}
rules:
  - {name: api, by: header.X-User, limits: 100/min}
  - name: login
    match: {method: POST, path: /login}
    by: ip
    limits: 5/min
`, servetest.Backend(t, func(http.ResponseWriter, *http.Request) {}), tokenFile(t, goodToken)), servetest.Stopped)
	for i := range 10 {
		a := servetest.Do(t, http.DefaultClient, servetest.Request(t.Context(), t, http.MethodPost, r.URL+"/login", http.NoBody, "X-User", "ada"))
		if allowed := a.Status != http.StatusTooManyRequests; allowed != (i < 5) {
			t.Fatalf("request %d: %d", i, a.Status)
		}
	}
	samples := 0
	mended := sample.ReplaceAllFunc(page, func(block []byte) []byte {
		samples++
		m := sample.FindSubmatch(block)
		head, body, _ := strings.Cut(string(m[1]), "\n")
		method, path, _ := strings.Cut(head, " ")
		fields := []string{own}
		if !strings.HasPrefix(path, "/v1/session") {
			fields = append(fields, "Authorization: Bearer "+goodToken)
		}
		got, _ := browse(t, r, nil, method, path, strings.ReplaceAll(body, "TOKEN", goodToken), fields...)
		var want, have any
		if err := json.Unmarshal(m[3], &want); err != nil && !*updateDocs {
			t.Errorf("%s: %v", head, err)
			return block
		}
		if err := json.Unmarshal([]byte(got.Body), &have); err != nil || got.Status != http.StatusOK {
			t.Errorf("%s: %d %s", head, got.Status, got.Body)
			return block
		}
		excerpt := len(m[2]) > 0
		for _, problem := range differ("", want, have, excerpt) {
			if !*updateDocs || excerpt {
				t.Errorf("%s: %s", head, problem)
			}
		}
		if excerpt {
			return block
		}
		return bytes.Replace(block, append([]byte("json\n"), m[3]...), []byte("json\n"+strings.ReplaceAll(got.Body, filepath.Dir(r.File), "/etc/sluice")), 1)
	})
	if samples < 8 {
		t.Errorf("the page has %d samples", samples)
	}
	if *updateDocs {
		testkit.WriteFile(t, adminAPIPage, mended)
	}
}

// differ returns how the fields and types of an answer differ from a sample.
func differ(at string, want, have any, excerpt bool) (problems []string) {
	switch want := want.(type) {
	case map[string]any:
		have, ok := have.(map[string]any)
		if !ok {
			return []string{at + " is no object"}
		}
		for name, value := range want {
			if got, ok := have[name]; ok {
				problems = append(problems, differ(at+"."+name, value, got, excerpt)...)
			} else {
				problems = append(problems, at+"."+name+" is not in the answer")
			}
		}
		for name := range have {
			if _, ok := want[name]; !ok && !excerpt {
				problems = append(problems, at+"."+name+" is not in the page")
			}
		}
		slices.Sort(problems)
	case []any:
		have, ok := have.([]any)
		if !ok || len(have) == 0 && len(want) > 0 {
			return []string{at + " is no list, or empty"}
		}
		if len(want) > 0 {
			return differ(at+"[0]", want[0], have[0], excerpt)
		}
	default:
		if fmt.Sprintf("%T", want) != fmt.Sprintf("%T", have) {
			return []string{fmt.Sprintf("%s is %T in the page and %T in the answer", at, want, have)}
		}
	}
	return problems
}
