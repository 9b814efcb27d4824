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

// HashSecret returns a secret that Stores share which have one server, Prefix and
// Options.Secret, so that they can hash keys alike, such as to count different
// ones. Others have other secrets. It is not what names keys.
//
// The server keeps 32 random bytes for it, from the first call of any Store to 400
// days after the last. If it has lost them, the first Store that asks again puts
// back those that it knows. Options.Secret goes into what is returned, so that
// a reader of the server alone does not know it.
//
// HashSecret blocks for one round trip, no longer than ctx or Options.Timeout. The
// server is asked with every call.
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

// keptSecret is what a server keeps, or why that is not known.
type keptSecret struct {
	raw []byte
	err error
}

// askSecret asks for what the server keeps, and gives it what this Store knows or, if
// that is nothing, random bytes, to keep if it has none.
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
	kept, err := res.AsText()
	if err != nil {
		return keptSecret{err: err}
	}
	raw, err := hex.DecodeString(kept)
	if err != nil || len(raw) != secretBytes {
		// What is there is not reported: it may be somebody's secret.
		return keptSecret{err: fmt.Errorf("its value is not %d hexadecimal digits: another program wrote it; delete it", 2*secretBytes)}
	}
	s.secretText.Store(&kept)
	return keptSecret{raw: raw}
}
