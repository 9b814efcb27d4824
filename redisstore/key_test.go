// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
)

// identity holds everything that distinguishes one state from another.
type identity struct{ scope, key, name string }

func (id identity) in(k *keyer) string {
	return k.tag(id.scope, id.key) + nameOf(id.name)
}

// identities draws identities from bytes that have a meaning in keys.
func identities() *rapid.Generator[identity] {
	text := rapid.Custom(func(t *rapid.T) string {
		bytes := rapid.SliceOfN(rapid.OneOf(
			rapid.SampledFrom([]byte("%{}/#@!012357BDF:.ab\x00\xff")), rapid.Byte()), 0, 12).Draw(t, "bytes")
		return string(bytes) + strings.Repeat("x", rapid.SampledFrom([]int{0, 0, 0, 60, 64, 65, 300}).Draw(t, "more"))
	})
	return rapid.Custom(func(t *rapid.T) identity {
		return identity{
			scope: "s" + text.Draw(t, "scope"),
			key:   text.Draw(t, "key"),
			name: rapid.SampledFrom([]string{
				"a", "b", "min", "t", "tmin", "token-bucket.min", "token-bucket.", "token-bucket", "sliding-log.min", "sliding-log.h", "leaky-bucket.h",
			}).Draw(t, "name"),
		}
	})
}

// TestKeysDoNotCollide: two identities have one key if and only if they are the
// same, whatever bytes they hold.
func TestKeysDoNotCollide(t *testing.T) {
	for _, k := range []keyer{{prefix: "sluice"}, {prefix: "sluice", secret: []byte("a secret of sixteen")}} {
		rapid.Check(t, func(t *rapid.T) {
			a := identities().Draw(t, "one")
			b := a
			switch rapid.IntRange(0, 4).Draw(t, "differs") {
			case 0:
				b = identities().Draw(t, "other")
			case 1:
				// the same bytes, divided differently
				all := a.scope + a.key
				cut := rapid.IntRange(1, len(all)).Draw(t, "cut")
				b.scope, b.key = all[:cut], all[cut:]
			case 2:
				b.key = string(appendEscaped(nil, a.key))
			case 3:
				// a key that looks like another's place
				tag := k.tag(a.scope, a.key)
				b.key = tag[strings.IndexByte(tag, '{'):]
			}
			if ka, kb := a.in(&k), b.in(&k); (ka == kb) != (a == b) {
				t.Fatalf("%q has key %q, %q has key %q", a, ka, b, kb)
			}
		})
	}
}

// TestKeysOfSlotsDoNotCollide: the leases of slots do not collide with limits of the same
// names.
func TestKeysOfSlotsDoNotCollide(t *testing.T) {
	k := keyer{prefix: "sluice"}
	limit := identity{"s", "k", "slots"}.in(&k)
	slots := k.slots("s", "k", "slots")
	if limit == slots {
		t.Errorf("both are %q", limit)
	}
	if got, want := slot(slots), slot(limit); got != want {
		t.Errorf("hash slots: got %d, want %d", got, want)
	}
}

// TestKeysShareSlot: all limits of a key are in the slot that the server computes, and keys
// spread over slots.
func TestKeysShareSlot(t *testing.T) {
	client := redistest.Start(t, redistest.Redis(t), "--cluster-enabled", "yes",
		"--cluster-port", strconv.Itoa(testkit.FreePort(t))).Client(t)
	k := keyer{prefix: "sluice"}
	seen := make(map[uint16]bool)
	rapid.Check(t, func(r *rapid.T) {
		id := identities().Draw(r, "identity")
		other := id
		other.name = "another"
		tag := k.tag(id.scope, id.key)
		for _, key := range []string{id.in(&k), other.in(&k)} {
			want := redistest.Number(t, client, "CLUSTER", "KEYSLOT", key)
			if got := slot(tag); int64(got) != want {
				r.Fatalf("slot of %q: got %d, want %d", key, got, want)
			}
		}
		seen[slot(tag)] = true
	})
	if len(seen) < 10 {
		t.Errorf("got %d slots, want many: the hash tag does not hold the key", len(seen))
	}
}

func TestKeyNames(t *testing.T) {
	long := strings.Repeat("x", longestKey+1)
	for _, c := range []struct {
		name   string
		id     identity
		secret string
		want   string
	}{
		{"plain", identity{"login", "0123456789abcdef", "token-bucket.min"}, "", "sluice{1login/0123456789abcdef}Tmin"},
		{"own name", identity{"login", "k", "per-user"}, "", "sluice{1login/k}per-user"},
		{"empty key", identity{"login", "", "x"}, "", "sluice{1login/}x"},
		{"braces", identity{"a{b}", "{}%/", "x"}, "", "sluice{1a%7Bb%7D/%7B%7D%25%2F}x"},
		{"long key", identity{"login", long, "x"}, "", "sluice{1login#lTfF_fEgSC99WNJentWD9SwC}x"},
		{"secret", identity{"login", "k", "x"}, "0123456789abcdef", "sluice{1login@5RqvodQ5IED8xPIBksna0qwZ}x"},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := keyer{prefix: defaultPrefix, secret: []byte(c.secret)}
			if got := c.id.in(&k); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
