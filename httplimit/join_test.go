// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit_test

import (
	"net/http"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluicegate/sluice/httplimit"
)

// values returns a key for each of values.
func values(of []string) []httplimit.Key {
	keys := make([]httplimit.Key, len(of))
	for i, v := range of {
		keys[i] = httplimit.KeyFunc("part", func(*http.Request) (string, error) { return v, nil })
	}
	return keys
}

// Two lists of values make one key only if they are equal, whatever they hold.
// The bytes that the joining gives a meaning are drawn more often than others.
func TestJoinNeverCollides(t *testing.T) {
	value := rapid.Custom(func(t *rapid.T) string {
		special := rapid.SampledFrom([]byte("|%|%257Cc:"))
		b := rapid.SliceOfN(rapid.OneOf(special, special, rapid.Byte()), 1, 6).Draw(t, "bytes")
		return string(b)
	})
	list := rapid.SliceOfN(value, 1, 4)
	rapid.Check(t, func(t *rapid.T) {
		a, b := list.Draw(t, "a"), list.Draw(t, "b")
		if rapid.Bool().Draw(t, "same text") { // cut one text in two ways
			text := rapid.SliceOfN(rapid.SampledFrom([]byte("|%7C25a")), 4, 8).Draw(t, "text")
			i, j := rapid.IntRange(1, len(text)-1).Draw(t, "i"), rapid.IntRange(1, len(text)-1).Draw(t, "j")
			a, b = []string{string(text[:i]), string(text[i:])}, []string{string(text[:j]), string(text[j:])}
		}
		equal := len(a) == len(b)
		for i := 0; equal && i < len(a); i++ {
			equal = a[i] == b[i]
		}
		ka, err := httplimit.Join(values(a)...).Of(&http.Request{})
		if err != nil {
			t.Fatal(err)
		}
		kb, err := httplimit.Join(values(b)...).Of(&http.Request{})
		if err != nil {
			t.Fatal(err)
		}
		if (ka == kb) != equal {
			t.Fatalf("Join of %q is %q and of %q is %q", a, ka, b, kb)
		}
	})
}

// The classic: a:b with c, and a with b:c.
func TestJoinOfShiftedParts(t *testing.T) {
	for _, sep := range []string{":", "|", "%", "%7C", "\x00", ","} {
		a, err := httplimit.Join(values([]string{"a" + sep + "b", "c"})...).Of(&http.Request{})
		if err != nil {
			t.Fatal(err)
		}
		b, err := httplimit.Join(values([]string{"a", "b" + sep + "c"})...).Of(&http.Request{})
		if err != nil {
			t.Fatal(err)
		}
		if a == b {
			t.Errorf("separator %q: both are %q", sep, a)
		}
	}
}

func TestJoinDoesNotKeepItsArgument(t *testing.T) {
	keys := values([]string{"a", "b"})
	k := httplimit.Join(keys...)
	keys[0] = httplimit.Key{}
	if got, err := k.Of(&http.Request{}); err != nil || got != "a|b" {
		t.Errorf("got %q, %v, want %q", got, err, "a|b")
	}
}
