// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/fleet"
)

// TestFirstOfAll: the first node of a store, before which no node wrote an entry, has missed
// none, also when it reads what it wrote itself.
func TestFirstOfAll(t *testing.T) {
	url, _ := fresh(t)
	m := join(t, url, "A", nil)
	for began := m.ticks.Load(); m.ticks.Load() < began+2; {
		time.Sleep(time.Millisecond)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.missed > 0 {
		t.Errorf("it has missed entries %d times", m.missed)
	}
}

// TestRecords: all nodes have the change of one. Of two changes at once one is made, and the
// other gets a conflict.
func TestRecords(t *testing.T) {
	url, _ := fresh(t)
	a, b := join(t, url, "A", nil), join(t, url, "B", nil)
	agree(t, "", a, b)
	a.must(t, "k", "1")
	agree(t, "k=1", a, b)
	var errs [2]error
	var group sync.WaitGroup
	for i, m := range []*member{a, b} {
		group.Go(func() { errs[i] = m.set(t, "k", fmt.Sprint(2+i)) })
	}
	group.Wait()
	conflict := 0
	for _, err := range errs {
		if c, ok := errors.AsType[*fleet.ConflictError](err); ok && c.Now != nil {
			conflict++
		} else if err != nil {
			t.Error(err)
		}
	}
	want := map[bool]string{true: "k=2", false: "k=3"}[errs[0] == nil]
	if conflict != 1 {
		t.Fatalf("errors %v, want one conflict", errs)
	}
	agree(t, want, a, b)
	if err := a.Publish(t.Context(), []byte("hello")); err != nil {
		t.Fatal(err)
	}
	b.must(t, "l", "4")
	agree(t, want+" l=4", a, b)
	testkit.Until(t, "b to hear of it", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		if slices.Contains(b.heard, "l is 4") {
			t.Fatalf("b heard of its own change: %q", b.heard)
		}
		return slices.Contains(b.heard, "hello")
	})
	entries, err := b.Entries(t.Context(), 2)
	if err != nil || len(entries) != 2 || string(entries[0].Body) != "l is 4" || !entries[0].Own || string(entries[1].Body) != "hello" || entries[1].Own {
		t.Errorf("entries %+v, %v", entries, err)
	}
	c := join(t, url, "C", nil)
	agree(t, want+" l=4", a, b, c)
}

// TestLosses: the nodes put back what the store loses. Changes after a loss stand.
func TestLosses(t *testing.T) {
	url, client := fresh(t)
	a, b := join(t, url, "A", nil), join(t, url, "B", nil)
	agree(t, "", a, b)
	a.must(t, "k", "1")
	b.must(t, "l", "2")
	agree(t, "k=1 l=2", a, b)

	do(t, client, "FLUSHALL")
	a.must(t, "k", "3") // at once: the version that it knows is gone from there
	agree(t, "k=3 l=2", a, b)

	do(t, client, "DEL", list)
	b.must(t, "l", "4")
	agree(t, "k=3 l=4", a, b)

	do(t, client, "DEL", hash)
	testkit.Until(t, "the records to be put back", func() bool {
		n, err := do(t, client, "HLEN", hash).AsInt64()
		return err == nil && n == 3
	})
	agree(t, "k=3 l=4", a, b)

	// A failover to a replica that is behind, and counts on with others.
	failover := behind(t, client)
	a.must(t, "k", "5")
	b.must(t, "m", "6")
	agree(t, "k=5 l=4 m=6", a, b)
	b.stop()
	failover()
	c := join(t, url, "C", nil)
	c.must(t, "n", "7")
	agree(t, "k=5 l=4 m=6 n=7", a, c)
	if err := c.set(t, "l", "8"); err != nil {
		t.Fatal(err)
	}
	again := join(t, url, "D", b.have)
	agree(t, "k=5 l=8 m=6 n=7", a, c, again)
	size, err := do(t, client, "HLEN", hash).AsInt64()
	if err != nil || size != 5 {
		t.Errorf("the store has %d fields, want 4 records and the revision", size)
	}
}

// behind returns a function that sets the store back to what it has now, as a failover to a
// replica does.
func behind(t *testing.T, client rueidis.Client) (failover func()) {
	t.Helper()
	dumps := map[string]string{}
	for _, key := range []string{hash, list} {
		text, err := do(t, client, "DUMP", key).ToString()
		if err != nil {
			t.Fatal(err)
		}
		dumps[key] = text
	}
	return func() {
		for key, text := range dumps {
			do(t, client, "RESTORE", key, "0", text, "REPLACE")
		}
	}
}

// TestLossWithFullLog: a node puts back the record that a failover has lost, also where the
// log has had more entries than it keeps.
func TestLossWithFullLog(t *testing.T) {
	url, client := fresh(t)
	a := join(t, url, "A", nil)
	for range fleet.MostEntries {
		if err := a.Publish(t.Context(), []byte("reset")); err != nil {
			t.Fatal(err)
		}
	}
	failover := behind(t, client)
	a.must(t, "k", "1")
	a.stop()
	failover()
	agree(t, "k=1", join(t, url, "A2", a.have), join(t, url, "B", nil))
}

// TestLostRemoval: a failover that has lost a removal brings the record back, and the log
// says so.
func TestLostRemoval(t *testing.T) {
	url, client := fresh(t)
	a := join(t, url, "A", nil)
	a.must(t, "k", "1")
	failover := behind(t, client)
	if err := a.remove(t, "k"); err != nil {
		t.Fatal(err)
	}
	ticks := a.ticks.Load()
	testkit.Until(t, "two polls", func() bool { return a.ticks.Load() > ticks+1 })
	failover()
	agree(t, "k=1", a)
	testkit.Until(t, "an entry", func() bool {
		entries, err := a.Entries(t.Context(), 1)
		return err == nil && len(entries) == 1 && string(entries[0].Body) == "put back 0"
	})
}

// TestRemoval: a removed record is gone everywhere, also on a node that was away, with few or
// many changes meanwhile.
func TestRemoval(t *testing.T) {
	for _, changes := range []int{1, fleet.MostEntries + 1} {
		t.Run(fmt.Sprint(changes), func(t *testing.T) {
			url, client := fresh(t)
			a, b := join(t, url, "A", nil), join(t, url, "B", nil)
			a.must(t, "k", "1")
			a.must(t, "l", "2")
			agree(t, "k=1 l=2", a, b)
			b.stop()
			if err := a.remove(t, "k"); err != nil {
				t.Fatal(err)
			}
			agree(t, "l=2", a)
			for range changes {
				if err := a.Publish(t.Context(), []byte("reset")); err != nil {
					t.Fatal(err)
				}
			}
			c := join(t, url, "C", b.have)
			agree(t, "l=2", a, c)
			if n, err := do(t, client, "HLEN", hash).AsInt64(); err != nil || n != 2 {
				t.Errorf("the store has %d fields, %v, want a record and the revision", n, err)
			}
			a.must(t, "k", "3")
			agree(t, "k=3 l=2", a, c)
		})
	}
}

// TestRemovedMeanwhile: a change of a record that another node has removed is refused, with the
// removal.
func TestRemovedMeanwhile(t *testing.T) {
	url, _ := fresh(t)
	a, b := join(t, url, "A", nil), join(t, url, "B", nil)
	a.must(t, "k", "1")
	agree(t, "k=1", a, b)
	was := a.have["k"].Version
	if err := a.remove(t, "k"); err != nil {
		t.Fatal(err)
	}
	_, err := b.Change(t.Context(), "k", was, []byte("k=2"), []byte("k is 2"))
	if c, ok := errors.AsType[*fleet.ConflictError](err); !ok || c.Now != nil || string(c.Removal) != "k is gone" {
		t.Errorf("got %v, %+v, want a conflict with the removal", err, c)
	}
	agree(t, "", a, b)
}

// TestRemovedThenLost: after the store has lost its data the log tells a removed record from
// a lost one. Where the log is lost, too, a node that has not seen the removal puts the record
// back, and the log says so.
func TestRemovedThenLost(t *testing.T) {
	for _, lost := range []string{hash, hash + " " + list} {
		t.Run(lost, func(t *testing.T) {
			url, client := fresh(t)
			a, b := join(t, url, "A", nil), join(t, url, "B", nil)
			a.must(t, "k", "1")
			a.must(t, "l", "2")
			agree(t, "k=1 l=2", a, b)
			b.stop()
			if err := a.remove(t, "k"); err != nil {
				t.Fatal(err)
			}
			a.stop()
			do(t, client, append([]string{"DEL"}, strings.Fields(lost)...)...)
			want := "l=2"
			if lost != hash {
				want = "k=1 l=2"
			}
			agree(t, want, join(t, url, "B2", b.have), join(t, url, "A2", a.have))
			c := join(t, url, "C", nil)
			agree(t, want, c)
			entries, err := c.Entries(t.Context(), 10)
			if err != nil || !slices.ContainsFunc(entries, func(e fleet.Entry) bool { return strings.HasPrefix(string(e.Body), "put back ") }) {
				t.Errorf("entries %+v, %v, want one of records put back", entries, err)
			}
		})
	}
}

// TestExpired: a record that has expired leaves the store and all nodes.
func TestExpired(t *testing.T) {
	url, client := fresh(t)
	a, b := join(t, url, "A", nil), join(t, url, "B", nil)
	a.must(t, "k", "1")
	agree(t, "k=1", a, b)
	a.must(t, "l", "expired")
	testkit.Until(t, "the store to have one record", func() bool {
		n, err := do(t, client, "HLEN", hash).AsInt64()
		return err == nil && n == 2
	})
	agree(t, "k=1", a, b)
}

// TestGarbage: nodes ignore what others write there.
func TestGarbage(t *testing.T) {
	url, client := fresh(t)
	a := join(t, url, "A", nil)
	a.must(t, "k", "1")
	do(t, client, "HSET", hash, "x", "garbage", "y", "7 body", "z", "99999999999999999999 1k=9", "k", "9 1k=9")
	do(t, client, "LPUSH", list, "garbage", "1 2 3", strings.Repeat("x", 100_000))
	a.must(t, "k", "2")
	b := join(t, url, "B", nil)
	agree(t, "k=2", a, b)
	do(t, client, "HSET", hash, "!revision", "9999999999999999999")
	agree(t, "k=2", a, b)
	b.must(t, "k", "3")
	agree(t, "k=3", a, b)
	do(t, client, "DEL", hash)
	do(t, client, "SET", hash, "of another type")
	ticks := a.ticks.Load()
	testkit.Until(t, "two polls", func() bool { return a.ticks.Load() > ticks+1 })
	if err := a.set(t, "k", "4"); err == nil {
		t.Error("a change in a key of another type was made")
	}
	do(t, client, "DEL", hash)
	agree(t, "k=3", a, b)
}

// TestFull: a full store takes no other record, but changes of those that it has.
func TestFull(t *testing.T) {
	url, client := fresh(t)
	a := join(t, url, "A", nil)
	a.must(t, "k", "1")
	do(t, client, "EVAL", "for i = 1, tonumber(ARGV[1]) do redis.call('HSET', KEYS[1], 'x' .. i, '1 x') end", "1", hash, fmt.Sprint(fleet.MostRecords))
	if err := a.set(t, "l", "1"); !errors.Is(err, fleet.ErrFull) {
		t.Errorf("got %v", err)
	}
	a.must(t, "k", "2")
}

// TestSealed: with a secret the store shows neither names nor values, and nodes ignore records
// without it.
func TestSealed(t *testing.T) {
	plain, client := fresh(t)
	url := plain + withSecret(t, "0123456789abcdef")
	a, b := join(t, url, "A", nil), join(t, url, "B", nil)
	a.must(t, "alice", "1")
	agree(t, "alice=1", a, b)
	for _, words := range [][]string{{"HGETALL", hash}, {"LRANGE", list, "0", "-1"}} {
		if text := fmt.Sprint(do(t, client, words...).ToAny()); strings.Contains(text, "alice") {
			t.Errorf("%v shows %s", words, text)
		}
	}
	eve := join(t, plain, "E", nil)
	eve.must(t, "alice", "9")
	eve.must(t, "eve", "9")
	b.must(t, "bob", "2")
	agree(t, "alice=1 bob=2", a, b)
}

// TestFifty: fifty nodes learn a change.
func TestFifty(t *testing.T) {
	url, _ := fresh(t)
	all := make([]*member, testkit.Steps(8, 50))
	for i := range all {
		all[i] = join(t, url, "N"+string(rune('A'+i/26))+string(rune('A'+i%26)), nil)
	}
	all[0].must(t, "k", "1")
	agree(t, "k=1", all...)
}

// TestManyChanges: a node that polls while another makes and removes many records learns all
// of it.
func TestManyChanges(t *testing.T) {
	url, _ := fresh(t)
	a, b := join(t, url, "A", nil), join(t, url, "B", nil)
	var want []string
	for i := range 300 {
		name := fmt.Sprintf("k%03d", i)
		a.must(t, name, "1")
		if i%2 == 0 {
			want = append(want, name+"=1")
		} else if err := a.remove(t, name); err != nil {
			t.Fatal(err)
		}
	}
	agree(t, strings.Join(want, " "), a, b)
}
