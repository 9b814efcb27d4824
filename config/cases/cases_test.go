// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package cases_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/config/cases"
	"github.com/sluicegate/sluice/memstore"
)

// TestExamples: the configurations under examples have no faults, and their cases pass.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob("../../examples/configs/*.cases.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d examples: %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".cases.yaml"), func(t *testing.T) {
			c, err := config.Load(strings.TrimSuffix(file, ".cases.yaml") + ".yaml")
			if err != nil {
				t.Fatal(err)
			}
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			results, err := cases.Run(t.Context(), c, filepath.Base(file), data, newStore)
			if err != nil {
				t.Fatal(err)
			}
			if results.Failed() > 0 {
				var b strings.Builder
				if err := results.WriteText(&b); err != nil {
					t.Fatal(err)
				}
				t.Error("\n" + b.String())
			}
		})
	}
}

func parse(t testing.TB, text string) *config.Config {
	t.Helper()
	c, err := config.Parse("sluice.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// newStore returns a store for one case.
func newStore(now func() time.Time) sluice.Store {
	return memstore.New(memstore.Options{MaxKeys: 1 << 16, Now: now})
}

// TestRunCases: testdata/cases holds a policy, cases that pass and fail, and the expected
// results.
func TestRunCases(t *testing.T) {
	c, err := config.Load("testdata/cases/policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile("testdata/cases/cases.yaml")
	if err != nil {
		t.Fatal(err)
	}
	results, err := cases.Run(t.Context(), c, "cases.yaml", data, newStore)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := results.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/cases/results.txt", b.String())
}

// TestKeysOfCases: docs/testing.md lists the keys of a file of cases, and no others.
func TestKeysOfCases(t *testing.T) {
	const unknown = `
unheard-of: 1
cases:
  - unheard-of: 1
    name: a
    given: {unheard-of: 1, response: {unheard-of: 1}}
    steps:
      - {unheard-of: 1, expect: {unheard-of: 1}}
`
	_, faults := cases.Run(t.Context(), parse(t, "rules: [{name: a, limits: 1/h}]"), "cases", []byte(unknown), newStore)
	if faults == nil {
		t.Fatal("keys that do not exist are accepted")
	}
	want := make(map[string][]string)
	for _, m := range regexp.MustCompile(`(?m)(\S+) has no key "unheard-of"; use one of (.*)$`).FindAllStringSubmatch(faults.Error(), -1) {
		want[m[1]] = strings.Split(m[2], ", ")
	}
	page, err := os.ReadFile("../../docs/testing.md")
	if err != nil {
		t.Fatal(err)
	}
	got, of := make(map[string][]string), ""
	for _, row := range regexp.MustCompile(`(?m)^\|([^|]*)\| ((?:`+"`[a-z_]+`"+`(?:, )?)+) \|.*$`).FindAllStringSubmatch(string(page), -1) {
		if words := strings.Fields(strings.ReplaceAll(row[1], "`", "")); len(words) > 0 {
			of = map[string]string{"file": "cases"}[words[len(words)-1]]
			if of == "" {
				of = words[len(words)-1]
			}
		}
		got[of] = append(got[of], strings.Split(strings.ReplaceAll(row[2], "`", ""), ", ")...)
	}
	for name, keys := range want {
		slices.Sort(keys)
		slices.Sort(got[name])
		if !slices.Equal(got[name], keys) {
			t.Errorf("%s: the page lists %v, and there are %v", name, got[name], keys)
		}
	}
	if len(want) != 6 || len(got) != 6 {
		t.Errorf("%d mappings have keys, of which %d are listed, by %v", len(want), len(got), faults)
	}
}

// TestCasesAsTheGateway: cases are evaluated like the gateway's requests: with any spelling of
// a method, a host and a path, and after allow and deny.
func TestCasesAsTheGateway(t *testing.T) {
	c := parse(t, `
allow: [192.0.2.0/24, "::ffff:198.51.100.0/120"]
deny: 192.0.2.66
upstream: http://127.0.0.1:3000
rules:
  - {name: login, match: {method: POST, host: api.example.com, path: /login}, limits: 1/h fixed-window}
  - {name: field, match: {header: {Host: www.example.com}}, limits: 1/h fixed-window}
  - {name: server, match: {method: OPTIONS, path: "/*"}, limits: 1/h fixed-window}
  - {name: cafe, match: {path: /café}, limits: 1/h fixed-window}
`[1:])
	const text = `
cases:
  - name: another way to write it
    given: {from: 192.0.2.1, host: API.example.com:8080}
    steps:
      - {given: {request: post /login}, expect: {verdict: allowed, rule: login}}
      - {given: {request: POST /./login, host: api.example.com.}, expect: {verdict: denied, rule: login}}
      - {given: {request: POST /login, headers: {host: api.example.com}, host: api.example.com}, expect: denied}
      - {given: {host: "www.example.com:1"}, expect: {verdict: allowed, rule: field}}
      - {given: {headers: {Host: WWW.example.com}}, expect: {verdict: denied, rule: field}}
      - {given: {request: "OPTIONS *"}, expect: {verdict: allowed, rule: server}}
      - {given: {request: GET /café}, expect: {verdict: allowed, rule: cafe}}
      - {given: {request: GET /caf%C3%A9}, expect: {verdict: denied, rule: cafe}}
  - name: a client that is let in
    steps:
      - {given: {from: 192.0.2.66}, expect: forbidden}
      - {given: {from: "::ffff:192.0.2.66"}, expect: forbidden}
      - {given: {from: 203.0.113.1, times: 3}, expect: {forbidden: 3, would_deny: []}}
      - {given: {from: "::ffff:192.0.2.1"}, expect: allowed}
      - {given: {from: 198.51.100.7}, expect: {forbidden: 0, allowed: 1}}
      - {expect: forbidden}
  - name: what is said
    steps:
      - {given: {from: 192.0.2.66}, expect: allowed}
      - {given: {from: 192.0.2.66}, expect: {verdict: forbidden, rule: login}}
      - {expect: allowed}
      - {given: {from: 192.0.2.1}, expect: forbidden}
`
	results, err := cases.Run(t.Context(), c, "cases", []byte(text), newStore)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := results.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	const want = `ok   another way to write it
ok   a client that is let in
FAIL what is said
     cases:24:45: step 1: want 1 allowed, got 1 forbidden (allow and deny do not let in 192.0.2.66)
     cases:25:72: step 2: want rule login, got  (allow and deny do not let in 192.0.2.66)
     cases:26:18: step 3: want 1 allowed, got 1 forbidden (allow and deny do not let in a client without an address; use one under from)
     cases:27:44: step 4: want 1 forbidden, got 1 allowed (no rule applies to the last)
cases: 2 of 3 cases hold
`
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
}

func TestCasesFaults(t *testing.T) {
	c := parse(t, "rules: [{name: a, limits: 1/s}]")
	data, err := os.ReadFile("testdata/cases/faults.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, err = cases.Run(t.Context(), c, "f", data, newStore)
	var faults config.Faults
	if !errors.As(err, &faults) {
		t.Fatalf("error %v", err)
	}
	golden(t, "testdata/cases/faults.txt", faults.Error()+"\n")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err = cases.Run(ctx, c, "f", []byte("cases: [{name: a, steps: [{expect: allowed}]}]"), newStore); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that the context ended", err)
	}
}

func FuzzRunCases(f *testing.F) {
	c, err := config.Load("testdata/cases/policy.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, glob := range []string{"testdata/cases/*.yaml", "../../examples/configs/*.cases.yaml"} {
		files, err := filepath.Glob(glob)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(string(data))
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second) // for a case that is long but bounded
		defer cancel()
		results, err := cases.Run(ctx, c, "f", []byte(text), newStore)
		var faults config.Faults
		if err != nil && !errors.As(err, &faults) && !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if err == nil && len(results.Cases) == 0 {
			t.Error("no cases and no fault")
		}
	})
}

// TestCasesOfBytes: a case's body arrives whole unless the case says otherwise.
func TestCasesOfBytes(t *testing.T) {
	c, err := config.Parse("f", []byte("rules: [{name: up, by: ip, cost: request-bytes, limits: 100B/min sliding-log}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	results, err := cases.Run(t.Context(), c, "cases", []byte(`
cases:
  - name: all of it comes
    given: {from: 192.0.2.1, bytes: 30}
    steps:
      - {given: {times: 3}, expect: allowed}
      - {expect: denied}
  - name: a part of it comes
    given: {from: 192.0.2.1, bytes: 30, response: {read: 10}}
    steps:
      - {given: {times: 8}, expect: allowed}
      - {expect: denied}
`), newStore)
	if err != nil || results.Failed() > 0 {
		t.Errorf("%v, %+v", err, results)
	}
}

// TestCasesOfDescriptors: the rules of the listener for descriptors decide them.
func TestCasesOfDescriptors(t *testing.T) {
	c, err := config.Parse("sluice.yaml", []byte(`
listen: ["127.0.0.1:1", {address: "127.0.0.1:2", serve: rls}]
rules: [{name: ip, by: ip, limits: 1/min}, {name: user, match: {descriptor: {user: "*"}}, by: descriptor.user, limits: 2/min}]
`))
	if err != nil {
		t.Fatal(err)
	}
	r, err := cases.Run(t.Context(), c, "cases.yaml", []byte(`
cases:
  - name: a descriptor
    given: {descriptor: {user: ada}}
    steps: [{given: {times: 3}, expect: {allowed: 2, denied: 1}}]
  - name: a request
    given: {from: 192.0.2.1}
    steps: [{given: {times: 3}, expect: {allowed: 1, denied: 2}}]
`), newStore)
	if err != nil || r.Failed() > 0 {
		t.Errorf("%v, %+v", err, r)
	}
}

// TestCasesWithoutToken: where a token is required, a request without claims is refused,
// whatever the rule does without a claim.
func TestCasesWithoutToken(t *testing.T) {
	c, err := config.Parse("f", []byte(`
tokens: {hmac_file: secret, required: true}
rules: [{name: user, match: {path: /a}, by: claim.sub, missing: skip, limits: 1/min}]
`))
	if err != nil {
		t.Fatal(err)
	}
	results, err := cases.Run(t.Context(), c, "cases", []byte(`
cases:
  - name: tokens
    steps:
      - {given: {request: /a}, expect: {verdict: refused, rule: user}}
      - {given: {request: /a, claims: {}}, expect: allowed}
      - {given: {request: /a, claims: {sub: ada}}, expect: allowed}
      - {given: {request: /b}, expect: allowed}
`), newStore)
	if err != nil || results.Failed() > 0 {
		t.Errorf("%v, %+v", err, results)
	}
}

// TestCasesWithCertificate: a case states the names in a client's certificate.
func TestCasesWithCertificate(t *testing.T) {
	c, err := config.Parse("f", []byte("rules: [{name: service, by: cert.uri, limits: 1/min}]"))
	if err != nil {
		t.Fatal(err)
	}
	results, err := cases.Run(t.Context(), c, "cases", []byte(`
cases:
  - name: certificates
    steps:
      - {given: {request: /}, expect: {verdict: refused, rule: service}}
      - {given: {request: /, cert: {uri: "spiffe://example/a"}}, expect: allowed}
      - {given: {request: /, cert: {uri: "spiffe://example/a"}}, expect: denied}
      - {given: {request: /, cert: {uri: "spiffe://example/b"}}, expect: allowed}
`), newStore)
	if err != nil || results.Failed() > 0 {
		t.Errorf("%v, %+v", err, results)
	}
}

// golden compares with a file, or writes it with -update.
func golden(t *testing.T, file, got string) {
	t.Helper()
	want, err := os.ReadFile(file)
	if err == nil && string(want) == got {
		return
	}
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Errorf("%s differs (%v); got\n%s", file, err, got)
}
