// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package tally

import (
	"crypto/sha256"
	"math"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/server/internal/sketch"
)

// secret returns the i-th secret.
func secret(i byte) [32]byte { return sha256.Sum256([]byte{i}) }

// node returns a tally of one rule, and a function that counts keys of it.
func node(t *testing.T) (counts *Tally, count func(from, to int)) {
	t.Helper()
	counts = new(Tally)
	p := policyOf(t, 0, 1)
	counts.Follow(p)
	return counts, func(from, to int) {
		in := counts.current.Load()
		c := in.rules["rule0"]
		for i := from; i < to; i++ {
			if keys := counts.room.keysOf(c.recent); keys != nil {
				keys.Seen(keys.hash(&p.Rules()[0].Levels[0], strconv.Itoa(i)))
			}
		}
	}
}

// seen returns the number of keys that a tally has counted recently.
func seen(t *testing.T, counts *Tally) sketch.Count {
	t.Helper()
	counts.Tick(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	hour, _, ok := counts.Keys("rule0")
	if !ok {
		t.Fatal("nothing is kept")
	}
	return hour.Count()
}

// TestShare: two nodes with one secret have the same hashes, so that common keys count once.
// Under two secrets they count twice.
func TestShare(t *testing.T) {
	const each, both = 3000, 1000
	for _, c := range []struct {
		name     string
		a, b     [32]byte
		together float64
	}{
		{"one secret", secret(1), secret(1), 2*each - both},
		{"two secrets", secret(1), secret(2), 2 * each},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, _ := node(t)
			b, _ := node(t)
			a.Share(c.a)
			b.Share(c.b)
			keys := func(counts *Tally) *hashed { return counts.room.keysOf(counts.current.Load().rules["rule0"].recent) }
			l := &policy.Level{Name: "level"}
			for i := range each {
				keys(a).Seen(keys(a).hash(l, strconv.Itoa(i)))
				keys(a).Seen(keys(b).hash(l, strconv.Itoa(i+each-both))) // as b would count it
			}
			if got := seen(t, a).Seen; math.Abs(float64(got)-c.together) > 0.07*c.together {
				t.Errorf("got %d, want about %v", got, c.together)
			}
		})
	}
}

// TestShareStartsAnew: under another secret no key is counted twice, and under the same one
// nothing is lost.
func TestShareStartsAnew(t *testing.T) {
	counts, count := node(t)
	count(0, 50)
	if got := seen(t, counts).Seen; got != 50 {
		t.Fatalf("under its own secret: got %d, want 50", got)
	}
	counts.Share(secret(1))
	if _, _, ok := counts.Keys("rule0"); ok {
		t.Error("what was counted under the secret before is reported still")
	}
	count(0, 40)
	counts.Share(secret(1))
	if got := seen(t, counts).Seen; got != 40 {
		t.Errorf("under a shared one: got %d, want 40", got)
	}
	counts.Share(secret(2))
	count(20, 40)
	if got := seen(t, counts).Seen; got != 20 {
		t.Errorf("under another: got %d, want 20", got)
	}
}

// TestShareKeepsRoom: after a change of the secret as many rules have sketches, and fine ones,
// as before.
func TestShareKeepsRoom(t *testing.T) {
	var counts Tally
	counts.Follow(policyOf(t, 0, MostRecent+1))
	for i := range byte(3) {
		counts.Share(secret(i))
		use(&counts, 0, MostRecent+1)
	}
	fine, all := 0, 0
	for _, c := range counts.current.Load().rules {
		if keys := c.recent.keys.Load(); keys != nil {
			all++
			if keys.Precision() == sketch.Fine {
				fine++
			}
		}
	}
	if fine != mostFine || all != MostRecent {
		t.Errorf("%d rules have sketches, %d fine ones, want %d and %d", all, fine, MostRecent, mostFine)
	}
}

// TestShareConcurrently: a secret may change while requests are counted.
func TestShareConcurrently(t *testing.T) {
	counts, count := node(t)
	var wait sync.WaitGroup
	for range 2 {
		wait.Go(func() {
			for range 200 {
				count(0, 50)
			}
		})
	}
	for i := range byte(100) {
		counts.Share(secret(i))
		counts.Tick(time.Date(2026, 3, 1, 12, 0, int(i), 0, time.UTC))
	}
	wait.Wait()
	counts.Share(secret(99))
	count(0, 50)
	if got := seen(t, counts).Seen; got != 50 {
		t.Errorf("got %d, want 50", got)
	}
}
