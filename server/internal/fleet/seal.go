// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
)

// keepSecret derives the key that encrypts values and the key that hashes names from the
// secret for the names of keys.
func (c *Conn) keepSecret(secret []byte) error {
	key, err := hkdf.Key(sha256.New, secret, nil, "what nodes share", 32)
	if err != nil {
		return err
	}
	if c.hashes, err = hkdf.Key(sha256.New, secret, nil, "names of what nodes share", 32); err != nil {
		return err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return err
	}
	c.seal, err = cipher.NewGCM(block)
	return err
}

// format begins a record or an entry that is not sealed. A later release with another format
// uses the next digit, up to 9.
const format = '1'

// ErrLater is the error for shared data of a later release, which this one can neither read
// nor replace.
var ErrLater = errors.New("fleet: a later release has written this, in a format that this one does not read: update this node, or ask one of that release")

// pack returns the stored form of the body of a record or entry.
func (c *Conn) pack(at string, body []byte) string {
	return c.Seal(at, append([]byte{format}, body...))
}

// unpack returns the body from its stored form.
func (c *Conn) unpack(at, kept string) ([]byte, error) {
	body, err := c.Unseal(at, kept)
	switch {
	case err != nil:
		return nil, err
	case len(body) == 0 || body[0] < format || body[0] > '9':
		return nil, errors.New("fleet: what the store has of this is of no format")
	case body[0] != format:
		return nil, ErrLater
	}
	return body[1:], nil
}

// Seal returns the stored form of a value that names keys: encrypted if the nodes have a
// secret for the names of keys. Then a reader of the server cannot know the value, and a
// writer cannot forge one. at is the place of the value, and must be the same for Unseal.
func (c *Conn) Seal(at string, value []byte) string {
	if c.seal == nil {
		return string(value)
	}
	nonce := make([]byte, c.seal.NonceSize(), c.seal.NonceSize()+len(value)+c.seal.Overhead())
	rand.Read(nonce) // never fails
	return string(c.seal.Seal(nonce, nonce, value, []byte(at)))
}

// Unseal returns the value from its stored form.
func (c *Conn) Unseal(at, kept string) ([]byte, error) {
	if c.seal == nil {
		return []byte(kept), nil
	}
	n := c.seal.NonceSize()
	if len(kept) < n {
		return nil, errSeal
	}
	value, err := c.seal.Open(nil, []byte(kept[:n]), []byte(kept[n:]), []byte(at))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errSeal, err)
	}
	return value, nil
}

var errSeal = errors.New("fleet: a value in the store was not written under this node's secret_file")
