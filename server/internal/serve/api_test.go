// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

const apiSecret = "0123456789abcdef"

// apiAnswer is an answer of the API.
type apiAnswer struct {
	Status    int
	Body      string      `json:"-"`
	Allowed   bool        `json:"allowed"`
	Verdict   string      `json:"verdict"`
	Limit     string      `json:"limit"`
	Unlimited bool        `json:"unlimited"`
	Remaining int64       `json:"remaining"`
	Violated  []string    `json:"violated"`
	Spent     int64       `json:"spent"`
	RetryMS   int64       `json:"retry_after_ms"`
	DelayMS   int64       `json:"delay_ms"`
	TooLarge  bool        `json:"too_large"`
	Detail    string      `json:"detail"`
	Degraded  bool        `json:"degraded"`
	Hold      string      `json:"hold"`
	ID        string      `json:"id"`
	Receipt   string      `json:"receipt"`
	Held      int64       `json:"held"`
	Free      int64       `json:"free"`
	Results   []apiAnswer `json:"results"`
	Field     string      `json:"field"`
	Errors    []struct {
		Field  string `json:"field"`
		Detail string `json:"detail"`
	} `json:"errors"`
}

// apiClient calls an API.
type apiClient struct {
	url, secret string
	key         string // the Idempotency-Key
}

func (c apiClient) call(t *testing.T, path, body string) (a apiAnswer) {
	t.Helper()
	header := []string{"Content-Type", "application/json"}
	if c.secret != "" {
		header = append(header, "Authorization", "Bearer "+c.secret)
	}
	if c.key != "" {
		header = append(header, "Idempotency-Key", c.key)
	}
	got := servetest.Do(t, http.DefaultClient, servetest.Request(t.Context(), t, http.MethodPost, c.url+path, strings.NewReader(body), header...))
	if err := json.Unmarshal([]byte(got.Body), &a); err != nil {
		t.Fatalf("%s %s: %d %q: %v", path, body, got.Status, got.Body, err)
	}
	media := "application/json"
	if got.Status != http.StatusOK {
		media = "application/problem+json"
	}
	if got.Header.Get("Content-Type") != media {
		t.Errorf("%s %s: %d as %s", path, body, got.Status, got.Header.Get("Content-Type"))
	}
	a.Status, a.Body = got.Status, got.Body
	return a
}

// allowed is a call that must be allowed, and denied one that must not.
func (c apiClient) allowed(t *testing.T, path, body string) apiAnswer {
	t.Helper()
	a := c.call(t, path, body)
	if a.Status != http.StatusOK || !a.Allowed {
		t.Errorf("%s %s: got %+v, want allowed", path, body, a)
	}
	return a
}

func (c apiClient) denied(t *testing.T, path, body string) apiAnswer {
	t.Helper()
	a := c.call(t, path, body)
	if a.Status != http.StatusOK || a.Allowed {
		t.Errorf("%s %s: got %+v, want denied", path, body, a)
	}
	return a
}

// refuses is a call that must be refused with a status and a field.
func (c apiClient) refuses(t *testing.T, status int, field, path, body string) apiAnswer {
	t.Helper()
	a := c.call(t, path, body)
	if a.Status != status || a.Field != field {
		t.Errorf("%s %.200s: got %d with the field %q (%+v), want %d with %q", path, body, a.Status, a.Field, a.Errors, status, field)
	}
	return a
}

// allTokens are two tokens without bounds, and one with.
const allTokens = `{"tokens": [
 {"name": "shop", "secret": "` + apiSecret + `", "own_limits": true, "operations": ["take", "peek", "hold", "settle", "extend", "refund", "reset", "slots"]},
 {"name": "other", "secret": "other-` + apiSecret + `", "own_limits": true},
 {"name": "few", "sha256": "c71b2b4c0eaf0ba0a6c6f4b0fae4f8d1a5b3f5a3ba6b4d52ae47c2fcb9f3e5f2", "rules": ["few"]},
 {"name": "one", "secret": "one-` + apiSecret + `", "rules": ["few"], "operations": ["peek"]}
]}`

// startAPI starts a gateway with a proxy and an API, and returns a client with the rights of shop.
func startAPI(t *testing.T, rest string) (*servetest.Gateway, apiClient) {
	t.Helper()
	at, tokens := testkit.FreeAddress(t), filepath.Join(t.TempDir(), "tokens.json")
	if err := os.WriteFile(tokens, []byte(allTokens), 0o600); err != nil {
		t.Fatal(err)
	}
	s := servetest.Start(t, fmt.Sprintf("listen: [127.0.0.1:0, {address: %q, serve: api, tokens_file: %q}]\nadmin: 127.0.0.1:0\n%s", at, tokens, rest))
	return s, apiClient{url: "http://" + at, secret: apiSecret}
}

// TestAPIRecords: decisions of the API are on the page, in the metrics and in the logs.
func TestAPIRecords(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "decisions")
	s, api := startAPI(t, fmt.Sprintf("decision_log: {file: %q, keys: plain}\nrules: [{name: few, by: ip, limits: 1/day sliding-log}]\n", log))
	const body = `{"rule": "few", "client": "192.0.2.7", "method": "PUT", "path": "/described"}`
	api.allowed(t, "/v1/take", body)
	api.denied(t, "/v1/take", body)
	api.denied(t, "/v1/take", `{"all": true, "requests": [`+body+`]}`)
	api.denied(t, "/v1/peek", body)
	api.allowed(t, "/v1/take", `{"scope": "jobs", "key": "ada", "limits": ["1/day"]}`)
	api.refuses(t, 400, "rule", "/v1/take", `{}`)
	m := s.Metrics(t)
	for name, want := range map[string]float64{
		`sluice_requests_total{verdict="allowed"}`:                                     2,
		`sluice_requests_total{verdict="denied"}`:                                      2,
		`sluice_decisions_total{limit="sliding-log.day",scope="few",verdict="denied"}`: 2,
		`sluice_api_refused_total{reason="faults"}`:                                    1,
	} {
		if m[name] != want {
			t.Errorf("%s is %v, want %v", name, m[name], want)
		}
	}
	for name := range m {
		if strings.Contains(name, "jobs") {
			t.Errorf("%s has a name that a client chose", name)
		}
	}
	policy := servetest.Fetch(t, http.DefaultClient, s.Admin+"/v1/policy").Body
	if !strings.Contains(policy, `"denied":2`) && !strings.Contains(policy, `"denied": 2`) {
		t.Errorf("the page does not show two denials: %s", policy)
	}
	testkit.Until(t, "the decisions to be logged", func() bool {
		text, _ := os.ReadFile(log)
		return strings.Count(string(text), "\n") == 4 && strings.Count(string(text), `"client":"192.0.2.7"`) == 3 &&
			strings.Contains(string(text), `"method":"PUT"`) && strings.Contains(string(text), `"path":"/described"`)
	})
}

// TestAPIDegraded: while the store is away each rule's failure policy decides, and the answer
// says so.
func TestAPIDegraded(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Redis(t))
	_, api := startAPI(t, fmt.Sprintf(`store: {redis: {url: %q}}
rules:
  - {name: few, limits: 1/day}
  - {name: open, limits: 1/day}
  - {name: shut, limits: 5/day, failure: closed}
`, server.URL()))
	api.allowed(t, "/v1/take", `{"rule": "shut"}`)
	receipt := api.allowed(t, "/v1/take", `{"rule": "shut"}`).Receipt
	server.Kill(t)
	testkit.Until(t, "the store to be known to be away", func() bool { return api.call(t, "/v1/take", `{"rule": "open"}`).Degraded })
	for body, allowed := range map[string]bool{
		`{"rule": "open"}`:                       true,
		`{"rule": "shut"}`:                       false,
		`{"scope": "jobs", "limits": ["1/day"]}`: true,
		`{"all": true, "requests": [{"rule": "open"}, {"rule": "few"}]}`:      true,
		`{"all": true, "requests": [{"rule": "open"}, {"rule": "shut"}]}`:     false,
		`{"requests": [{"rule": "open"}, {"rule": "shut"}, {"rule": "few"}]}`: false,
	} {
		a := api.call(t, "/v1/take", body)
		degraded := a.Degraded
		for _, r := range a.Results {
			degraded = degraded || r.Degraded
		}
		if a.Status != 200 || a.Allowed != allowed || !degraded {
			t.Errorf("%s: got %+v, want allowed %v and degraded", body, a, allowed)
		}
		for _, r := range append(a.Results, a) {
			if r.Verdict != "" && r.Allowed == (r.Detail != "") || r.Verdict == "failed-open" && !r.Allowed || len(r.Violated) > 0 {
				t.Errorf("%s: got %+v", body, r)
			}
		}
		if strings.Contains(a.Body, "remaining") {
			t.Errorf("%s: got %s", body, a.Body)
		}
	}
	for path, body := range map[string]string{
		"/v1/reset":  `{"rule": "shut"}`,
		"/v1/refund": fmt.Sprintf(`{"rule": "shut", "receipt": %q}`, receipt),
	} {
		if a := api.denied(t, path, body); !a.Degraded || a.RetryMS < 1 {
			t.Errorf("%s: got %+v", path, a)
		}
	}
	if a := api.allowed(t, "/v1/slots/acquire", `{"scope": "a", "owner": "a", "cap": 2, "ttl_ms": 1000}`); !a.Degraded || a.Free != 0 || a.Held != 0 {
		t.Errorf("slots: got %+v", a)
	}
}

// TestAPITokens: a token says what its holder may do, and the file is read again.
func TestAPITokens(t *testing.T) {
	t.Parallel()
	at, tokens := testkit.FreeAddress(t), filepath.Join(t.TempDir(), "tokens.json")
	write := func(text string) { servetest.Replace(t, tokens, text) }
	write(allTokens)
	file := fmt.Sprintf("listen: [127.0.0.1:0, {address: %q, serve: api, tokens_file: %q}]\nadmin: 127.0.0.1:0\nrules: [{name: few, limits: 100/day}, {name: rest, limits: 100/day}]\n", at, tokens)
	s := servetest.Start(t, file)
	one := apiClient{url: "http://" + at, secret: "one-" + apiSecret}
	one.allowed(t, "/v1/peek", `{"rule": "few"}`)
	one.refuses(t, 403, "", "/v1/take", `{"rule": "few"}`)
	one.refuses(t, 400, "rule", "/v1/peek", `{"rule": "rest"}`)
	one.refuses(t, 403, "", "/v1/peek", `{"scope": "a", "limits": ["1/s"]}`)
	other := apiClient{url: "http://" + at, secret: "other-" + apiSecret}
	other.refuses(t, 403, "", "/v1/reset", `{"rule": "few"}`)
	other.refuses(t, 403, "", "/v1/refund", `{"rule": "few", "receipt": "1.1.1.1"}`)
	for _, secret := range []string{"", "x", apiSecret + "x", strings.ToUpper(apiSecret)} {
		apiClient{url: "http://" + at, secret: secret}.refuses(t, 401, "", "/v1/take", `{"rule": "few"}`)
	}
	write(`{"tokens": [{"name": "new", "secret": "new-` + apiSecret + `"}]}`)
	now := apiClient{url: "http://" + at, secret: "new-" + apiSecret}
	testkit.Until(t, "the new token to be active", func() bool { return now.call(t, "/v1/take", `{"rule": "rest"}`).Allowed })
	one.refuses(t, 401, "", "/v1/peek", `{"rule": "few"}`)
	write(`{"tokens": [{"name": "N", "secret": "short", "rules": ["nix"], "operations": ["eat"]}, {}]}`)
	for _, want := range []string{"tokens[0].name", "tokens[0].secret", "tokens[0].rules[0]", "tokens[0].operations[0]", "tokens[1].name", "tokens[1].secret"} {
		s.ExpectLog(t, want)
	}
	now.allowed(t, "/v1/take", `{"rule": "rest"}`)
}

// TestAPIBudgets: no holder of a token reaches a budget or an answer of another.
func TestAPIBudgets(t *testing.T) {
	t.Parallel()
	_, shop := startAPI(t, "rules: [{name: few, limits: 10/day sliding-log}]\n")
	other := apiClient{url: shop.url, secret: "other-" + apiSecret}
	const jobs = `{"scope": "jobs", "key": "ada", "limits": ["2/day sliding-log"], "cost": 2}`
	shop.allowed(t, "/v1/take", jobs)
	shop.denied(t, "/v1/take", jobs)
	for _, scope := range []string{"../shop/jobs", "shop/jobs", "/../jobs", "api:shop/jobs", "jobs\\u0000", "few"} {
		body := fmt.Sprintf(`{"scope": "%s", "key": "ada", "limits": ["2/day sliding-log"], "cost": 2}`, scope)
		other.allowed(t, "/v1/take", body)
		other.denied(t, "/v1/take", body)
	}
	shop.denied(t, "/v1/take", jobs)
	if a := shop.allowed(t, "/v1/peek", `{"rule": "few"}`); a.Remaining != 10 {
		t.Errorf("a scope of a rule's name has spent of the rule: %+v", a)
	}

	shop.key, other.key = "key", "key"
	const take = `{"rule": "few", "cost": 3}`
	for i, c := range []apiClient{shop, shop, other, other, shop} {
		if a := c.allowed(t, "/v1/take", take); a.Hold != "settled" || a.Receipt != "" {
			t.Errorf("call %d: got %+v", i+1, a)
		}
	}
	shop.denied(t, "/v1/take", `{"rule": "few", "cost": 4}`)
	shop.key = ""
	if a := shop.allowed(t, "/v1/peek", `{"rule": "few"}`); a.Remaining != 4 {
		t.Errorf("two takes of 3 under one key of two tokens: %d of 10 are left, want 4", a.Remaining)
	}
	shop.allowed(t, "/v1/hold", `{"rule": "few", "cost": 3, "id": "mine", "ttl_ms": 60000}`)
	if a := other.call(t, "/v1/settle", `{"rule": "few", "cost": 0, "id": "mine", "retry": true}`); a.Hold == "settled" {
		t.Errorf("another token's hold was settled: %+v", a)
	}
}

// TestAPIMinted: a token brings few new limits a minute, and those that are known stay usable.
func TestAPIMinted(t *testing.T) {
	t.Parallel()
	s, shop := startAPI(t, "rules: [{name: few, limits: 10/day}]\n")
	other := apiClient{url: shop.url, secret: "other-" + apiSecret}
	own := func(i int) string { return fmt.Sprintf(`{"scope": "s", "limits": ["%d/day"]}`, 1000+i) }
	refused := 0
	for i := range 200 {
		switch a := shop.call(t, "/v1/take", own(i)); a.Status {
		case 200:
		case 429:
			if refused++; a.RetryMS < 1 {
				t.Errorf("got %+v", a)
			}
		default:
			t.Fatalf("got %+v", a)
		}
	}
	if refused < 100 {
		t.Errorf("%d of 200 new limits were refused", refused)
	}
	shop.allowed(t, "/v1/take", own(0))
	other.allowed(t, "/v1/take", own(0))
	if got := s.Metrics(t)[`sluice_api_refused_total{reason="limits"}`]; got != float64(refused) {
		t.Errorf("the metric says %v, want %d", got, refused)
	}
}

// TestAPIOperations: each operation does what it says, for a rule and for a scope.
func TestAPIOperations(t *testing.T) {
	t.Parallel()
	_, api := startAPI(t, "rules: [{name: few, by: [header.X-User, ip], limits: [100/day sliding-log debt 100, 1000/day fixed-window debt 100]}]\n")
	for name, of := range map[string]string{
		"rule":  `"rule": "few", "headers": {"x-user": ["ada"]}, "client": "192.0.2.7"`,
		"scope": `"scope": "llm/tokens", "key": "ada", "limits": ["100/day sliding-log debt 100", "1000/day fixed-window debt 100"]`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body := func(more string) string { return "{" + of + more + "}" }
			left := func(want int64) {
				t.Helper()
				if a := api.allowed(t, "/v1/peek", body(`, "cost": 0`)); a.Remaining != want {
					t.Errorf("%d are left, want %d", a.Remaining, want)
				}
			}
			a := api.allowed(t, "/v1/take", body(`, "cost": 30`))
			left(70)
			if b := api.allowed(t, "/v1/refund", body(fmt.Sprintf(`, "receipt": %q, "cost": 10`, a.Receipt))); b.Spent != -10 || b.Receipt == "" {
				t.Errorf("refund: got %+v", b)
			} else {
				left(80)
				api.allowed(t, "/v1/refund", body(fmt.Sprintf(`, "receipt": %q`, b.Receipt)))
			}
			left(100)
			if b := api.allowed(t, "/v1/hold", body(`, "cost": 40, "id": "h", "ttl_ms": 60000`)); b.Hold != "open" || b.ID != "h" {
				t.Errorf("hold: got %+v", b)
			}
			api.allowed(t, "/v1/hold", body(`, "cost": 40, "id": "h", "ttl_ms": 60000`))
			left(60)
			api.allowed(t, "/v1/extend", body(`, "id": "h", "ttl_ms": 90000`))
			if b := api.allowed(t, "/v1/settle", body(`, "cost": 70, "id": "h"`)); b.Hold != "settled" || b.Spent != 70 {
				t.Errorf("settle: got %+v", b)
			}
			left(30)
			api.denied(t, "/v1/extend", body(`, "id": "h", "ttl_ms": 90000`))
			if b := api.denied(t, "/v1/take", body(`, "cost": 31`)); b.RetryMS < 1 || b.Detail == "" {
				t.Errorf("denied: got %+v", b)
			}
			if b := api.denied(t, "/v1/take", body(`, "cost": 1001`)); !b.TooLarge || b.RetryMS != 0 {
				t.Errorf("too large: got %+v", b)
			}
			if b := api.call(t, "/v1/hold", body(`, "cost": 1, "ttl_ms": 60000`)); len(b.ID) < 20 {
				t.Errorf("a hold without an id: got %+v", b)
			}
			api.allowed(t, "/v1/reset", body(""))
			left(100)

			a = api.denied(t, "/v1/take", fmt.Sprintf(`{"all": true, "requests": [%s, %s]}`, body(`, "cost": 60`), body(`, "cost": 60`)))
			if len(a.Results) != 2 || a.Results[0].Allowed || a.Results[1].Allowed {
				t.Errorf("all or none: got %+v", a)
			}
			left(100)
			api.allowed(t, "/v1/take", fmt.Sprintf(`{"all": true, "requests": [%s, %s]}`, body(`, "cost": 60`), body(`, "cost": 40`)))
			left(0)
			a = api.denied(t, "/v1/take", fmt.Sprintf(`{"requests": [%s, %s]}`, body(`, "cost": 0`), body(`, "cost": 1`)))
			if len(a.Results) != 2 || !a.Results[0].Allowed || a.Results[1].Allowed {
				t.Errorf("a batch: got %+v", a)
			}
		})
	}
	slot := func(owner string) string {
		return fmt.Sprintf(`{"scope": "exports", "key": "ada", "owner": %q, "cap": 1, "ttl_ms": 60000}`, owner)
	}
	api.allowed(t, "/v1/slots/acquire", slot("a"))
	api.denied(t, "/v1/slots/acquire", slot("b"))
	api.allowed(t, "/v1/slots/renew", slot("a"))
	api.denied(t, "/v1/slots/renew", slot("b"))
	api.allowed(t, "/v1/slots/release", slot("a"))
	api.allowed(t, "/v1/slots/acquire", slot("b"))
	if a := api.allowed(t, "/v1/take", `{"rule": "few", "method": "GET", "headers": {"X-User": ["x"]}, "client": "192.0.2.8"}`); a.Unlimited {
		t.Errorf("got %+v", a)
	}
	if a := api.denied(t, "/v1/take", `{"rule": "few"}`); a.Verdict != "refused" || !strings.Contains(a.Detail, "missing") {
		t.Errorf("without a key: got %+v", a)
	}
}

// TestAPIFaults: calls that ask for more than their share, or for what is not there, are
// refused, with all faults and their fields.
func TestAPIFaults(t *testing.T) {
	t.Parallel()
	_, api := startAPI(t, "rules: [{name: few, limits: 10/day sliding-log}]\n")
	const huge = `{"scope": "a", "limits": ["9007199254740991/day"], "cost": 9007199254740991}`
	var names strings.Builder
	for i := range 256 {
		fmt.Fprintf(&names, `"a%d": [], `, i)
	}
	deep := strings.Repeat(`{"a":`, 20_000) + "1" + strings.Repeat("}", 20_000)
	for _, c := range []struct {
		field, path, body string
	}{
		{"", "/v1/take", ""},
		{"", "/v1/take", "{"},
		{"", "/v1/take", "[]"},
		{"", "/v1/take", "null x"},
		{"", "/v1/take", `{"rule": "few"} {}`},
		{"", "/v1/take", "{\"rule\": \"\xff\"}"},
		{"x", "/v1/take", `{"x": 1}`},
		{"", "/v1/take", deep},
		{"", "/v1/take", `{"x": ` + deep + "}"},
		{"rule", "/v1/take", `{}`},
		{"rule", "/v1/take", `{"rule": "nix"}`},
		{"rule", "/v1/take", `{"rule": 1}`},
		{"rule", "/v1/take", `{"rule": "few", "key": "a"}`},
		{"cost", "/v1/take", `{"rule": "few", "cost": -1}`},
		{"cost", "/v1/take", `{"rule": "few", "cost": 0.5}`},
		{"cost", "/v1/take", `{"rule": "few", "cost": 1e3}`},
		{"cost", "/v1/take", `{"rule": "few", "cost": 9007199254740993}`},
		{"cost", "/v1/take", `{"rule": "few", "cost": 99999999999999999999}`},
		{"cost", "/v1/take", `{"rule": "few", "cost": "1"}`},
		{"cost", "/v1/take", `{"rule": "few", "cost": -1, "cost": -2}`},
		{"receipt", "/v1/take", `{"rule": "few", "receipt": "1.1.1.1"}`},
		{"receipt", "/v1/refund", `{"rule": "few"}`},
		{"receipt", "/v1/refund", `{"rule": "few", "receipt": "2.1.1.1"}`},
		{"receipt", "/v1/refund", `{"rule": "few", "receipt": "1.1.1.1", "cost": 2}`},
		{"receipt", "/v1/refund", `{"rule": "few", "receipt": "1.-1.1.1"}`},
		{"ttl_ms", "/v1/hold", `{"rule": "few", "cost": 1}`},
		{"ttl_ms", "/v1/hold", `{"rule": "few", "cost": 1, "ttl_ms": 999}`},
		{"ttl_ms", "/v1/hold", `{"rule": "few", "cost": 1, "ttl_ms": 86400001}`},
		{"id", "/v1/settle", `{"rule": "few", "cost": 1}`},
		{"id", "/v1/hold", `{"rule": "few", "cost": 1, "ttl_ms": 1000, "id": "` + strings.Repeat("x", 129) + `"}`},
		{"remember_ms", "/v1/take", `{"rule": "few", "remember_ms": 3600001}`},
		{"all", "/v1/take", `{"rule": "few", "all": true}`},
		{"all", "/v1/hold", `{"all": true, "requests": [{"rule": "few", "cost": 1, "ttl_ms": 1000}]}`},
		{"limits[1]", "/v1/take", `{"scope": "a", "limits": ["1/s", "x"]}`},
		{"limits", "/v1/take", `{"scope": "a"}`},
		{"limits", "/v1/take", `{"scope": "a", "limits": ["1/s", "2/s"]}`},
		{"scope", "/v1/take", `{"scope": "a", "limits": ["1/s"], "client": "192.0.2.7"}`},
		{"scope", "/v1/slots/acquire", `{"owner": "a", "cap": 1, "ttl_ms": 1000}`},
		{"client", "/v1/take", `{"rule": "few", "client": "fe80::1%eth0"}`},
		{"path", "/v1/take", `{"rule": "few", "path": "/a?b"}`},
		{"method", "/v1/take", `{"rule": "few", "method": "G E"}`},
		{"headers", "/v1/take", `{"rule": "few", "headers": {"X-User": ["a"], "x-user": ["b"]}}`},
		{"headers", "/v1/take", `{"rule": "few", "headers": {"X-User": ["a"], "x-user": null}}`},
		{"headers", "/v1/take", `{"rule": "few", "headers": {"X-User": ["` + strings.Repeat("x", 8193) + `"]}}`},
		{"query", "/v1/take", `{"rule": "few", "query": {"a": ["` + strings.Repeat("x", 8193) + `"]}}`},
		{"cookies", "/v1/take", `{"rule": "few", "cookies": {"` + strings.Repeat("x", 8193) + `": []}}`},
		{"claims", "/v1/take", `{"rule": "few", "claims": {"sub": "` + strings.Repeat("x", 8193) + `"}}`},
		{"certificate", "/v1/take", `{"rule": "few", "certificate": {"cn": "` + strings.Repeat("x", 8193) + `"}}`},
		{"", "/v1/take", `{"rule": "few", "query": {` + names.String() + `"z": []}}`},
		{"cost", "/v1/slots/acquire", `{"scope": "a", "owner": "a", "cap": 1, "ttl_ms": 1000, "cost": 0}`},
		{"Cost", "/v1/take", `{"rule": "few", "Cost": 1}`},
		{"requests[0].COST", "/v1/take", `{"requests": [{"rule": "few", "COST": 1}]}`},
		{"ALL", "/v1/take", `{"requests": [{"rule": "few"}], "ALL": true}`},
		{"co\u017ft", "/v1/take", `{"rule": "few", "co\u017ft": 1}`},
		{"requests", "/v1/take", `{"requests": 1}`},
		{"requests[1]", "/v1/take", `{"all": true, "requests": [` + huge + `, ` + huge + `]}`},
		{"requests", "/v1/take", `{"requests": []}`},
		{"requests", "/v1/take", `{"rule": "few", "requests": [{"rule": "few"}]}`},
		{"requests", "/v1/take", `{"requests": [` + strings.Repeat(`{},`, 1000) + `{}]}`},
		{"requests[1].cost", "/v1/take", `{"requests": [{"rule": "few"}, {"rule": "few", "cost": -1}]}`},
		{"requests[0].requests", "/v1/take", `{"requests": [{"requests": []}]}`},
	} {
		api.refuses(t, 400, c.field, c.path, c.body)
	}
	many := api.refuses(t, 400, "requests[0].receipt", "/v1/take", `{"requests": [{"rule": "few", "cost": -1, "receipt": "x"}, {"rule": "few"}, {"cots": 1}, {"rule": 7}]}`)
	if len(many.Errors) < 4 {
		t.Errorf("not all faults at once: %+v", many.Errors)
	}
	api.refuses(t, 413, "", "/v1/take", `{"rule": "`+strings.Repeat("x", 1<<20)+`"}`)
	api.refuses(t, 404, "", "/v1/nix", `{}`)
	for path, field := range map[string]string{"/v1/hold": "Idempotency-Key", "/v1/peek": "Idempotency-Key"} {
		apiClient{api.url, api.secret, "k"}.refuses(t, 400, field, path, `{"rule": "few", "cost": 1, "ttl_ms": 1000}`)
	}
	apiClient{api.url, api.secret, strings.Repeat("k", 129)}.refuses(t, 400, "Idempotency-Key", "/v1/take", `{"rule": "few"}`)
	for header, want := range map[string]int{"text/plain": 415, "": 415, "application/json; charset=utf-8": 200} {
		got := servetest.Do(t, http.DefaultClient, servetest.Request(t.Context(), t, http.MethodPost, api.url+"/v1/peek", strings.NewReader(`{"rule": "few"}`), "Authorization", "Bearer "+apiSecret, "Content-Type", header))
		if got.Status != want {
			t.Errorf("Content-Type %q: got %d, want %d", header, got.Status, want)
		}
	}
	if got := servetest.Fetch(t, http.DefaultClient, api.url+"/v1/take"); got.Status != 405 || got.Header.Get("Allow") != "POST" {
		t.Errorf("GET: got %d", got.Status)
	}
	if a := api.allowed(t, "/v1/peek", `{"rule": "few"}`); a.Remaining != 10 {
		t.Errorf("a call with faults has spent units: %+v", a)
	}
	if a := api.allowed(t, "/v1/take", `{"rule": "few", "cost": 0}`); a.Remaining != 10 {
		t.Errorf("a cost of 0: %+v", a)
	}
	for _, key := range []string{`a\u0000b`, `a\nb`, `\u202e`, ``} {
		body := `{"scope": "keys", "limits": ["1/day sliding-log"], "key": "` + key + `"}`
		api.allowed(t, "/v1/take", body)
		api.denied(t, "/v1/take", body)
	}
}

// TestAPITogether: a denial of requests that are decided together says what they cost together.
func TestAPITogether(t *testing.T) {
	t.Parallel()
	s, api := startAPI(t, "rules: [{name: few, limits: 100/day}, {name: soft, limits: {soft: 100/day, grace: 1000/day}}]\n")
	const want = "the requests of this batch for that key cost 120 together, which is more than the limit "
	for _, of := range []string{`"rule": "few"`, `"scope": "jobs", "limits": ["100/day"]`} {
		body := "{" + of + `, "cost": 60}`
		a := api.denied(t, "/v1/take", `{"all": true, "requests": [`+body+`, `+body+`]}`)
		for _, r := range a.Results {
			if !r.TooLarge || !strings.HasPrefix(r.Detail, want) {
				t.Errorf("%s: got %+v", of, r)
			}
		}
	}
	for _, bodies := range []string{`{"rule": "soft", "cost": 120}`, `{"rule": "soft", "cost": 60}, {"rule": "soft", "cost": 60}`} {
		a := api.denied(t, "/v1/peek", `{"all": true, "requests": [`+bodies+`]}`)
		for _, r := range a.Results {
			if !r.TooLarge || !strings.HasPrefix(r.Detail, want) || !strings.Contains(r.Detail, "without all") {
				t.Errorf("%s: got %+v", bodies, r)
			}
		}
	}
	a := api.denied(t, "/v1/take", `{"all": true, "requests": [{"rule": "few"}, {"rule": "few", "cost": 101}, {"scope": "jobs", "limits": ["100/day"]}]}`)
	if r := a.Results[2]; r.Verdict != "denied" || r.Detail != "another request of the batch was denied, and nothing was charged" {
		t.Errorf("got %+v", r)
	}
	if got := s.Metrics(t)[`sluice_requests_total{verdict="denied"}`]; got != 7 {
		t.Errorf("%v denied requests are counted, want 7", got)
	}
}

// TestAPIKeys: a key of a batch and that of a single take are two, and the answer to a key that
// was used for another cost says nothing of limits.
func TestAPIKeys(t *testing.T) {
	t.Parallel()
	_, api := startAPI(t, "rules: [{name: few, limits: 100/day}]\n")
	api.key = "bb"
	api.allowed(t, "/v1/take", `{"requests": [{"rule": "few", "cost": 10}]}`)
	api.key = "bb[0]"
	if a := api.allowed(t, "/v1/take", `{"rule": "few", "cost": 10}`); a.Remaining != 80 {
		t.Errorf("got %+v", a)
	}
	if a := api.allowed(t, "/v1/take", `{"all": true, "requests": [{"rule": "few", "cost": 10}]}`); a.Results[0].Remaining != 70 {
		t.Errorf("got %+v", a)
	}
	a := api.denied(t, "/v1/take", `{"rule": "few", "cost": 20}`)
	if a.Hold != "differs" || len(a.Violated) > 0 || strings.Contains(a.Body, "remaining") {
		t.Errorf("got %+v", a)
	}
}

// TestAPICrowd: many callers at once, some of whom hang up, get no more than the quota.
func TestAPICrowd(t *testing.T) {
	t.Parallel()
	s, api := startAPI(t, "rules: [{name: few, limits: 100/day sliding-log}]\n")
	var wait sync.WaitGroup
	var mu sync.Mutex
	passed := 0
	batch := `{"requests": [` + strings.Repeat(`{"rule": "few"},`, 9) + `{"rule": "few"}]}`
	for i := range 40 {
		wait.Go(func() {
			if i%4 == 0 { // it does not read the answer
				conn := servetest.Dial(t, api.url, fmt.Sprintf("POST /v1/take HTTP/1.1\nHost: x\nAuthorization: Bearer %s\nContent-Type: application/json\nContent-Length: %d\n\n%s", apiSecret, len(batch), batch))
				_ = conn.Close()
				return
			}
			for _, r := range api.call(t, "/v1/take", batch).Results {
				if r.Allowed {
					mu.Lock()
					passed++
					mu.Unlock()
				}
			}
		})
	}
	wait.Wait()
	if passed > 100 {
		t.Errorf("%d requests passed a limit of 100", passed)
	}
	testkit.Until(t, "the requests to end", func() bool { return s.Metrics(t)[`sluice_requests_total{verdict="denied"}`] >= 200 })
}
