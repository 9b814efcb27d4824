// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore

import (
	"strconv"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
)

// TestIdleKeys: if every key is idle at its next take, and few live at any instant, the arrays
// grow to hold all keys and are not rebuilt again and again. When the keys are gone, the
// arrays become small again.
func TestIdleKeys(t *testing.T) {
	now := time.UnixMicro(1e15)
	s := New(Options{MaxKeys: 1 << 16, Now: func() time.Time { return now }})
	lim, err := sluice.New(s, "idle", sluice.Must(sluice.ParseLimit("1000000/s burst 10")))
	if err != nil {
		t.Fatal(err)
	}
	const keys = 20_000
	names := make([]string, keys)
	for i := range names {
		names[i] = strconv.Itoa(i)
	}
	round := func(pause time.Duration, n int) {
		for _, k := range names[:n] {
			now = now.Add(pause)
			if d, err := lim.Take(t.Context(), k, 1); err != nil || !d.Allowed {
				t.Fatalf("take of %s: %+v, %v", k, d, err)
			}
		}
	}
	arrays := func() (list []*wordArray, slots int) {
		for part := 0; part < len(s.shards); {
			part = s.visit(part, func(sh *shard) {
				list, slots = append(list, sh.words.array.Load()), slots+sh.words.slots()
			})
		}
		return list, slots
	}

	for range 4 { // twice as many each time, so that they hold all after a few
		round(2*time.Microsecond, keys)
	}
	before, most := arrays()
	for range 10 {
		round(2*time.Microsecond, keys)
	}
	after, slots := arrays()
	for i := range before {
		if before[i] != after[i] {
			t.Errorf("shard %d: the array was replaced though it held every key", i)
		}
	}
	if want := 3 * keys; slots > want {
		t.Errorf("got %d slots for %d keys, want at most %d", slots, keys, want)
	}

	// Other keys, slowly: an array that takes a second to fill is as large as the live states.
	for i := range names {
		names[i] = "other " + strconv.Itoa(i)
	}
	round(10*time.Millisecond, keys)
	if _, slots := arrays(); slots > most/4 {
		t.Errorf("got %d slots for keys of which one lives at an instant, want far fewer than %d", slots, most)
	}
}
