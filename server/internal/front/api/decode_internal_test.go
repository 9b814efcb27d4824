// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/policy"
)

// FuzzDecode: any body is read as bounded requests, or refused with faults.
func FuzzDecode(f *testing.F) {
	for _, body := range []string{
		``, `{`, `[]`, `null`, `{"rule": "a"}`, `{"rule": "a", "rule": "b"}`, `{"RULE": "a"}`, `{"rule": "a", "cost": 9007199254740993}`, `{"rule": "a", "cost": -0}`, `{"rule": "a", "cost": 1e2}`,
		`{"requests": [{"rule": "a"}, null, 1]}`, `{"requests": [{"requests": [{}]}], "all": true}`, `{"scope": "a", "key": "\u0000", "limits": ["1/s", "2/min burst 3"], "cost": 0}`,
		`{"rule": "a", "headers": {"x": ["1"], "X": ["2"]}, "client": "::ffff:1.2.3.4", "path": "/%2e%2e/", "claims": {"sub": "\ud800"}}`,
		`{"rule": "a", "receipt": "1.hokq.0.1", "cost": 1}`, `{"scope": "a", "owner": "b", "cap": 1, "ttl_ms": 1000}`, `{"a":{"a":{"a":[[[[]]]]}}}`, "{\"rule\": \"\xff\"}", `{"rule": "a"} {}`,
	} {
		for i := range len(operations) {
			f.Add([]byte(body), i)
		}
	}
	names := make([]string, 0, len(operations))
	for path := range operations {
		names = append(names, path)
	}
	slices.Sort(names)
	f.Fuzz(func(t *testing.T, document []byte, n int) {
		op := operations[names[uint(n)%uint(len(names))]]
		b, all := decode(document, op)
		if len(all) > mostFaults {
			t.Errorf("%d faults", len(all))
		}
		for _, fault := range all {
			if fault.Detail == "" {
				t.Errorf("a fault says nothing: %+v", fault)
			}
		}
		if len(all) > 0 {
			return
		}
		if len(b.list) < 1 || len(b.list) > mostBatch {
			t.Errorf("%d requests", len(b.list))
		}
		for i := range b.list {
			q := b.list[i]
			if (q.Rule == "") == (q.Scope == "") || q.attributes == nil {
				t.Errorf("got %+v", q)
			}
			if u := q.units(); u < 0 || u > sluice.MaxQuota {
				t.Errorf("costs %d", u)
			}
			if q.Scope != "" && op.name != "slots" && len(q.Limits) == 0 {
				t.Errorf("a scope without limits: %+v", q)
			}
		}
	})
}

// TestDecodeNames: the names of fields must be lower case, in a batch, too, however they are spelled.
func TestDecodeNames(t *testing.T) {
	for _, name := range []string{`Rule`, `ruLe`, `\u0052ule`, `rul\u0045`} {
		for _, document := range []string{`{"%s": "a"}`, `{"requests": [{"%s": "a"}]}`, `{"rule": "a", "%s": "a"}`} {
			if _, all := decode(fmt.Appendf(nil, document, name), operations["/v1/take"]); len(all) == 0 {
				t.Errorf("%s takes %s for rule", document, name)
			}
		}
	}
	for _, document := range []string{"{\"scope\": \"a\", \"\u212aey\": \"b\", \"limits\": [\"1/s\"]}", `{"scope": "a", "\u212Aey": "b", "limits": ["1/s"]}`, `{"Requests": [{"rule": "a"}]}`} {
		if _, all := decode([]byte(document), operations["/v1/take"]); len(all) == 0 {
			t.Errorf("accepted %s", document)
		}
	}
	if _, all := decode([]byte(`{"rule": "a", "path": "/É", "headers": {"X-Key": ["Ada"]}}`), operations["/v1/take"]); len(all) > 0 {
		t.Errorf("got %v", all)
	}
}

// TestDecodeFew: a batch of many requests is refused before they are decoded.
func TestDecodeFew(t *testing.T) {
	document := []byte(`{"requests": [` + strings.Repeat(`{},`, 340_000) + `{}]}`)
	if n := testing.AllocsPerRun(1, func() {
		if _, all := decode(document, operations["/v1/take"]); len(all) != 1 || all[0].Field != "requests" {
			t.Errorf("got %+v", all)
		}
	}); n > 10_000 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzTokens: any file is tokens that can be told apart, or is refused.
func FuzzTokens(f *testing.F) {
	for _, text := range []string{
		``, `{}`, `{"tokens": []}`, `{"tokens": [{"name": "a", "secret": "0123456789abcdef"}]}`, `{"tokens": [{"name": "a", "sha256": "00"}]}`,
		`{"tokens": [{"name": "../b", "secret": "0123456789abcdef", "rules": ["x"], "operations": ["take", "eat"], "own_limits": true}, {"name": "a"}]}`,
		`{"tokens": [{"name": "a", "secret": "0123456789abcdef", "rules": []}]}`, `{"tokens": [{"name": "a", "secret": "0123456789abcdef", "operations": []}]}`,
	} {
		f.Add(text)
	}
	p, err := policy.Compile([]policy.Rule{policy.NewRule("a", policy.IP(), sluice.PerMinute(1))})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		file := filepath.Join(t.TempDir(), "tokens.json")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		tokens, err := readTokens(file, p)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "tokens_file: ") {
				t.Errorf("got %v", err)
			}
			return
		}
		for i := range tokens {
			token := &tokens[i]
			if !tokenName.MatchString(token.Name) || len(token.hash) != 32 || token.Secret != "" || len(token.Operations) == 0 {
				t.Errorf("got %+v", token)
			}
		}
	})
}

// TestTokenFaults: a fault of a file of tokens says where it is and what to do.
func TestTokenFaults(t *testing.T) {
	t.Parallel()
	p, err := policy.Compile([]policy.Rule{policy.NewRule("a", policy.IP(), sluice.PerMinute(1))})
	if err != nil {
		t.Fatal(err)
	}
	const of = `{"tokens": [{"name": "a", "secret": "0123456789abcdef", `
	for text, want := range map[string]string{
		of + `"rules": []}]}`:      "tokens[0].rules is an empty list; leave it out, or name rules",
		of + `"operations": []}]}`: "tokens[0].operations is an empty list; leave it out, or name operations",
		of + `"rules": ["nix"]}]}`: `tokens[0].rules[0] is "nix", which is no rule of this listener`,
		of + `"Rules": ["a"]}]}`:   "tokens[0].Rules is no field of this call",
		`{`:                        "tokens.json: is not JSON",
	} {
		file := filepath.Join(t.TempDir(), "tokens.json")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := CheckTokens(file, p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
	if err := CheckTokens("/nonexistent", p); err == nil || !strings.Contains(err.Error(), "; write a file of tokens there") {
		t.Errorf("got %v", err)
	}
}

// TestScopesApart: no two tokens have scopes in common, whatever scopes they ask for, and none
// has that of a rule.
func TestScopesApart(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, name := range []string{"a", "b", "a.b", "a-"} {
		for _, scope := range []string{"x", "b/x", "../b/x", "/x", "a/x", ":b/x", "-/x", ""} {
			of := scopeOf(&token{Name: name}, scope)
			if before, taken := seen[of]; taken {
				t.Errorf("%s is the scope of %s and of %s", of, before, name)
			}
			seen[of] = name + " " + scope
			if !strings.Contains(of[:strings.IndexByte(of, '/')], ":") {
				t.Errorf("%s can be that of a rule", of)
			}
		}
	}
}
