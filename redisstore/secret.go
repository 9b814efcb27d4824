// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
)

// secretBytes is the size of the secret that a server keeps.
const secretBytes = 32

// HashSecret returns a secret that is the same for all Stores with one server, Prefix and
// Options.Secret, and for no others. With it they can hash keys alike, for example to count
// distinct keys. It is not used for the names of keys.
//
// The server keeps 32 random bytes for it, from the first call of any Store until 400 days
// after the last. If it has lost them, the next Store that calls HashSecret restores the
// bytes that it knows. The result also depends on Options.Secret, so that a reader of the
// server alone does not know it.
//
// HashSecret blocks for one round trip with every call, no longer than ctx or
// Options.Timeout.
func (s *Store) HashSecret(ctx context.Context) (secret [32]byte, err error) {
	if err := s.admit(ctx); err != nil {
		return secret, fmt.Errorf("redisstore: secret for hashes: %w", err)
	}
	defer s.pending.done()
	a := begin(s.bound(), s, s.askSecret) //nolint:contextcheck // see leave.go: a caller's context never reaches the client
	kept, ok := a.wait(ctx)
	if !ok {
		a.leave(s, func(context.Context, keptSecret) {})
		return secret, fmt.Errorf("redisstore: secret for hashes: %w", ctx.Err())
	}
	if kept.err == nil {
		var derived []byte
		derived, kept.err = hkdf.Key(sha256.New, s.keyer.secret, kept.raw, "hashes of keys", len(secret))
		copy(secret[:], derived)
	}
	if kept.err != nil {
		return secret, fmt.Errorf("redisstore: secret for hashes, key %q: %w", s.keyer.hashSecret(), kept.err)
	}
	return secret, nil
}

// keptSecret is the server's secret, or an error.
type keptSecret struct {
	raw []byte
	err error
}

// askSecret returns the server's secret. If the server has none, it keeps the one that this
// Store knows or, if it knows none, random bytes.
func (s *Store) askSecret(ctx context.Context) keptSecret {
	text := s.secretText.Load()
	if text == nil {
		var raw [secretBytes]byte
		rand.Read(raw[:]) // never fails
		random := hex.EncodeToString(raw[:])
		text = &random
	}
	inv := newInvocation(s.programs.secret, []string{s.keyer.hashSecret()}, *text, strconv.FormatInt(startLife.Milliseconds(), 10))
	res := inv.do(ctx, s)
	kept, err := res.text()
	if err != nil {
		return keptSecret{err: err}
	}
	raw, err := hex.DecodeString(kept)
	if err != nil || len(raw) != secretBytes {
		// The error omits the value, which may be another program's secret.
		return keptSecret{err: fmt.Errorf("its value is not %d hexadecimal digits: another program wrote it; delete it", 2*secretBytes)}
	}
	s.secretText.Store(&kept)
	return keptSecret{raw: raw}
}
