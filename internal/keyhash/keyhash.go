// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package keyhash hashes texts to evenly spread 64 bits, under a secret that can be stored and
// shared.
package keyhash

import (
	"crypto/rand"
	"encoding/binary"
	"math/bits"
)

// Secret is the key of a hash: without it nobody can make two texts collide. Equal Secrets
// hash alike everywhere.
type Secret [4]uint64

// New returns a random Secret.
func New() Secret {
	var raw [32]byte
	rand.Read(raw[:]) // never fails
	return Of(raw)
}

// Of returns the Secret made of random bytes.
func Of(raw [32]byte) Secret {
	var s Secret
	for i := range s {
		// Odd, so that no factor of a product below can vanish for all keys.
		s[i] = binary.LittleEndian.Uint64(raw[8*i:]) | 1
	}
	return s
}

// mum folds the 128-bit product of a and b.
func mum(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

// le32 and le64 read little-endian words; the compiler makes one load of each.
func le32(s string) uint64 {
	_ = s[3]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24
}

func le64(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

// Sum hashes a text within a domain, such as a scope. It multiplies as wyhash and
// rapidhash do (Wang Yi, 2019), under a secret of its own.
func (s *Secret) Sum(domain uint64, text string) uint64 {
	n := len(text)
	seed := mum(domain^s[0], s[1])
	var a, b uint64
	switch {
	case n > 16:
		p := text
		for len(p) > 16 {
			seed = mum(le64(p)^s[2], le64(p[8:])^seed)
			p = p[16:]
		}
		a, b = le64(text[n-16:]), le64(text[n-8:])
	case n >= 8:
		a, b = le64(text), le64(text[n-8:])
	case n >= 4:
		a, b = le32(text), le32(text[n-4:])
	case n > 0:
		a = uint64(text[0])<<16 | uint64(text[n>>1])<<8 | uint64(text[n-1])
	}
	hi, lo := bits.Mul64(a^s[2], b^seed)
	return mum(lo^s[3]^uint64(n), hi^s[1])
}
