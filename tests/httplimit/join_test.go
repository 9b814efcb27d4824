// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/policy"
)

// values returns a key for each of values.
func values(of []string) []policy.Part {
	keys := make([]policy.Part, len(of))
	for i, v := range of {
		keys[i] = httplimit.KeyFunc("part", func(*http.Request) (string, error) { return v, nil })
	}
	return keys
}

// Two lists of values of one length, as all of one rule are, make one key only if they are
// equal, whatever they hold. Bytes with a meaning in joined keys are drawn more often.
func TestJoinNeverCollides(t *testing.T) {
	value := rapid.Custom(func(t *rapid.T) string {
		special := rapid.SampledFrom([]byte("|%|%257Cc:"))
		b := rapid.SliceOfN(rapid.OneOf(special, special, rapid.Byte()), 1, 6).Draw(t, "bytes")
		return string(b)
	})
	type joined struct {
		values []string
		key    func(*http.Request) (string, error)
	}
	// A Middleware for each length reads the values of the current list.
	lists := make([]joined, 5)
	for n := range lists {
		if n == 0 {
			continue
		}
		keys := make([]policy.Part, n)
		for i := range keys {
			keys[i] = httplimit.KeyFunc("part", func(*http.Request) (string, error) { return lists[n].values[i], nil })
		}
		lists[n].key = keyer(t, policy.All(keys...))
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, len(lists)-1).Draw(t, "length")
		list := rapid.SliceOfN(value, n, n)
		a, b := list.Draw(t, "a"), list.Draw(t, "b")
		if rapid.Bool().Draw(t, "same text") { // cut one text in two ways
			text := rapid.SliceOfN(rapid.SampledFrom([]byte("|%7C25a")), 4, 8).Draw(t, "text")
			i, j := rapid.IntRange(1, len(text)-1).Draw(t, "i"), rapid.IntRange(1, len(text)-1).Draw(t, "j")
			a, b = []string{string(text[:i]), string(text[i:])}, []string{string(text[:j]), string(text[j:])}
		}
		charged := func(values []string) string {
			of := &lists[len(values)]
			of.values = values
			key, err := of.key(httptest.NewRequest(http.MethodGet, "/", nil))
			if err != nil {
				t.Fatal(err)
			}
			return key
		}
		ka, kb := charged(a), charged(b)
		if (ka == kb) != slices.Equal(a, b) {
			t.Fatalf("Join of %q is %q and of %q is %q", a, ka, b, kb)
		}
	})
}

// The classic: a:b with c, and a with b:c.
func TestJoinOfShiftedParts(t *testing.T) {
	for _, sep := range []string{":", "|", "%", "%7C", "\x00", ","} {
		a, err := keyOf(t, policy.All(values([]string{"a" + sep + "b", "c"})...), request(t, "/"))
		if err != nil {
			t.Fatal(err)
		}
		b, err := keyOf(t, policy.All(values([]string{"a", "b" + sep + "c"})...), request(t, "/"))
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
	k := policy.All(keys...)
	keys[0] = policy.Part{}
	if got, err := keyOf(t, k, request(t, "/")); err != nil || got != "a|b" {
		t.Errorf("got %q, %v, want %q", got, err, "a|b")
	}
}
