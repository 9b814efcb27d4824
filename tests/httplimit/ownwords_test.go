// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
)

// said is an expected answer: its status, its body, and some fields; an empty field must be
// absent.
type said struct {
	after  time.Duration
	status int
	body   string
	fields map[string]string
}

// answerFields returns fields of alternating names and values.
func answerFields(all ...string) (list []policy.AnswerField) {
	for i := 0; i < len(all); i += 2 {
		list = append(list, policy.AnswerField{Name: all[i], Value: all[i+1]})
	}
	return list
}

// TestAnswersOfPlatforms: answers can have the form that clients of some APIs know. The
// bubble's clock begins with the year 2000.
func TestAnswersOfPlatforms(t *testing.T) {
	for _, c := range []struct {
		name   string
		fields httplimit.Fields
		limits []string
		answer policy.Answer
		say    []said
	}{
		{
			name: "draft-03", fields: httplimit.NoFields, limits: []string{"2/min fixed-window"},
			answer: policy.Answer{Fields: answerFields("RateLimit-Limit", "{limit}, {limit};w={window}", "RateLimit-Remaining", "{remaining}", "RateLimit-Reset", "{reset}")},
			say: []said{
				{0, 200, "ok\n", map[string]string{"RateLimit-Limit": "2, 2;w=60", "RateLimit-Remaining": "1", "RateLimit-Reset": "60", "RateLimit": ""}},
				{10 * time.Second, 200, "ok\n", map[string]string{"RateLimit-Remaining": "0", "RateLimit-Reset": "50"}},
				{
					500 * time.Millisecond, 429, `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota exceeded","status":429,"detail":"the quota of the limit \"api\" is used up; retry after 50 s","violated-policies":["api"]}` + "\n",
					map[string]string{"RateLimit-Remaining": "0", "RateLimit-Reset": "50", "Content-Type": "application/problem+json"},
				},
			},
		},
		{
			name: "Shopify REST", fields: httplimit.NoFields, limits: []string{"2/s burst 3 leaky-bucket nodelay"},
			answer: policy.Answer{
				ContentType: "application/json", Body: `{"errors":"Exceeded {quota} calls per second for api client. Reduce request rates to resume uninterrupted service."}`,
				Fields: answerFields("X-Shopify-Shop-Api-Call-Limit", "{used}/{limit}"), Denied: answerFields("Retry-After", "{retry_after}.0"),
			},
			say: []said{
				{0, 200, "ok\n", map[string]string{"X-Shopify-Shop-Api-Call-Limit": "1/3", "Retry-After": ""}},
				{0, 200, "ok\n", map[string]string{"X-Shopify-Shop-Api-Call-Limit": "2/3"}},
				{0, 200, "ok\n", map[string]string{"X-Shopify-Shop-Api-Call-Limit": "3/3"}},
				{
					0, 429, `{"errors":"Exceeded 2 calls per second for api client. Reduce request rates to resume uninterrupted service."}`,
					map[string]string{"X-Shopify-Shop-Api-Call-Limit": "3/3", "Retry-After": "1.0", "Content-Type": "application/json", "Cache-Control": "no-store"},
				},
			},
		},
		{
			name: "Shopify GraphQL", limits: []string{"1/s burst 1"},
			answer: policy.Answer{Status: 200, ContentType: "application/json", Body: `{"errors":[{"message":"Throttled","extensions":{"code":"THROTTLED"}}],"extensions":{"cost":{"throttleStatus":{"maximumAvailable":{limit},"currentlyAvailable":{remaining},"restoreRate":{quota}}}}}`},
			say: []said{
				{0, 200, "ok\n", nil},
				{0, 200, `{"errors":[{"message":"Throttled","extensions":{"code":"THROTTLED"}}],"extensions":{"cost":{"throttleStatus":{"maximumAvailable":1,"currentlyAvailable":0,"restoreRate":1}}}}`, map[string]string{"Retry-After": "1"}},
			},
		},
		{
			name: "Amazon MWS", fields: httplimit.NoFields, limits: []string{"bucket: 1/2min burst 2", "hour: 3/h fixed-window"},
			answer: policy.Answer{
				Status: 503, ContentType: "text/xml", Body: "<Code>RequestThrottled</Code><Message>{detail}</Message>",
				Fields: answerFields("x-mws-quota-max", "{hour.limit}.0", "x-mws-quota-remaining", "{hour.remaining}.0", "x-mws-quota-resetsOn", "{hour.reset_date}"),
				Limits: map[string]policy.Answer{"hour": {Body: "<Code>QuotaExceeded</Code><Message>until {reset_time}</Message>"}},
			},
			say: []said{
				{0, 200, "ok\n", map[string]string{"x-mws-quota-max": "3.0", "x-mws-quota-remaining": "2.0", "x-mws-quota-resetsOn": "Sat, 01 Jan 2000 01:00:00 GMT"}},
				{0, 200, "ok\n", map[string]string{"x-mws-quota-remaining": "1.0"}},
				{0, 503, "<Code>RequestThrottled</Code><Message>the quota of the limit &#34;api/bucket&#34; is used up; retry after 120 s</Message>", map[string]string{"x-mws-quota-remaining": "1.0", "Content-Type": "text/xml", "Retry-After": "120"}},
				{2 * time.Minute, 200, "ok\n", map[string]string{"x-mws-quota-remaining": "0.0"}},
				{2 * time.Minute, 503, "<Code>QuotaExceeded</Code><Message>until 2000-01-01T01:00:00Z</Message>", map[string]string{"x-mws-quota-remaining": "0.0", "Retry-After": "3360"}},
			},
		},
		{
			name: "API Gateway", fields: httplimit.NoFields, limits: []string{"rate: 1/s burst 1", "quota: 2/day fixed-window calendar UTC"},
			answer: policy.Answer{
				ContentType: "application/json", Body: `{"message":"Too Many Requests"}`, Denied: answerFields("x-amzn-ErrorType", "TooManyRequestsException"),
				Limits: map[string]policy.Answer{"quota": {Body: `{"message":"Limit Exceeded"}`, Denied: answerFields("x-amzn-ErrorType", "LimitExceededException")}},
			},
			say: []said{
				{0, 200, "ok\n", map[string]string{"x-amzn-ErrorType": ""}},
				{0, 429, `{"message":"Too Many Requests"}`, map[string]string{"x-amzn-ErrorType": "TooManyRequestsException"}},
				{time.Second, 200, "ok\n", nil},
				{time.Second, 429, `{"message":"Limit Exceeded"}`, map[string]string{"x-amzn-ErrorType": "LimitExceededException"}},
			},
		},
		{
			name: "every word", limits: []string{"per: 1/min fixed-window"},
			answer: policy.Answer{ContentType: "text/plain", Body: "{limit} {quota} {window} {remaining} {used} {reset} {reset_unix} {reset_date} {reset_time} {retry_after} {retry_after_ms} {rule} {name} {status} {detail} { limit } {{limit}} {}"},
			say: []said{
				{500 * time.Millisecond, 200, "ok\n", nil},
				{0, 429, "1 1 60 0 1 60 946684860 Sat, 01 Jan 2000 00:01:00 GMT 2000-01-01T00:01:00Z 60 59500 api api 429 " + `the quota of the limit "api" is used up; retry after 60 s { limit } {1} {}`, nil},
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rule(t, "api", policy.IP(), c.limits...)
				r.Answer = &c.answer
				h := newMiddleware(t, httplimit.Options{Store: memstore.New(memstore.Options{}), Rules: []policy.Rule{r}, Fields: c.fields}).Wrap(ok)
				for i, want := range c.say {
					time.Sleep(want.after)
					rec := ask(t, h, "/")
					if rec.Code != want.status || rec.Body.String() != want.body {
						t.Errorf("request %d: got %d %s\nwant %d %s", i+1, rec.Code, rec.Body, want.status, want.body)
					}
					for name, value := range want.fields {
						if got := field(rec, name); got != value {
							t.Errorf("request %d: %s: %q, want %q", i+1, name, got, value)
						}
					}
				}
			})
		})
	}
}

// TestAnswersOfSeveralRules: each rule that applies sets its fields on every response, for its
// own limits, and a denial has the answer of the rule that binds. A request that was not
// decided has none.
func TestAnswersOfSeveralRules(t *testing.T) {
	user, address := rule(t, "user", policy.Header("User"), "1/min"), rule(t, "address", policy.IP(), "3/min")
	user.Answer = &policy.Answer{
		ContentType: "application/json", Body: `{"rule":"{rule}","wait":{retry_after}}`,
		Fields: answerFields("User-Left", "{remaining}"), Denied: answerFields("User-Denied", "{name}"),
	}
	address.Answer = &policy.Answer{Fields: answerFields("Address-Left", "{remaining}")}
	h := newMiddleware(t, httplimit.Options{Store: newStore(newClock()), Rules: []policy.Rule{user, address}}).Wrap(ok)
	for i, step := range []struct {
		user               string
		status             int
		userLeft, left, by string
	}{
		{"ada", 200, "0", "2", ""},
		{"ada", 429, "0", "2", "user"},
		{"bob", 200, "0", "1", ""},
		{"cid", 200, "0", "0", ""},
		{"dan", 429, "1", "0", ""}, // by the address, which has no words of its own
	} {
		rec := ask(t, h, "/", "User: "+step.user)
		if rec.Code != step.status || field(rec, "User-Left") != step.userLeft || field(rec, "Address-Left") != step.left || field(rec, "User-Denied") != step.by {
			t.Errorf("request %d: got %d %v, want %+v", i+1, rec.Code, rec.Header(), step)
		}
		if own := rec.Body.String() == `{"rule":"user","wait":60}`; own != (step.by == "user") {
			t.Errorf("request %d: body %s", i+1, rec.Body)
		}
	}
	rec := ask(t, h, "/") // without a key
	if rec.Code != 400 || field(rec, "User-Left") != "" || !strings.Contains(rec.Body.String(), `"status":400`) {
		t.Errorf("refused: %d %v %s", rec.Code, rec.Header(), rec.Body)
	}
}

// TestAnswersOfSlots: a denial by a limit of requests in flight has the rule's answer, too,
// with unknown times.
func TestAnswersOfSlots(t *testing.T) {
	r := rule(t, "slots", policy.Header("Slot"))
	r.Levels[0].InFlight = &sluice.SlotLimit{Cap: 1, TTL: time.Minute}
	r.Answer = &policy.Answer{
		ContentType: "text/plain", Body: "{limit}: {retry_after} {retry_after_ms} {reset} {reset_unix} {reset_date}|{reset_time}|{name}",
		Denied: answerFields("Slots", "{limit}", "When", "{retry_after}", "At", "{reset_date}"),
		Limits: map[string]policy.Answer{"slots": {Status: 503}},
	}
	mw := newMiddleware(t, httplimit.Options{Store: newStore(newClock()), Rules: []policy.Rule{r}})
	held := mw.Decide(request(t, "/", "Slot: s"))
	if !held.Allowed() {
		t.Fatalf("the first is not let in: %+v", held.Event())
	}
	rec := ask(t, mw.Wrap(ok), "/", "Slot: s")
	if rec.Code != 503 || rec.Body.String() != "1: -1 -1 -1 -1 ||slots/slots" || field(rec, "Slots") != "1" || rec.Header()["When"] != nil || rec.Header()["At"] != nil {
		t.Errorf("got %d %q %v", rec.Code, rec.Body, rec.Header())
	}
	held.Settle(policy.Response{Status: 200})
}

// TestAnswerInItsFormat: with any texts, an answer in JSON is JSON.
func TestAnswerInItsFormat(t *testing.T) {
	r := rule(t, "api", policy.IP(), `1/min`)
	r.Cost.Units = 2
	r.Answer = &policy.Answer{
		ContentType: "application/problem+json; charset=utf-8", Denied: answerFields("When", "{retry_after}"),
		Body: `{"why":"{detail}","wait":{retry_after},"at":"{reset_date}","limit":{limit},"name":"{name}"}`,
	}
	h := newMiddleware(t, httplimit.Options{Store: newStore(newClock()), Rules: []policy.Rule{r}}).Wrap(ok)
	rec := ask(t, h, "/")
	var got struct {
		Why  string
		Wait int
		Name string
	}
	if err := json.Unmarshal(rec.Body.Bytes(), &got); err != nil || got.Wait != -1 || got.Name != "api" || !strings.Contains(got.Why, `the limit "api" can ever allow`) {
		t.Errorf("%v, got %+v of %s", err, got, rec.Body)
	}
	if when := rec.Header()["When"]; when != nil || rec.Header()["Retry-After"] != nil {
		t.Errorf("a request that never fits is asked to come again: %v", rec.Header())
	}
}

// TestAnswerReplacesFields: a field of a rule's answer replaces the front's own, and Refuse of
// the Options still writes the answer.
func TestAnswerReplacesFields(t *testing.T) {
	r := rule(t, "api", policy.IP(), "1/min")
	r.Answer = &policy.Answer{
		Status: 503, ContentType: "text/plain", Body: "words", Fields: answerFields("x-left", "{remaining}"),
		Denied: answerFields("retry-after", "soon"),
	}
	o := httplimit.Options{Store: newStore(newClock()), Rules: []policy.Rule{r}, OnDecision: func(*http.Request, httplimit.Event) {}}
	o.Refuse = func(w http.ResponseWriter, _ *http.Request, e httplimit.Event) { http.Error(w, "mine", e.Status) }
	h := newMiddleware(t, o).Wrap(ok)
	outer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header()["X-Left"] = []string{"of another"}
		h.ServeHTTP(w, r)
	})
	ask(t, outer, "/")
	rec := httptest.NewRecorder()
	outer.ServeHTTP(rec, request(t, "/"))
	if rec.Code != 503 || rec.Body.String() != "mine\n" || rec.Header()["X-Left"] != nil || field(rec, "x-left") != "0" || rec.Header()["Retry-After"] != nil || field(rec, "retry-after") != "soon" {
		t.Errorf("got %d %s %v", rec.Code, rec.Body, rec.Header())
	}
}
