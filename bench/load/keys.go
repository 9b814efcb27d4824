// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package load

import (
	"fmt"
	"math/rand/v2"
)

// KeyBytes is the length of every key, such as "user:00000042".
const KeyBytes = 13

// Keys is a sequence of keys, one after another in one block of text, so that
// reading them costs as little as it can: about 1 ns, the same for everybody.
// A key in a real request has just been read from the wire, and is in the
// cache too.
type Keys struct{ text string }

// Len returns how many keys the sequence has.
func (k Keys) Len() int { return len(k.text) / KeyBytes }

// At returns the i-th key. It does not allocate.
func (k Keys) At(i int) string { return k.text[i*KeyBytes : (i+1)*KeyBytes] }

// Distinct returns n different keys, from number first on. Keys of different
// numbers differ.
func Distinct(first, n int) Keys {
	return makeKeys(n, func(i int) int { return first + i })
}

// Uniform returns n draws from that many keys, each as likely as the others.
// They are the same with every call for one stream, and differ between streams.
func Uniform(keys, n, stream int) Keys {
	r := rand.New(rand.NewPCG(1, uint64(stream)))
	return makeKeys(n, func(int) int { return r.IntN(keys) })
}

// Zipf returns n draws from that many keys, the i-th in proportion to
// 1/i^1.1. Streams are as those of [Uniform].
func Zipf(keys, n, stream int) Keys {
	r := rand.New(rand.NewPCG(1, uint64(stream)))
	z := rand.NewZipf(r, 1.1, 1, uint64(keys-1))
	return makeKeys(n, func(int) int { return int(z.Uint64()) })
}

func makeKeys(n int, number func(int) int) Keys {
	text := make([]byte, 0, n*KeyBytes)
	for i := range n {
		text = AppendKey(text, number(i))
	}
	return Keys{text: string(text)}
}

// AppendKey appends the key of that number, which must be 0 to 99,999,999.
func AppendKey(b []byte, number int) []byte {
	if number < 0 || number > 99_999_999 {
		//nolint:forbidigo // only a benchmark written wrong comes here, and to hand on an error would be measured
		panic(fmt.Sprintf("load: key number %d has more than 8 digits", number))
	}
	b = append(b, "user:00000000"...)
	for i := len(b) - 1; number > 0; i-- {
		b[i] = byte('0' + number%10)
		number /= 10
	}
	return b
}
