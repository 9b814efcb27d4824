// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sluicegate/sluice/policy/evaluate"
)

// With any error text, the document is JSON and holds the text.
func FuzzProblemIsJSON(f *testing.F) {
	for _, s := range []string{"", "header X-User is missing", `a "quoted" \ text`, "tab\t", "ü <>&", "\x00\xff", strings.Repeat("x", 300)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		e := Event{Event: evaluate.Event{Verdict: evaluate.Refused, Err: errors.New(text)}, Status: 400}
		var got struct {
			Type, Title, Detail string
			Status              int
		}
		p := problem{Event: &e.Event, status: e.Status}
		body := p.append(nil)
		if err := json.Unmarshal(body, &got); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		if got.Type != "about:blank" || got.Title != "Bad Request" || got.Status != 400 {
			t.Fatalf("got %s", body)
		}
		if utf8.ValidString(text) && got.Detail != text {
			t.Fatalf("detail %q, want %q", got.Detail, text)
		}
	})
}
