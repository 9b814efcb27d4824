// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
)

// denied returns the outcome of a request that a rule with an answer denied.
func denied(t *testing.T, p *policy.Policy) *evaluate.Call {
	t.Helper()
	f, err := evaluate.New(evaluate.Options{Store: memstore.New(memstore.Options{}), Policy: p})
	if err != nil {
		t.Fatal(err)
	}
	var call evaluate.Call
	for range 2 {
		f.Decide(t.Context(), (&policy.Request{Method: "GET", Path: "/"}).Attributes(), &call)
	}
	if call.Verdict != evaluate.Denied {
		t.Fatalf("got %v", call.Verdict)
	}
	return &call
}

func withAnswer(a policy.Answer) []policy.Rule {
	r := policy.NewRule("api", policy.IP(), sluice.PerMinute(1).WithName("minute"))
	r.Levels[0].By, r.Answer = nil, &a
	return []policy.Rule{r}
}

// Rules that were compiled already have the same answers.
func TestAnswersOfCompiledRules(t *testing.T) {
	p, err := policy.Compile(withAnswer(policy.Answer{Status: 503, ContentType: "text/plain", Body: "x", Limits: map[string]policy.Answer{"minute": {Status: 429}}}))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := policy.Compile(p.Rules()); err != nil || newRuleAnswers(again).status(&denied(t, again).Event) != 429 {
		t.Errorf("rules that were compiled already: %v", err)
	}
}

// FuzzAnswer: no text of an answer crashes, every body compiled as JSON is JSON, and no
// field has more than one line.
func FuzzAnswer(f *testing.F) {
	for _, text := range []string{"{limit}", `{"a":"{detail}"}`, "{{name}", "{", "{a", "{minute.remaining}", "{.}", "a\r\nb", `"{reset_date}"`, "[{retry_after},{used}]", `{"{detail}":{"{rule}":[]}}`} {
		f.Add(text, "application/json")
		f.Add(text, "text/html")
	}
	f.Fuzz(func(t *testing.T, text, kind string) {
		p, err := policy.Compile(withAnswer(policy.Answer{ContentType: kind, Body: text, Denied: []policy.AnswerField{{Name: "X", Value: text}}}))
		if err != nil {
			if p, err = policy.Compile(withAnswer(policy.Answer{ContentType: kind, Body: text})); err != nil {
				return
			}
		}
		call, h := denied(t, p), http.Header{}
		answers := newRuleAnswers(p)
		body := answers.of(&call.Event).appendBody(nil, &call.Event, 429)
		if strings.HasPrefix(kind, "application/json") && !json.Valid(body) {
			t.Errorf("%q became %q", text, body)
		}
		answers.set(h, &call.Event)
		for _, value := range slices.Concat(slices.Collect(maps.Values(h))...) {
			if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) {
				t.Errorf("%q became the field %q", text, value)
			}
		}
	})
}
