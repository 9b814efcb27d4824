// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package attack_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"testing"
)

// issuer signs tokens by hand, invalid ones too.
type issuer struct {
	rsa *rsa.PrivateKey
	ec  *ecdsa.PrivateKey
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	r, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	e, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &issuer{r, e}
}

var encode = base64.RawURLEncoding.EncodeToString

// rs256 signs a header and claims, each in JSON.
func (i *issuer) rs256(t *testing.T, header, claims string) string {
	t.Helper()
	text := encode([]byte(header)) + "." + encode([]byte(claims))
	sum := sha256.Sum256([]byte(text))
	b, err := rsa.SignPKCS1v15(rand.Reader, i.rsa, crypto.SHA256, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	return text + "." + encode(b)
}

func (i *issuer) es256(t *testing.T, header, claims string) string {
	t.Helper()
	text := encode([]byte(header)) + "." + encode([]byte(claims))
	sum := sha256.Sum256([]byte(text))
	r, s, err := ecdsa.Sign(rand.Reader, i.ec, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	return text + "." + encode(append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...))
}

func hs256(t *testing.T, header, claims string, secret []byte) string {
	t.Helper()
	text := encode([]byte(header)) + "." + encode([]byte(claims))
	h := hmac.New(sha256.New, secret)
	if _, err := h.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return text + "." + encode(h.Sum(nil))
}

// keySet returns the issuer's set of public keys, two of which are named "two".
func (i *issuer) keySet(t *testing.T) []byte {
	t.Helper()
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(map[string]any{"keys": []any{
		rsaJWK("r", &i.rsa.PublicKey), rsaJWK("two", &other.PublicKey), rsaJWK("two", &i.rsa.PublicKey),
		map[string]string{"kty": "EC", "crv": "P-256", "kid": "e", "use": "sig", "x": encode(point(t, i.ec)[:32]), "y": encode(point(t, i.ec)[32:])},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// point returns the coordinates of a public key.
func point(t *testing.T, key *ecdsa.PrivateKey) []byte {
	t.Helper()
	public, err := key.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return public[1:]
}

func rsaJWK(kid string, key *rsa.PublicKey) map[string]string {
	return map[string]string{"kty": "RSA", "kid": kid, "use": "sig", "n": encode(key.N.Bytes()), "e": encode(big.NewInt(int64(key.E)).Bytes())}
}

// public returns the RSA key in the forms that forgers use as a secret.
func (i *issuer) public(t *testing.T) (der, text []byte) {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(&i.rsa.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	return der, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}
