// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package token verifies the tokens of requests (JWT, RFC 7519), so that a policy may trust
// their claims. A forged, expired or foreign token is an error, and not treated as missing.
package token

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha512"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/sluicegate/sluice/internal/regular"
	"github.com/sluicegate/sluice/policy"
)

const (
	maxFile  = 1 << 20  // bytes of a file of keys
	maxToken = 16 << 10 // bytes of a token
	// leeway is how far the issuer's clock may differ from this one.
	leeway = time.Minute
	// leastHMAC is the shortest secret, in bytes: RFC 7518, section 3.2.
	leastHMAC = 32
)

// Options are the place of a token and its keys. Exactly one of JWKSFile, HMACFile and KeyFile
// is required.
type Options struct {
	// Header is the field with the token; empty means Authorization, where it follows "Bearer
	// ". With Cookie the token is in that cookie, and in no header.
	Header, Cookie string

	JWKSFile string // a JSON Web Key Set (RFC 7517) of public keys
	// HMACFile is a file with a secret: of at least 32 bytes for HS256, 48 for HS384 and 64
	// for HS512. A token signed by an algorithm for which the secret is too short is not
	// valid.
	HMACFile string
	KeyFile  string // a public key in PEM: RSA, ECDSA or Ed25519

	Issuer, Audience string // required values of iss and aud, if not empty

	// OnRefuse, if not nil, is called with the fault of a token that cannot be used, expired
	// ones excepted, and of a claim without a text. It must be safe for concurrent use and
	// quick.
	OnRefuse func(*http.Request, error)

	Now func() time.Time // nil means time.Now
}

// Verifier verifies tokens. It is immutable and safe for concurrent use.
type Verifier struct {
	o          Options
	key        any // key for package jwt
	algorithms []jose.SignatureAlgorithm
}

// New reads the keys and returns a Verifier, or the keys' faults.
func New(o Options) (*Verifier, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	v := &Verifier{o: o}
	var err error
	switch {
	case o.JWKSFile != "" && o.HMACFile == "" && o.KeyFile == "":
		err = v.readSet(o.JWKSFile)
	case o.HMACFile != "" && o.JWKSFile == "" && o.KeyFile == "":
		err = v.readSecret(o.HMACFile)
	case o.KeyFile != "" && o.JWKSFile == "" && o.HMACFile == "":
		err = v.readKey(o.KeyFile)
	default:
		err = errors.New("exactly one of a key set, a secret and a public key is needed")
	}
	if err != nil {
		return nil, fmt.Errorf("token: %w", err)
	}
	return v, nil
}

func readFile(name string) (data []byte, err error) {
	data, _, err = regular.Read(name, maxFile+1)
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("%s is larger than %d bytes", name, maxFile)
	}
	return data, err
}

func (v *Verifier) readSecret(name string) error {
	data, err := readFile(name)
	if err != nil {
		return err
	}
	secret := bytes.TrimRight(data, "\r\n")
	if len(secret) < leastHMAC {
		return fmt.Errorf("%s: a secret of %d bytes can be guessed; use %d or more, such as those of openssl rand -hex 32", name, len(secret), leastHMAC)
	}
	v.key, v.algorithms = secret, algorithmsOfSecret(len(secret))
	return nil
}

// algorithmsOfSecret returns the algorithms for a secret of n bytes, which must be as long as
// the hash (RFC 7518, section 3.2).
func algorithmsOfSecret(n int) []jose.SignatureAlgorithm {
	algorithms := []jose.SignatureAlgorithm{jose.HS256}
	if n >= sha512.Size384 {
		algorithms = append(algorithms, jose.HS384)
	}
	if n >= sha512.Size {
		algorithms = append(algorithms, jose.HS512)
	}
	return algorithms
}

func (v *Verifier) readKey(name string) error {
	data, err := readFile(name)
	if err != nil {
		return err
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return fmt.Errorf("%s holds no PEM; use a file that begins with -----BEGIN PUBLIC KEY-----", name)
	}
	var key any
	switch block.Type {
	case "PUBLIC KEY":
		key, err = x509.ParsePKIXPublicKey(block.Bytes)
	case "RSA PUBLIC KEY":
		key, err = x509.ParsePKCS1PublicKey(block.Bytes)
	case "CERTIFICATE":
		var c *x509.Certificate
		if c, err = x509.ParseCertificate(block.Bytes); err == nil {
			key = c.PublicKey
		}
	default:
		err = fmt.Errorf("is a %s; use a public key", block.Type)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	v.key = key
	if v.algorithms = algorithmsOf(key); v.algorithms == nil {
		return fmt.Errorf("%s: a %T cannot verify a token; use an RSA, ECDSA or Ed25519 key", name, key)
	}
	return nil
}

func (v *Verifier) readSet(name string) error {
	data, err := readFile(name)
	if err != nil {
		return err
	}
	var set jose.JSONWebKeySet
	if err := json.Unmarshal(data, &set); err != nil {
		return fmt.Errorf("%s is not a key set: %w", name, err)
	}
	seen := make(map[jose.SignatureAlgorithm]bool)
	for i := range set.Keys {
		k := &set.Keys[i]
		if k.Use != "" && k.Use != "sig" {
			continue
		}
		if !k.IsPublic() {
			return fmt.Errorf("%s: key %d is not a public one; leave private keys and secrets with the issuer", name, i+1)
		}
		for _, a := range algorithmsOf(k.Key) {
			if !seen[a] && (k.Algorithm == "" || k.Algorithm == string(a)) {
				seen[a] = true
				v.algorithms = append(v.algorithms, a)
			}
		}
	}
	if len(v.algorithms) == 0 {
		return fmt.Errorf("%s: no key can verify a token; use RSA, ECDSA or Ed25519 keys", name)
	}
	v.key = &set
	if len(set.Keys) == 1 {
		v.key = set.Keys[0].Key // used for any kid of a token
	}
	return nil
}

// algorithmsOf returns the algorithms that a public key verifies. HMAC is never among them, or
// the public key would serve as a secret.
func algorithmsOf(key crypto.PublicKey) []jose.SignatureAlgorithm {
	switch key.(type) {
	case *rsa.PublicKey:
		return []jose.SignatureAlgorithm{jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512}
	case *ecdsa.PublicKey:
		return []jose.SignatureAlgorithm{jose.ES256, jose.ES384, jose.ES512}
	case ed25519.PublicKey:
		return []jose.SignatureAlgorithm{jose.EdDSA}
	}
	return nil
}

// registered are the claims that decide whether a token is valid. Others, such as sub, may be
// of any type.
type registered struct {
	Issuer    string           `json:"iss"`
	Audience  jwt.Audience     `json:"aud"`
	Expiry    *jwt.NumericDate `json:"exp"`
	NotBefore *jwt.NumericDate `json:"nbf"`
	IssuedAt  *jwt.NumericDate `json:"iat"`
}

var (
	errExpired = &policy.TokenError{Problem: "the token has expired"}
	errLong    = &policy.TokenError{Problem: "the token is too long"}
)

// reason is why a token is not valid, in words without any part of the token.
type reason string

func (r reason) Error() string { return string(r) }

// reasons are the reasons for faults other than the token's form.
var reasons = []struct {
	err    error
	reason reason
}{
	{jwt.ErrInvalidIssuer, "its issuer (iss) is not the one that tokens names"},
	{jwt.ErrInvalidAudience, "its audience (aud) lacks the one that tokens names"},
	{jwt.ErrNotValidYet, "it is not valid yet (nbf)"},
	{jwt.ErrIssuedInTheFuture, "it was issued in the future (iat)"},
	{jose.ErrCryptoFailure, "no key of tokens verifies its signature"},
}

// Cause returns for an operator why a request was refused, without any text from the client.
func Cause(err error) string {
	if err == nil {
		return ""
	}
	if r, ok := errors.AsType[reason](err); ok {
		return err.Error() + ": " + string(r)
	}
	return err.Error()
}

// invalid returns the error for an invalid token. Its text for the client has no reason; why
// is for the log.
func invalid(why error) *policy.TokenError {
	for i := range reasons {
		if errors.Is(why, reasons[i].err) {
			why = reasons[i].reason
			break
		}
	}
	return &policy.TokenError{Problem: "the token is not valid", Err: why}
}

// detailed returns a fault with its reason, of which clients may choose a part.
func detailed(fault *policy.TokenError) error {
	if fault.Err == nil {
		return fault
	}
	return fmt.Errorf("%w: %.200s", fault, fault.Err.Error())
}

// Claims verifies the token of a request and returns a function that returns the text of a
// claim, or nil if no token was sent. The error, a [*policy.TokenError], says why a token
// cannot be used. The function returns "" for a missing claim, and an error for a claim of a
// type without a text.
func (v *Verifier) Claims(r *http.Request) (claims func(name string) (string, error), err error) {
	raw, fault := v.find(r)
	var all map[string]json.RawMessage
	if fault == nil && raw != "" {
		all, fault = v.verify(raw)
	}
	switch {
	case fault != nil:
		if v.o.OnRefuse != nil && fault != errExpired {
			v.o.OnRefuse(r, detailed(fault))
		}
		return nil, fault
	case raw == "":
		return nil, nil //nolint:nilnil // no token and no fault
	}
	return func(name string) (string, error) {
		value, err := text(all[name])
		if err != nil && v.o.OnRefuse != nil {
			v.o.OnRefuse(r, fmt.Errorf("claim %s %w", name, err))
		}
		return value, err
	}, nil
}

// verify returns all claims of a token, unparsed.
func (v *Verifier) verify(raw string) (map[string]json.RawMessage, *policy.TokenError) {
	if len(raw) > maxToken {
		return nil, errLong
	}
	parsed, err := jwt.ParseSigned(raw, v.algorithms)
	if err != nil {
		return nil, invalid(err)
	}
	var standard registered
	var all map[string]json.RawMessage
	if err := parsed.Claims(v.key, &standard, &all); err != nil {
		return nil, invalid(err)
	}
	expected := jwt.Expected{Issuer: v.o.Issuer, Time: v.o.Now()}
	if v.o.Audience != "" {
		expected.AnyAudience = jwt.Audience{v.o.Audience}
	}
	err = jwt.Claims{
		Issuer: standard.Issuer, Audience: standard.Audience,
		Expiry: standard.Expiry, NotBefore: standard.NotBefore, IssuedAt: standard.IssuedAt,
	}.ValidateWithLeeway(expected, leeway)
	switch {
	case errors.Is(err, jwt.ErrExpired):
		return nil, errExpired
	case err != nil:
		return nil, invalid(err)
	}
	return all, nil
}
