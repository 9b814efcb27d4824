// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package attack_test

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestTokens: only a token signed by the issuer, for this audience and in its time, gives its
// bearer a key or a customer's plan. Nothing that a token names is fetched.
func TestTokens(t *testing.T) {
	t.Parallel()
	ours, theirs := newIssuer(t), newIssuer(t)
	fetched := listener(t)
	der, text := ours.public(t)
	program(t) // building it may take longer than some of these times
	now := time.Now().Unix()
	claims := func(changes string) string {
		all := map[string]any{"iss": "login", "aud": "api", "sub": "ada", "plan": "pro", "exp": now + 3600}
		var more map[string]any
		if err := json.Unmarshal([]byte("{"+changes+"}"), &more); err != nil {
			t.Fatal(err)
		}
		for name, value := range more {
			if all[name] = value; value == nil {
				delete(all, name)
			}
		}
		data, err := json.Marshal(all)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	plain := claims("")
	at := func(name string, after int64) string { return claims(fmt.Sprintf("%q: %d", name, now+after)) }
	const rs = `{"alg":"RS256","kid":"r"}`
	good := ours.rs256(t, rs, plain)
	parts := strings.Split(good, ".")
	head := func(header string) string { return ours.rs256(t, header, plain) }
	forged := func(header string) string { return theirs.rs256(t, header, plain) }
	jwk, err := json.Marshal(rsaJWK("r", &theirs.rsa.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + fetched.addr + "/keys"
	type row struct {
		name, token string
		want        bool // it is valid
	}
	rows := []row{
		{"RS256", good, true},
		{"ES256", ours.es256(t, `{"alg":"ES256","kid":"e"}`, plain), true},
		{"typ JWT", head(`{"alg":"RS256","kid":"r","typ":"JWT"}`), true},
		{"several audiences", ours.rs256(t, rs, claims(`"aud": ["other", "api"]`)), true},
		{"without an end", ours.rs256(t, rs, claims(`"exp": null`)), true},
		{"issued by a clock that is ahead", ours.rs256(t, rs, at("nbf", 30)), true},

		{"alg none", encode([]byte(`{"alg":"none"}`)) + "." + parts[1] + ".", false},
		{"alg None", encode([]byte(`{"alg":"None"}`)) + "." + parts[1] + ".", false},
		{"alg none, signed", encode([]byte(`{"alg":"none","kid":"r"}`)) + "." + parts[1] + "." + parts[2], false},
		{"alg empty", head(`{"alg":"","kid":"r"}`), false},
		{"no alg", head(`{"kid":"r"}`), false},
		{"alg of another hash", head(`{"alg":"RS512","kid":"r"}`), false},
		{"alg of another kind", head(`{"alg":"ES256","kid":"r"}`), false},
		{"alg twice", forged(`{"alg":"RS256","alg":"none","kid":"r"}`), false},
		{"HS256 by the public key", hs256(t, `{"alg":"HS256","kid":"r"}`, plain, text), false},
		{"HS256 by the public key in DER", hs256(t, `{"alg":"HS256","kid":"r"}`, plain, der), false},
		{"HS256 by its modulus", hs256(t, `{"alg":"HS256","kid":"r"}`, plain, ours.rsa.N.Bytes()), false},
		{"HS256 by nothing", hs256(t, `{"alg":"HS256","kid":"r"}`, plain, nil), false},
		{"another's key", forged(rs), false},
		{"another's key, without a name", forged(`{"alg":"RS256"}`), false},
		{"another's EC key", theirs.es256(t, `{"alg":"ES256","kid":"e"}`, plain), false},
		{"kid of the other key", ours.es256(t, `{"alg":"ES256","kid":"r"}`, plain), false},
		{"kid unknown", head(`{"alg":"RS256","kid":"x"}`), false},
		{"kid a path", forged(`{"alg":"RS256","kid":"../../../../dev/null"}`), false},
		{"kid a path, HS256 by nothing", hs256(t, `{"alg":"HS256","kid":"../../../../dev/null"}`, plain, nil), false},
		{"kid a URL", forged(`{"alg":"RS256","kid":"` + url + `"}`), false},
		{"kid a number", forged(`{"alg":"RS256","kid":1}`), false},
		{"kid a query", forged(`{"alg":"RS256","kid":"' OR '1'='1"}`), false},
		{"kid twice", forged(`{"alg":"RS256","kid":"r","kid":"x"}`), false},
		{"kid of two keys, another's", forged(`{"alg":"RS256","kid":"two"}`), false},
		{"its own key", forged(`{"alg":"RS256","kid":"r","jwk":` + string(jwk) + `}`), false},
		{"its own key, without a name", forged(`{"alg":"RS256","jwk":` + string(jwk) + `}`), false},
		{"keys elsewhere", forged(`{"alg":"RS256","kid":"r","jku":"` + url + `"}`), false},
		{"a certificate elsewhere", forged(`{"alg":"RS256","kid":"r","x5u":"` + url + `"}`), false},
		{"a certificate", forged(`{"alg":"RS256","kid":"r","x5c":["AAAA"]}`), false},
		{"crit unknown", head(`{"alg":"RS256","kid":"r","crit":["x"],"x":1}`), false},
		{"crit empty", forged(`{"alg":"RS256","kid":"r","crit":[]}`), false},
		{"b64 false", head(`{"alg":"RS256","kid":"r","crit":["b64"],"b64":false}`), false},

		{"expired", ours.rs256(t, rs, at("exp", -120)), false},
		{"expired in 1970", ours.rs256(t, rs, claims(`"exp": 0.5`)), false},
		{"expired, below 0", ours.rs256(t, rs, claims(`"exp": -1`)), false},
		{"an end in words", ours.rs256(t, rs, claims(`"exp": "never"`)), false},
		{"not valid yet", ours.rs256(t, rs, at("nbf", 120)), false},
		{"issued tomorrow", ours.rs256(t, rs, at("iat", 86400)), false},
		{"for somebody else", ours.rs256(t, rs, claims(`"aud": "other"`)), false},
		{"for nobody", ours.rs256(t, rs, claims(`"aud": null`)), false},
		{"for no one of a list", ours.rs256(t, rs, claims(`"aud": []`)), false},
		{"for a part of us", ours.rs256(t, rs, claims(`"aud": "api.evil"`)), false},
		{"by another", ours.rs256(t, rs, claims(`"iss": "evil"`)), false},
		{"by nobody", ours.rs256(t, rs, claims(`"iss": null`)), false},
		{"a claim twice", ours.rs256(t, rs, strings.Replace(plain, `"sub":"ada"`, `"sub":"eve","sub":"ada"`, 1)), false},
		{"claims that are a list", ours.rs256(t, rs, "["+plain+"]"), false},
		{"claims with more behind", ours.rs256(t, rs, plain+"{}"), false},
		{"no claims", ours.rs256(t, rs, ""), false},

		{"no signature", parts[0] + "." + parts[1] + ".", false},
		{"no part for one", parts[0] + "." + parts[1], false},
		{"cut off", good[:len(good)-8], false},
		{"padding", good + "==", false},
		{"of the other alphabet", strings.Join(parts[:2], ".") + "." + strings.NewReplacer("-", "+", "_", "/").Replace(parts[2]) + "+/", false},
		{"other claims", parts[0] + "." + encode([]byte(claims(`"x": 1`))) + "." + parts[2], false},
		{"another letter at the end", parts[0] + "." + parts[1][:len(parts[1])-1] + other(parts[1]) + "." + parts[2], false},
		{"four parts", good + ".x", false},
		{"five parts, as encrypted ones have", "a.b.c.d.e", false},
		{"within another", ours.rs256(t, `{"alg":"RS256","kid":"r","cty":"JWT"}`, strconv.Quote(good)), false},
		{"in JSON", fmt.Sprintf(`{"payload":%q,"protected":%q,"signature":%q}`, parts[1], parts[0], parts[2]), false},
		{"a blank within", parts[0] + ". " + parts[1] + "." + parts[2], false},
		{"ES256 of zeros", strings.Join(strings.Split(ours.es256(t, `{"alg":"ES256","kid":"e"}`, plain), ".")[:2], ".") + "." + encode(make([]byte, 64)), false},
		{"RS256 of zeros", strings.Join(parts[:2], ".") + "." + encode(make([]byte, 256)), false},
		{"large", ours.rs256(t, rs, claims(`"x": "`+strings.Repeat("x", 20_000)+`"`)), false},
		{"deep", ours.rs256(t, rs, claims(`"exp": 1, "x": `+strings.Repeat("[", 5000)+strings.Repeat("]", 5000))), false},
		{"dots", strings.Repeat(".", 2000), false},
		{"empty", "", false},
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "keys.json"), ours.keySet(t), 0o600); err != nil {
		t.Fatal(err)
	}
	u := newUpstream(t)
	of := func(where string) *gate {
		return start(t, fmt.Sprintf(`
listen: {address: "127.0.0.1:0", proxy_protocol: 127.0.0.0/8}
admin: 127.0.0.1:0
upstream: %s
tokens: {jwks_file: %q, issuer: login, audience: api%s}
rules:
  - {name: user, match: {path: /user}, by: [claim.sub, header.X-Row], limits: 1/h sliding-log}
  - name: plans
    match: {path: /plan}
    by: ip
    limits: 1/h sliding-log
    tiers: {by: claim.plan, limits: {pro: 100/h sliding-log}}
`, u.url(), filepath.Join(dir, "keys.json"), where))
	}
	header, cookie := of(""), of(", cookie: token")
	t.Run("rows", func(t *testing.T) {
		for i, r := range rows {
			row := number("token", i)
			t.Run(r.name, func(t *testing.T) {
				t.Parallel()
				holds(t, header.client(address()), u, row, r.want, "Authorization: Bearer "+r.token)
			})
			t.Run(r.name+", in a cookie", func(t *testing.T) {
				t.Parallel()
				holds(t, cookie.client(address()), u, row+"c", r.want, "Cookie: token="+r.token)
			})
		}
		for i, r := range []struct {
			name, fields string
			want         bool
		}{
			{"small letters", "authorization: bearer {t}", true},
			{"twice", "Authorization: Bearer {t}\nAuthorization: Bearer {t}", false},
			{"another scheme before", "Authorization: Basic x\nAuthorization: Bearer {t}", false},
			{"behind a comma", "Authorization: Basic x, Bearer {t}", false},
			{"no scheme", "Authorization: {t}", false},
			{"another scheme", "Authorization: Basic {t}", false},
			{"a tab behind the scheme", "Authorization: Bearer\t{t}", true},
			{"another field", "X-Authorization: Bearer {t}", false},
			{"a field of a proxy", "Proxy-Authorization: Bearer {t}", false},
			{"named by Connection", "Authorization: Bearer {t}\nConnection: Authorization", false},
			{"none", "X-A: b", false},
			{"in a cookie", "Cookie: token={t}; Authorization={t}", false},
		} {
			t.Run(r.name, func(t *testing.T) {
				t.Parallel()
				holds(t, header.client(address()), u, number("tokenfield", i), r.want, strings.Split(strings.ReplaceAll(r.fields, "{t}", good), "\n")...)
			})
		}
	})
	if n := fetched.connections.Load(); n > 0 {
		t.Errorf("%d connections were made to where tokens point", n)
	}
}

// holds fails the test unless a request with these fields counts as one with a valid token, or
// does not, as wanted.
func holds(t *testing.T, c client, u *upstream, row string, want bool, fields ...string) {
	t.Helper()
	user := c.get(t, row, "/user", fields...)
	if want != (user.status == passes) || !want && user.status != refused && user.status != 401 {
		t.Errorf("by its user: got %d", user.status)
	}
	if got := len(u.of(row)); got > 0 != want {
		t.Errorf("%d requests arrived", got)
	}
	c.get(t, row, "/plan", fields...)
	if plan := c.get(t, row, "/plan", fields...); plan.status == passes != want {
		t.Errorf("by its plan: got %d for the second", plan.status)
	}
}

// other returns the last letter of a base 64 text with its lowest bit flipped.
func other(text string) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	return string(alphabet[strings.IndexByte(alphabet, text[len(text)-1])^1])
}

// counting is a server that counts its connections.
type counting struct {
	net.Listener
	addr        string
	connections atomic.Int32
}

func listener(t *testing.T) *counting {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() }) // the test may have
	c := &counting{Listener: l, addr: l.Addr().String()}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // closed
			}
			c.connections.Add(1)
			_ = conn.Close() // never fails
		}
	}()
	return c
}
