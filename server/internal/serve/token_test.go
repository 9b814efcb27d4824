// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

const tokenSecret = "0123456789abcdef0123456789abcdef"

// tokenOf returns a token with the given claims.
func tokenOf(secret, claims string) string {
	encode := base64.RawURLEncoding.EncodeToString
	text := encode([]byte(`{"alg":"HS256"}`)) + "." + encode([]byte(claims))
	h := hmac.New(sha256.New, []byte(secret))
	h.Write([]byte(text))
	return text + "." + encode(h.Sum(nil))
}

// startWithTokens serves rules under tokens of tokenSecret.
func startWithTokens(t *testing.T, more, rules string) *servetest.Gateway {
	t.Helper()
	file := testkit.TempFile(t, "secret", tokenSecret)
	return servetest.Start(t, fmt.Sprintf("upstream: %q\ntokens: {hmac_file: %q%s}\nrules:\n%s", servetest.Named(t, "up"), file, more, rules), servetest.Stopped)
}

// TestTokenRefused: an unusable token is answered with 401 by every rule that needs it,
// whatever the rule does without one, and so is a missing token where one is required.
func TestTokenRefused(t *testing.T) {
	t.Parallel()
	const (
		refuse = "  - {name: user, by: claim.sub, limits: 100/min}\n"
		share  = "  - {name: user, by: claim.sub, missing: share, limits: 100/min}\n"
		skip   = "  - {name: user, by: claim.sub, missing: skip, limits: 100/min}\n"
		plans  = "  - {name: user, by: ip, limits: 100/min, tiers: {by: claim.plan, limits: {free: 1/min}}}\n"
		shape  = "  - {name: user, by: claim.sub, missing: skip, cost: response-bytes, shape: true, limits: 1MB/s burst 1MB}\n"
		shadow = "  - {name: user, by: claim.sub, mode: shadow, limits: 100/min}\n"
		other  = "  - {name: user, match: {path: /other}, by: claim.sub, limits: 100/min}\n"

		invalid = `Bearer error="invalid_token", error_description="the token is not valid"`
		expired = `Bearer error="invalid_token", error_description="the token has expired"`
		twice   = `Bearer error="invalid_token", error_description="the token is sent more than once"`
		empty   = `Bearer error="invalid_token", error_description="the token is empty"`
	)
	good := "Bearer " + tokenOf(tokenSecret, `{"sub":"ada"}`)
	old := "Bearer " + tokenOf(tokenSecret, `{"sub":"ada","exp":1}`)
	forged := "Bearer " + tokenOf(strings.ToUpper(tokenSecret), `{"sub":"ada"}`)
	basic := "Basic YWRhOnNlY3JldA=="
	outer, servers := t, make(map[string]*servetest.Gateway)
	for _, c := range []struct {
		name, more, rules string
		sent              []string // of Authorization
		want              int
		challenge         string
	}{
		{"valid", "", refuse, []string{good}, 200, ""},
		{"expired", "", refuse, []string{old}, 401, expired},
		{"forged", "", refuse, []string{forged}, 401, invalid},
		{"forged and expired", "", refuse, []string{"Bearer " + tokenOf(strings.ToUpper(tokenSecret), `{"sub":"ada","exp":1}`)}, 401, invalid},
		{"malformed", "", refuse, []string{"Bearer x.y.z"}, 401, invalid},
		{"empty", "", refuse, []string{"Bearer "}, 401, empty},
		{"for somebody else", ", audience: api", refuse, []string{good}, 401, invalid},
		{"not valid yet", "", refuse, []string{"Bearer " + tokenOf(tokenSecret, `{"sub":"ada","nbf":99999999999}`)}, 401, invalid},
		{"expired, shared", "", share, []string{old}, 401, expired},
		{"expired, skipped", "", skip, []string{old}, 401, expired},
		{"forged, skipped", "", skip, []string{forged}, 401, invalid},
		{"expired, for a plan", "", plans, []string{old}, 401, expired},
		{"expired, shaped", "", shape, []string{old}, 401, expired},
		{"expired, in shadow", "", shadow, []string{old}, 200, ""},
		{"expired, of no rule", "", other, []string{old}, 200, ""},
		{"two fields", "", skip, []string{good, good}, 401, twice},
		{"behind another scheme", "", skip, []string{basic, good}, 401, twice},
		{"in a list", "", skip, []string{basic + ", " + good}, 401, twice},
		{"behind a tab", "", skip, []string{strings.Replace(old, " ", "\t", 1)}, 401, expired},
		{"another scheme", "", refuse, []string{basic}, 400, ""},
		{"another scheme, shared", "", share, []string{basic}, 200, ""},
		{"none", "", refuse, nil, 400, ""},
		{"none, shared", "", share, nil, 200, ""},
		{"none, skipped", "", skip, nil, 200, ""},
		{"none, for a plan", "", plans, nil, 200, ""},
		{"none, required", ", required: true", refuse, nil, 401, "Bearer"},
		{"none, required, shared", ", required: true", share, nil, 401, "Bearer"},
		{"none, required, skipped", ", required: true", skip, nil, 401, "Bearer"},
		{"none, required, for a plan", ", required: true", plans, nil, 401, "Bearer"},
		{"another scheme, required", ", required: true", skip, []string{basic}, 401, "Bearer"},
		{"none, required, of no rule", ", required: true", other, nil, 200, ""},
		{"valid, required", ", required: true", refuse, []string{good}, 200, ""},
		{"without the claim, required", ", required: true", refuse, []string{"Bearer " + tokenOf(tokenSecret, `{}`)}, 400, ""},
		{"in a header of its own", ", header: X-Token", skip, []string{old}, 200, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := servers[c.more+c.rules]
			if s == nil {
				s = startWithTokens(outer, c.more, c.rules)
				servers[c.more+c.rules] = s
			}
			var header []string
			for _, value := range c.sent {
				header = append(header, "Authorization", value)
			}
			got := s.Get(t, "/", header...)
			if challenge := got.Header.Get("WWW-Authenticate"); got.Status != c.want || challenge != c.challenge {
				t.Errorf("got %d %q, want %d %q: %s", got.Status, challenge, c.want, c.challenge, got.Body)
			}
			if got.Status >= http.StatusBadRequest && (got.Header.Get("Content-Type") != "application/problem+json" || !strings.Contains(got.Body, `"status":`+fmt.Sprint(c.want))) {
				t.Errorf("got %v %q, want a problem document", got.Header, got.Body)
			}
		})
	}
}

// TestTokenPlaces: the place of a token in a cookie is as strict as in a header. Text
// elsewhere is not the token.
func TestTokenPlaces(t *testing.T) {
	t.Parallel()
	s := startWithTokens(t, ", cookie: session", "  - {name: user, by: claim.sub, missing: skip, limits: 1000/min}\n")
	good, old := tokenOf(tokenSecret, `{"sub":"ada"}`), tokenOf(tokenSecret, `{"sub":"ada","exp":1}`)
	for _, c := range []struct {
		name   string
		header []string
		want   int
	}{
		{"valid", []string{"Cookie", "session=" + good}, 200},
		{"expired", []string{"Cookie", "session=" + old}, 401},
		{"twice", []string{"Cookie", "session=" + good + "; session=" + good}, 401},
		{"with an expired one in the header", []string{"Cookie", "session=" + good, "Authorization", "Bearer " + old}, 200},
		{"expired, with a valid one in the header", []string{"Cookie", "session=" + old, "Authorization", "Bearer " + good}, 401},
		{"in the header alone", []string{"Authorization", "Bearer " + old}, 200},
	} {
		s.Want(t, c.want, "/", c.header...)
	}
}

// TestClaimTypes: all spellings of a number are one key, and a claim that cannot be a key is
// refused with a reason, which is logged, too.
func TestClaimTypes(t *testing.T) {
	t.Parallel()
	s := startWithTokens(t, "", "  - {name: user, by: claim.sub, limits: 3/min sliding-log}\n")
	for _, c := range []struct {
		name string
		subs []string
		want []int
		body string
	}{
		{"an integer", []string{"1", "1.0", "1e0", "10e-1"}, []int{200, 200, 200, 429}, ""},
		{"a large one", []string{"12345678901234567", "12345678901234568", "12345678901234568", "12345678901234568", "12345678901234568"}, []int{200, 200, 200, 200, 429}, ""},
		{"a text", []string{`"ada"`}, []int{200}, ""},
		{"a list", []string{`["ada"]`}, []int{400}, "claim sub is a list in the token; a key is a text or a number"},
		{"an object", []string{`{"id":1}`}, []int{400}, "claim sub is an object in the token; a key is a text or a number"},
		{"too long a number", []string{"1e99999"}, []int{400}, "claim sub is a number of more than 64 digits in the token"},
		{"null", []string{"null"}, []int{400}, "claim sub is missing"},
	} {
		for i, sub := range c.subs {
			got := s.Get(t, "/", "Authorization", "Bearer "+tokenOf(tokenSecret, `{"sub":`+sub+`}`))
			if got.Status != c.want[i] || !strings.Contains(got.Body, c.body) {
				t.Errorf("%s, %s: got %d %s, want %d with %q", c.name, sub, got.Status, got.Body, c.want[i], c.body)
			}
		}
	}
	testkit.Contains(t, s.Logs.String(), `level=WARN msg="token not usable" part=tokens error="claim sub is a list in the token`)
}
