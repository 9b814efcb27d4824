// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package keyhash_test

import (
	"math/bits"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/internal/keyhash"
)

// known returns the secret of bytes 0 to 31.
func known() keyhash.Secret {
	var raw [32]byte
	for i := range raw {
		raw[i] = byte(i)
	}
	return keyhash.Of(raw)
}

// TestSum: all versions of the program hash alike, as snapshots and the nodes of a store share
// hashes.
func TestSum(t *testing.T) {
	secret := known()
	for _, c := range []struct {
		domain uint64
		text   string
		want   uint64
	}{
		{0, "", 0x4bf9b06956b5a407},
		{0, "a", 0xaa3e1542a876f03e},
		{0, "abcd", 0xc6c5be5444bc8a48},
		{0, "abcdefgh", 0x51f1d8a2864b5211},
		{0, "abcdefghijklmnop", 0x7053edf71a18a83a},
		{0, "abcdefghijklmnopq", 0xbedc4ea20cc65a39},
		{0, strings.Repeat("x", 100), 0xa17444cb73b2e05d},
		{7, "a", 0x7f464be0f45eccda},
	} {
		if got := secret.Sum(c.domain, c.text); got != c.want {
			t.Errorf("%d, %q: got %#x, want %#x", c.domain, c.text, got, c.want)
		}
	}
}

// TestSumDiffers: another secret, domain or text has another hash, and about half of
// its bits differ.
func TestSumDiffers(t *testing.T) {
	secret, other := known(), keyhash.New()
	if other == keyhash.New() {
		t.Error("two new secrets are equal")
	}
	differ, n := 0, 0
	for i := range 200 {
		text := strings.Repeat("x", i)
		for _, of := range []uint64{other.Sum(0, text), secret.Sum(1, text), secret.Sum(0, text+"x"), secret.Sum(0, "y"+text)} {
			differ += bits.OnesCount64(of ^ secret.Sum(0, text))
			n++
		}
	}
	if mean := float64(differ) / float64(n); mean < 31 || mean > 33 {
		t.Errorf("%.2f bits of 64 differ, want about 32", mean)
	}
}
