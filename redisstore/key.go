// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strings"

	"github.com/sluicegate/sluice/internal/compiled"
)

// Keys are a stored format:
//
//	PREFIX { VERSION SCOPE / KEY } NAME
//
// without the spaces, and for the start of a rule
//
//	PREFIX { VERSION SCOPE } !start. NAME
//
// for the instant up to which receipts of a key are void
//
//	PREFIX { VERSION SCOPE / KEY } !!void
//
// for the holds beside a state
//
//	PREFIX { VERSION SCOPE / KEY } NAME !!holds
//
// and for the secret of [Store.HashSecret]
//
//	PREFIX { VERSION } !secret
//
// A Cluster hashes the text in braces, so all limits of a key are on one node. Special
// bytes are escaped as %XX in scope and key, so that no two identities have one name. A
// long key is replaced by its SHA-256, and every key by its HMAC if there is a secret, cut
// to 144 bits; a hash has another separator from the scope. In NAME one capital stands
// for an algorithm's name and its dot, as names have no capitals.
const (
	keyVersion    = "1"
	sepPlain      = '/'
	sepHashed     = '#'
	sepSecret     = '@'
	sepSlots      = '!'       // between key and NAME: holders of slots
	sepVoid       = "!!void"  // after a key: see voids.go
	sepHolds      = "!!holds" // after a state's key: see holds.go
	sepStart      = "!start." // between scope and NAME: the start of a rule
	sepSecretKept = "!secret"
	keyHashed     = 18 // bytes of a hash that are kept
	longestKey    = 64 // bytes of a key that is not hashed
	special       = "%{}/#@!"
	hexDigits     = "0123456789ABCDEF"
	defaultPrefix = "sluice"
)

// keyer names states.
type keyer struct {
	prefix string
	secret []byte
}

// scope returns the prefix of all keys of a scope.
func (k *keyer) scope(scope string) string {
	b := append(make([]byte, 0, 64), k.prefix...)
	b = append(b, '{')
	b = append(b, keyVersion...)
	return string(appendEscaped(b, scope))
}

// tag returns the common prefix of the keys of all limits of key.
func (k *keyer) tag(scope, key string) string {
	return string(k.appendTag(nil, k.scope(scope), key))
}

// appendTag appends the tag of key, given the prefix of its scope.
func (k *keyer) appendTag(b []byte, scope, key string) []byte {
	b = append(b, scope...)
	switch {
	case len(k.secret) > 0:
		b = base64.RawURLEncoding.AppendEncode(append(b, sepSecret), k.hash(key)[:keyHashed])
	case len(key) > longestKey:
		b = base64.RawURLEncoding.AppendEncode(append(b, sepHashed), k.hash(key)[:keyHashed])
	default:
		b = appendEscaped(append(b, sepPlain), key)
	}
	return append(b, '}')
}

// hash returns the hash of a text, under the secret if there is one.
func (k *keyer) hash(text string) []byte {
	if len(k.secret) == 0 {
		sum := sha256.Sum256([]byte(text))
		return sum[:]
	}
	mac := hmac.New(sha256.New, k.secret)
	mac.Write([]byte(text)) // never fails
	return mac.Sum(nil)
}

func appendEscaped(b []byte, s string) []byte {
	if !strings.ContainsAny(s, special) {
		return append(b, s...)
	}
	for i := range len(s) {
		c := s[i]
		if strings.IndexByte(special, c) >= 0 {
			b = append(b, '%', hexDigits[c>>4], hexDigits[c&15])
			continue
		}
		b = append(b, c)
	}
	return b
}

// nameOf returns the part of a state's key after the tag.
func nameOf(limit string) string {
	for k, name := range compiled.KindNames[:compiled.Block] {
		if rest, ok := strings.CutPrefix(limit, name+"."); ok {
			return "TLFGCH"[k:k+1] + rest
		}
	}
	return limit
}

// slots returns the key of holders of slots.
func (k *keyer) slots(scope, key, name string) string {
	return k.tag(scope, key) + string(sepSlots) + name
}

// start returns the key of a rule's start.
func (k *keyer) start(scope, name string) string {
	return k.scope(scope) + "}" + sepStart + name
}

// hashSecret returns the key of the secret for [Store.HashSecret].
func (k *keyer) hashSecret() string { return k.scope("") + "}" + sepSecretKept }

// slot returns the hash slot of a tag.
func slot(tag string) uint16 {
	open := strings.IndexByte(tag, '{')
	var crc uint16
	for i := open + 1; tag[i] != '}'; i++ {
		crc ^= uint16(tag[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return crc & 16383
}
