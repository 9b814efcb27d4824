// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package token_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"hash"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/token"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const secret = "0123456789abcdef0123456789abcdef"

// keys are of one issuer.
type keys struct {
	rsa *rsa.PrivateKey
	ec  *ecdsa.PrivateKey
	ed  ed25519.PrivateKey
}

func newKeys(t *testing.T) keys {
	t.Helper()
	r, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	e, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	_, d, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return keys{r, e, d}
}

// sign returns a token with valid claims, except for changes.
func sign(t *testing.T, alg jose.SignatureAlgorithm, key any, kid string, changes map[string]any) string {
	t.Helper()
	claims := map[string]any{
		"iss": "https://login.example.com", "aud": []string{"api", "other"}, "sub": "ada", "org": int64(12345678901234567),
		"admin": true, "exp": now.Add(time.Hour).Unix(), "nbf": now.Add(-time.Hour).Unix(), "roles": []string{"a"},
	}
	maps.Copy(claims, changes)
	payload := testkit.JSON(t, claims)
	opts := (&jose.SignerOptions{}).WithType("JWT")
	if kid != "" {
		opts = opts.WithHeader("kid", kid)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, opts)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func write(t *testing.T, data []byte) string {
	t.Helper()
	name := testkit.TempFile(t, "key", data)
	return name
}

func publicPEM(t *testing.T, key crypto.PublicKey) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

func set(t *testing.T, keys ...jose.JSONWebKey) []byte {
	t.Helper()
	data := testkit.JSON(t, jose.JSONWebKeySet{Keys: keys})
	return data
}

func verifier(t *testing.T, o token.Options) *token.Verifier {
	t.Helper()
	o.Now = func() time.Time { return now }
	v, err := token.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func bearer(text string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Authorization", "Bearer "+text)
	return r
}

// accepted reports whether a request has a valid token.
func accepted(v *token.Verifier, r *http.Request) bool {
	claims, err := v.Claims(r)
	return claims != nil && err == nil
}

// TestClaims: a token is accepted only if it is signed by a known key, in its time, for this
// audience; only texts, numbers and booleans are claims.
func TestClaims(t *testing.T) {
	ours, theirs := newKeys(t), newKeys(t)
	rsaPEM := publicPEM(t, &ours.rsa.PublicKey)
	jwks := set(t, jose.JSONWebKey{Key: &ours.rsa.PublicKey, KeyID: "r", Use: "sig"}, jose.JSONWebKey{Key: &ours.ec.PublicKey, KeyID: "e", Use: "sig"})
	ecSet := verifier(t, token.Options{JWKSFile: write(t, jwks)})
	one := verifier(t, token.Options{JWKSFile: write(t, set(t, jose.JSONWebKey{Key: &ours.ec.PublicKey, KeyID: "e"}))})
	hmacs := verifier(t, token.Options{HMACFile: write(t, []byte(secret+"\n"))})
	public := verifier(t, token.Options{KeyFile: write(t, rsaPEM)})
	ed := verifier(t, token.Options{KeyFile: write(t, publicPEM(t, ours.ed.Public()))})
	strict := verifier(t, token.Options{HMACFile: write(t, []byte(secret)), Issuer: "https://login.example.com", Audience: "api"})
	hs := func(changes map[string]any) string { return sign(t, jose.HS256, []byte(secret), "", changes) }
	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." + base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"ada"}`)) + "."
	good := hs(nil)
	for _, c := range []struct {
		name  string
		v     *token.Verifier
		token string
		want  bool
	}{
		{"a secret", hmacs, good, true},
		{"another secret", hmacs, sign(t, jose.HS256, []byte(strings.ToUpper(secret)), "", nil), false},
		{"no signature", hmacs, none, false},
		{"a changed payload", hmacs, good[:len(good)/2] + "A" + good[len(good)/2+1:], false},
		{"RSA", public, sign(t, jose.RS256, ours.rsa, "", nil), true},
		{"another's RSA", public, sign(t, jose.RS256, theirs.rsa, "", nil), false},
		{"the public key as a secret", public, sign(t, jose.HS256, rsaPEM, "", nil), false},
		{"Ed25519", ed, sign(t, jose.EdDSA, ours.ed, "", nil), true},
		{"of a set, RSA", ecSet, sign(t, jose.RS256, ours.rsa, "r", nil), true},
		{"of a set, ECDSA", ecSet, sign(t, jose.ES256, ours.ec, "e", nil), true},
		{"of a set, by another's key of that name", ecSet, sign(t, jose.ES256, theirs.ec, "e", nil), false},
		{"of a set, by an unknown name", ecSet, sign(t, jose.ES256, ours.ec, "x", nil), false},
		{"of a set of one, without a name", one, sign(t, jose.ES256, ours.ec, "", nil), true},
		{"expired", hmacs, hs(map[string]any{"exp": now.Add(-2 * time.Minute).Unix()}), false},
		{"expired just now", hmacs, hs(map[string]any{"exp": now.Add(-30 * time.Second).Unix()}), true},
		{"not valid yet", hmacs, hs(map[string]any{"nbf": now.Add(2 * time.Minute).Unix()}), false},
		{"for us, by whom we trust", strict, good, true},
		{"by another issuer", strict, hs(map[string]any{"iss": "https://evil.example.com"}), false},
		{"for somebody else", strict, hs(map[string]any{"aud": "other"}), false},
		{"garbage", hmacs, "x.y.z", false},
		{"huge", hmacs, hs(map[string]any{"x": strings.Repeat("x", 20_000)}), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			claim, err := c.v.Claims(bearer(c.token))
			if (err == nil) != c.want {
				t.Fatalf("error %v, want one: %v", err, !c.want)
			}
			if (claim != nil) != c.want {
				t.Fatalf("accepted: %v, want %v", claim != nil, c.want)
			}
			if !c.want {
				return
			}
			for name, want := range map[string]string{"sub": "ada", "org": "12345678901234567", "admin": "true"} {
				if got, err := claim(name); err != nil || got != want {
					t.Errorf("%s: got %q, %v, want %q", name, got, err, want)
				}
			}
			if got, err := claim("nothing"); err != nil || got != "" {
				t.Errorf("nothing: got %q, %v, want none", got, err)
			}
			if got, err := claim("roles"); err == nil {
				t.Errorf("roles: got %q, want an error", got)
			}
		})
	}
}

// byHand returns a token signed by a secret of any length.
func byHand(t *testing.T, alg string, of func() hash.Hash, secret []byte) string {
	t.Helper()
	encode := base64.RawURLEncoding.EncodeToString
	text := encode([]byte(`{"alg":"`+alg+`"}`)) + "." + encode([]byte(`{"sub":"ada"}`))
	h := hmac.New(of, secret)
	if _, err := io.WriteString(h, text); err != nil {
		t.Fatal(err)
	}
	return text + "." + encode(h.Sum(nil))
}

// TestSecretLength: a secret verifies signatures of hashes that are no longer than the secret.
func TestSecretLength(t *testing.T) {
	for _, alg := range []struct {
		name  string
		of    func() hash.Hash
		least int
	}{{"HS256", sha256.New, 32}, {"HS384", sha512.New384, 48}, {"HS512", sha512.New, 64}} {
		for _, n := range []int{32, 47, 48, 63, 64, 100} {
			text := []byte(strings.Repeat("s", n))
			v := verifier(t, token.Options{HMACFile: write(t, text)})
			if got, want := accepted(v, bearer(byHand(t, alg.name, alg.of, text))), n >= alg.least; got != want {
				t.Errorf("%s by %d bytes: accepted %v, want %v", alg.name, n, got, want)
			}
		}
	}
}

// TestWhere: a token is taken only from its configured place, and only if it is there once.
func TestWhere(t *testing.T) {
	file := write(t, []byte(secret))
	good := sign(t, jose.HS256, []byte(secret), "", nil)
	plain, header := verifier(t, token.Options{HMACFile: file}), verifier(t, token.Options{HMACFile: file, Header: "X-Token"})
	cookie := verifier(t, token.Options{HMACFile: file, Cookie: "session"})
	for _, c := range []struct {
		name   string
		v      *token.Verifier
		header http.Header
		want   bool
	}{
		{"bearer", plain, http.Header{"Authorization": {"bearer " + good}}, true},
		{"without bearer", plain, http.Header{"Authorization": {good}}, false},
		{"twice", plain, http.Header{"Authorization": {"Bearer " + good, "Bearer " + good}}, false},
		{"elsewhere", plain, http.Header{"X-Token": {good}}, false},
		{"in a header", header, http.Header{"X-Token": {good}}, true},
		{"in a header, with bearer", header, http.Header{"X-Token": {"Bearer " + good}}, true},
		{"in a cookie", cookie, http.Header{"Cookie": {"session=" + good}}, true},
		{"in two cookies", cookie, http.Header{"Cookie": {"session=" + good + "; session=x"}}, false},
		{"in two cookies, one of them not of RFC 6265", cookie, http.Header{"Cookie": {"session=" + good + "; session=\"x,\\"}}, false},
		{"in two fields, one of them not of RFC 6265", cookie, http.Header{"Cookie": {"session=x\xff", "session=" + good}}, false},
		{"in a cookie, between blanks", cookie, http.Header{"Cookie": {"session=  \"" + good + "\" "}}, true},
		{"in a cookie, beside one within another", cookie, http.Header{"Cookie": {"session=" + good + "; a=b session=x"}}, false},
		{"in a cookie, beside one of almost that name", cookie, http.Header{"Cookie": {"session=" + good + "; session\u00a0=x"}}, false},
		{"in a cookie beside one of another name", cookie, http.Header{"Cookie": {"session=" + good + "; other=x\xff"}}, true},
		{"nowhere", plain, http.Header{}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.Header = c.header
			if got := accepted(c.v, r); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// TestOtherSchemes: a token that an application may find after another scheme, or none, is an
// error and not a missing token.
func TestOtherSchemes(t *testing.T) {
	good := sign(t, jose.HS256, []byte(secret), "", nil)
	v := verifier(t, token.Options{HMACFile: write(t, []byte(secret))})
	for _, c := range []struct {
		value string
		want  string // the error
	}{
		{"", ""},
		{"Basic YWxhZGRpbjpvcGVuc2VzYW1l", ""},
		{"Negotiate YIIZ/eyJhYmMiOg==", ""},
		{"Token 0123456789abcdef", ""},
		{`Digest username="eve.example.org", realm="a.b.c"`, ""},
		{"Token " + good, "Bearer"},
		{"JWT " + good, "Bearer"},
		{"DPoP " + good, "Bearer"},
		{good, "Bearer"},
		{"x Bearer " + good, "Bearer"},
		{"Bearer" + good, "Bearer"},
		{"Bearer\u00a0" + good, "Bearer"},
		{"Bearer:" + good, "Bearer"},
		{"Bearer=" + good, "Bearer"},
		{`Bearer"` + good + `"`, "Bearer"},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header["Authorization"] = []string{c.value}
		claims, err := v.Claims(r)
		if claims != nil || (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.40q: got %v, want an error with %q", c.value, err, c.want)
		}
	}
}

// TestFaults: unusable keys are refused at the start.
func TestFaults(t *testing.T) {
	k := newKeys(t)
	private, err := x509.MarshalPKCS8PrivateKey(k.ec)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		o    token.Options
		want string
	}{
		{"no key", token.Options{}, "exactly one"},
		{"two keys", token.Options{HMACFile: "a", KeyFile: "b"}, "exactly one"},
		{"no file", token.Options{KeyFile: filepath.Join(t.TempDir(), "none")}, "no such file"},
		{"a directory", token.Options{HMACFile: t.TempDir()}, "is a directory; use the path of a regular file"},
		{"a short secret", token.Options{HMACFile: write(t, []byte("secret"))}, "6 bytes can be guessed"},
		{"no PEM", token.Options{KeyFile: write(t, []byte("secret"))}, "BEGIN PUBLIC KEY"},
		{"a private key", token.Options{KeyFile: write(t, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))}, "use a public key"},
		{"no set", token.Options{JWKSFile: write(t, []byte("[]"))}, "not a key set"},
		{"an empty set", token.Options{JWKSFile: write(t, []byte(`{"keys":[]}`))}, "no key can verify"},
		{"a set with a secret", token.Options{JWKSFile: write(t, set(t, jose.JSONWebKey{Key: []byte(secret), KeyID: "s"}))}, "not a public one"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := token.New(c.o); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}
