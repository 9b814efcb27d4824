// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/sluicegate/sluice/internal/regular"
	"github.com/sluicegate/sluice/policy"
)

const (
	mostTokenFile = 1 << 20 // bytes
	leastSecret   = 16      // bytes: fewer can be guessed
)

// defaults are the operations of a token that names none, and more those that give units back.
var (
	defaults = []string{"take", "peek", "hold", "settle", "extend", "slots"}
	more     = []string{"refund", "reset"}
)

// token says what its holder may do.
type token struct {
	Name       string   `json:"name"`
	Secret     string   `json:"secret"`
	SHA256     string   `json:"sha256"`     // of the secret, in its place
	Rules      []string `json:"rules"`      // nil: all
	Operations []string `json:"operations"` // nil: defaults
	OwnLimits  bool     `json:"own_limits"` // it may bring limits

	hash []byte
}

// client is the token of all clients where there are no tokens.
var client = token{Name: "client", Operations: defaults}

var tokenName = regexp.MustCompile(`^[a-z0-9._-]{1,64}$`)

// may reports whether the holder may use a rule.
func (t *token) may(rule string) bool { return len(t.Rules) == 0 || slices.Contains(t.Rules, rule) }

// CheckTokens returns the faults of a file of tokens, for the rules of a policy.
func CheckTokens(file string, p *policy.Policy) error {
	_, err := readTokens(file, p)
	return err
}

// readTokens reads a file of tokens, for the rules of a policy. The error has all faults.
func readTokens(file string, p *policy.Policy) ([]token, error) {
	document, _, err := regular.Read(file, mostTokenFile+1)
	if err == nil && len(document) > mostTokenFile {
		err = fmt.Errorf("%s has more than %d bytes", file, mostTokenFile)
	}
	if err != nil {
		return nil, fmt.Errorf("tokens_file: %w; write a file of tokens there that can be read, or name another", err)
	}
	var of struct {
		Tokens []json.RawMessage `json:"tokens"`
	}
	var all faults
	if decodeInto(document, &of, place{}, &all) && len(of.Tokens) == 0 {
		all.add(place{}, "tokens", `is empty; list at least one, such as {"name": "shop", "secret": "…"}`)
	}
	tokens := make([]token, len(of.Tokens))
	for i := range tokens {
		t, at := &tokens[i], place{"tokens", i}
		if !decodeInto(of.Tokens[i], t, at, &all) {
			continue
		}
		t.check(at, p, &all)
		if slices.ContainsFunc(tokens[:i], func(o token) bool { return o.Name == t.Name || len(t.hash) > 0 && string(o.hash) == string(t.hash) }) {
			all.add(at, "", "has the name or the secret of a token before it; choose another")
		}
	}
	if len(all) == 0 {
		return tokens, nil
	}
	lines := make([]string, len(all))
	for i, f := range all {
		lines[i] = fmt.Sprintf("tokens_file: %s: %s", file, strings.TrimSpace(f.Field+" "+f.Detail))
	}
	return nil, fmt.Errorf("%s", strings.Join(lines, "\n"))
}

// check finds faults of a token, and fills it.
func (t *token) check(at place, p *policy.Policy, all *faults) {
	if !tokenName.MatchString(t.Name) {
		all.add(at, "name", "must be 1 to 64 of a-z, 0-9, '.', '_' and '-'")
	}
	sum, err := hex.DecodeString(t.SHA256)
	switch {
	case (t.Secret == "") == (t.SHA256 == ""):
		all.add(at, "secret", "or sha256 must be given, and not both")
	case t.Secret != "" && len(t.Secret) < leastSecret:
		all.add(at, "secret", "has %d bytes, which can be guessed; use %d or more, such as those of openssl rand -hex 32", len(t.Secret), leastSecret)
	case t.Secret != "":
		of := sha256.Sum256([]byte(t.Secret))
		sum = of[:]
	case err != nil || len(sum) != sha256.Size:
		all.add(at, "sha256", "must be 64 hexadecimal digits")
	}
	t.Secret, t.hash = "", sum
	for i, rule := range t.Rules {
		if _, there := ruleOf(p, rule); !there {
			all.add(at, fmt.Sprintf("rules[%d]", i), "is %q, which is no rule of this listener", rule)
		}
	}
	for i, o := range t.Operations {
		if !slices.Contains(defaults, o) && !slices.Contains(more, o) {
			all.add(at, fmt.Sprintf("operations[%d]", i), "is %q, which is no operation; use some of %s", o, strings.Join(append(defaults[:6:6], more...), ", "))
		}
	}
	if t.Rules != nil && len(t.Rules) == 0 {
		all.add(at, "rules", "is an empty list; leave it out, or name rules")
	}
	switch {
	case t.Operations == nil:
		t.Operations = defaults
	case len(t.Operations) == 0:
		all.add(at, "operations", "is an empty list; leave it out, or name operations")
	}
}

// ruleOf returns the index of the rule of a name.
func ruleOf(p *policy.Policy, name string) (i int, ok bool) {
	i, ok = p.RuleOf(name)
	return i, ok && p.Rules()[i].Name == name
}

// tokenOf returns the token of a call, nil if it has no valid one.
func tokenOf(r *http.Request, tokens []token) *token {
	if tokens == nil {
		return &client
	}
	scheme, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || len(r.Header["Authorization"]) != 1 {
		return nil
	}
	return withSecret(tokens, secret)
}

// withSecret returns the token of a secret, nil if there is none. The secret is compared with
// those of all tokens, in constant time.
func withSecret(tokens []token, secret string) (found *token) {
	hash := sha256.Sum256([]byte(secret))
	for i := range tokens {
		if subtle.ConstantTimeCompare(hash[:], tokens[i].hash) == 1 {
			found = &tokens[i]
		}
	}
	return found
}

// Tokens reads a file of tokens, for a front of another protocol and the rules of a policy. The
// function of returns the name of the token with a secret, "" if there is none, and whether its
// holder may do an operation by a rule or, if that is empty, by limits that it brings.
func Tokens(file string, p *policy.Policy) (of func(secret string) (name string, may func(operation, rule string) bool), err error) {
	tokens, err := readTokens(file, p)
	return func(secret string) (string, func(operation, rule string) bool) {
		t := withSecret(tokens, secret)
		if t == nil {
			return "", nil
		}
		return t.Name, func(operation, rule string) bool {
			return slices.Contains(t.Operations, operation) && (rule != "" && t.may(rule) || rule == "" && t.OwnLimits)
		}
	}, err
}
