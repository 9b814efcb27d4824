// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"strings"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/policy"
)

func withAnswer(a policy.Answer) []policy.Rule {
	r := policy.NewRule("api", policy.IP(), sluice.PerMinute(1).WithName("minute"))
	r.Levels[0].By, r.Answer = nil, &a
	return []policy.Rule{r}
}

// Faults of an answer are found when it is compiled.
func TestAnswerFaults(t *testing.T) {
	long := strings.Repeat("x", 64<<10+1)
	field := func(name, value string) []policy.AnswerField {
		return []policy.AnswerField{{Name: name, Value: value}}
	}
	for _, c := range []struct {
		name string
		a    policy.Answer
		want string // empty: no fault
	}{
		{"nothing", policy.Answer{}, ""},
		{"a body", policy.Answer{ContentType: "text/plain; charset=utf-8", Body: "{ x } {} {limit}"}, ""},
		{"an unknown word", policy.Answer{ContentType: "text/plain", Body: "{limits}"}, "Answer.Body: {limits} is not a placeholder; use one of {limit}, {quota}"},
		{"an unknown word behind a brace", policy.Answer{ContentType: "text/plain", Body: "{{KEY}"}, "{KEY} is not a placeholder"},
		{"a word of a limit", policy.Answer{Fields: field("X", "{minute.remaining}")}, ""},
		{"a word of no limit", policy.Answer{Fields: field("X", "{hour.remaining}")}, `Answer.Fields[0]: no limit of the rule has the name "hour"; it has minute`},
		{"an unknown word of a limit", policy.Answer{Fields: field("X", "{minute.left}")}, "{minute.left} is not a placeholder"},
		{"a body without a type", policy.Answer{Body: "x"}, "a body and its content type go together"},
		{"a type without a body", policy.Answer{ContentType: "text/plain"}, "a body and its content type go together"},
		{"no JSON", policy.Answer{ContentType: "application/json", Body: `{"a":{name}}`}, "Answer.Body: is not JSON"},
		{"JSON by chance, as 1-1 is none", policy.Answer{ContentType: "application/json", Body: `[1{retry_after}]`}, "Answer.Body: is not JSON"},
		{"JSON by chance, by a name", policy.Answer{ContentType: "application/json", Body: `"\{rule}"`}, "Answer.Body: is not JSON"},
		{"JSON by chance, by words", policy.Answer{ContentType: "application/json", Body: `"\{detail}"`}, "Answer.Body: is not JSON"},
		{"a long body", policy.Answer{ContentType: "text/plain", Body: long}, "65537 bytes; a body has at most 65536"},
		{"a long field", policy.Answer{Fields: field("X", long)}, "must be at most 655 printable characters"},
		{"two fields in one", policy.Answer{Denied: field("X", "a\r\nSet-Cookie: b=c")}, "Answer.Denied[0]: the value of X must be"},
		{"a field that is no name", policy.Answer{Denied: field("X: a", "b")}, `"X: a" is not a header field's name`},
		{"the server's field", policy.Answer{Denied: field("content-length", "5")}, "Content-Length is set by the server"},
		{"two types in one", policy.Answer{ContentType: "text/plain\r\nX: y", Body: "x"}, "is no content type"},
		{"a status of success", policy.Answer{Status: 204}, "Answer.Status: 204 must be 400 to 599, or 200"},
		{"success without a body", policy.Answer{Status: 200}, "Answer.Status: a denial of status 200 differs from a success by its body only; set a body"},
		{"success without a body, of a limit", policy.Answer{Limits: map[string]policy.Answer{"minute": {Status: 200}}}, "Answer.Limits[minute].Status: a denial of status 200"},
		{"success with a body", policy.Answer{Status: 200, ContentType: "text/plain", Body: "x", Limits: map[string]policy.Answer{"minute": {Denied: field("X", "y")}}}, ""},
		{"fields of a limit", policy.Answer{Limits: map[string]policy.Answer{"minute": {Fields: field("X", "y")}}}, "Answer.Limits[minute]: the answer of a limit is to its denials"},
		{"no such limit", policy.Answer{Limits: map[string]policy.Answer{"hour": {Status: 503}}}, `Answer.Limits[hour]: no limit of the rule has the name "hour"; it has minute`},
		{"a limit with the type of the rule", policy.Answer{ContentType: "text/plain", Body: "a", Limits: map[string]policy.Answer{"minute": {Body: "b"}}}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := policy.Compile(withAnswer(c.a))
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}
