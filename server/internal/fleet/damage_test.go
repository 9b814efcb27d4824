// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/fleet"
)

// idOf returns the field of a name without a secret.
func idOf(name string) string {
	sum := sha256.Sum256([]byte(name))
	return base64.RawURLEncoding.EncodeToString(sum[:18])
}

// begun waits until the store has a revision.
func begun(t *testing.T, client rueidis.Client) {
	t.Helper()
	testkit.Until(t, "a revision", func() bool { return do(t, client, "HGET", hash, "!revision").Error() == nil })
}

func has(m *member, want string) func() bool {
	return func() bool { return strings.Join(m.texts(), " ") == want }
}

// TestChangeAfterRestart: a node comes back with its file to a store that has lost
// everything. A change that the node answers as made is active.
func TestChangeAfterRestart(t *testing.T) {
	url, _ := fresh(t)
	have := map[string]fleet.Record{"k": {Name: "k", Version: 500, Body: []byte("k=1")}}
	b := join(t, url, "B", have)
	agree(t, "k=1", b)
	v, err := b.Change(t.Context(), "k", 500, []byte("k=2"), []byte("k is 2"))
	t.Logf("answered: version %v, %v", v, err)
	if err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "the change that was made to hold on the node that made it: "+fmt.Sprint(b.texts()), has(b, "k=2"))
	c := join(t, url, "C", have)
	testkit.Until(t, "the change that was made to hold after a restart", has(c, "k=2"))
}

// TestLongEntry: an entry that is too long is refused.
func TestLongEntry(t *testing.T) {
	url, _ := fresh(t)
	a := join(t, url, "A", nil)
	if err := a.Publish(t.Context(), []byte(strings.Repeat("x", 17<<10))); err == nil {
		t.Error("it was written")
	}
}

// TestVersionAtBound: a change is made over a record with the largest plausible version, and
// over one with a version above it, which no node learns.
func TestVersionAtBound(t *testing.T) {
	url, client := fresh(t)
	a := join(t, url, "A", nil)
	bound := time.Now().UnixMilli() + 1<<41
	do(t, client, "HSET", hash, idOf("k"), fmt.Sprintf("%d 1k=9", bound-1), idOf("l"), fmt.Sprintf("%d 1l=9", bound+3_600_000), idOf("m"), "1125899906842624 1m=9")
	b := join(t, url, "B", nil)
	agree(t, "k=9", b)
	b.must(t, "k", "1")
	b.must(t, "l", "2")
	agree(t, "k=1 l=2", a, b, join(t, url, "C", nil))
}

// TestLargestRevision: a made-up revision does not end all changes.
func TestLargestRevision(t *testing.T) {
	plausible := fmt.Sprint(time.Now().UnixMilli() + 1<<41 - 1_000_000)
	for _, revision := range []string{plausible, "35184372088832", "1125899906842624", "9999999999999999999", "garbage"} {
		t.Run(revision, func(t *testing.T) {
			url, client := fresh(t)
			a := join(t, url, "A", nil)
			a.must(t, "k", "1")
			do(t, client, "HSET", hash, "!revision", revision)
			if err := a.set(t, "k", "2"); err != nil {
				t.Errorf("a change: %v", err)
			}
			do(t, client, "FLUSHALL")
			begun(t, client)
			if err := a.set(t, "l", "1"); err != nil {
				t.Errorf("after FLUSHALL: %v", err)
			}
		})
	}
}

// TestHashLost: the store evicts the hash alone, and a node adds a record or resets a key
// before the next poll.
func TestHashLost(t *testing.T) {
	for _, how := range []string{"change", "publish"} {
		t.Run(how, func(t *testing.T) {
			url, client := fresh(t)
			a, b := join(t, url, "A", nil), join(t, url, "B", nil)
			a.must(t, "k", "1")
			a.must(t, "l", "2")
			agree(t, "k=1 l=2", a, b)
			want := "k=1 l=2"
			do(t, client, "DEL", hash)
			if how == "change" {
				a.must(t, "m", "3")
				want += " m=3"
			} else if err := a.Publish(t.Context(), []byte("reset")); err != nil {
				t.Fatal(err)
			}
			agree(t, want, a, b)
			testkit.Until(t, "the store to have all again", func() bool {
				n, err := do(t, client, "HLEN", hash).AsInt64()
				return err == nil && n == int64(len(strings.Fields(want)))+1
			})
			c := join(t, url, "C", nil)
			testkit.Until(t, fmt.Sprint("a new node to have all; synced: ", c.Synced(), ", has: ", c.texts()), has(c, want))
		})
	}
}

// TestUnreadableRecord: a record that somebody has overwritten can be changed.
func TestUnreadableRecord(t *testing.T) {
	for _, text := range []string{"1000000 garbage", "1000000 1garbage", "0001000000 1k=9", "1000000 " + strings.Repeat("x", 20<<10)} {
		t.Run(text[:12], func(t *testing.T) {
			url, client := fresh(t)
			a := join(t, url, "A", nil)
			a.must(t, "k", "1")
			do(t, client, "HSET", hash, idOf("k"), text)
			a.must(t, "k", "2")
			b := join(t, url, "B", nil)
			agree(t, "k=2", a, b)
		})
	}
}

// TestLaterFormat: a node neither reads nor overwrites a record of a later release, and says
// so. It treats an entry of that release as one that it missed.
func TestLaterFormat(t *testing.T) {
	url, client := fresh(t)
	a := join(t, url, "A", nil)
	a.must(t, "k", "1")
	const later = "3000000000000 2k=9" // above the time
	do(t, client, "HSET", hash, idOf("k"), later)
	if err := a.set(t, "k", "2"); !errors.Is(err, fleet.ErrLater) || !strings.Contains(err.Error(), "update this node") {
		t.Errorf("a change: %v", err)
	}
	if text, err := do(t, client, "HGET", hash, idOf("k")).ToString(); err != nil || text != later {
		t.Errorf("the store has %q, %v", text, err)
	}
	a.mu.Lock()
	missed := a.missed
	a.mu.Unlock()
	const number = "3100000000000"
	do(t, client, "LPUSH", list, number+" Z - 2later")
	do(t, client, "HSET", hash, "!revision", number)
	testkit.Until(t, "the node to know that it missed something", func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.missed > missed
	})
	if all, err := a.Entries(t.Context(), 1); err != nil || len(all) != 0 {
		t.Errorf("entries %v, %v", all, err)
	}
	a.must(t, "l", "1")
	agree(t, "k=1 l=1", a)
}

// TestManyFields: a node gets the records among 100,000 other fields.
func TestManyFields(t *testing.T) {
	url, client := fresh(t)
	a := join(t, url, "A", nil)
	a.must(t, "k", "1")
	do(t, client, "EVAL", "for i = 1, 100000 do redis.call('HSET', KEYS[1], 'x' .. i, 'garbage') end", "1", hash)
	c := join(t, url, "C", nil)
	agree(t, "k=1", c)
}

// TestGiantValues: a node gets the records and does not read giant values.
func TestGiantValues(t *testing.T) {
	server := redistest.Start(t, redistest.Redis(t)) // and no other test, as it counts what is allocated
	url, client := "redis://"+server.Addr, dial(t, server)
	a := join(t, url, "A", nil)
	a.must(t, "k", "1")
	a.stop() // its polls allocate, too
	do(t, client, "EVAL", "local s = string.rep('x', 10000000) for i = 1, 3 do redis.call('HSET', KEYS[1], string.format('x%023d', i), '7 ' .. s) end", "1", hash)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	c := join(t, url, "C", nil)
	agree(t, "k=1", c)
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 10_000_000 {
		t.Errorf("a node that joins has allocated %d bytes, more than one of three values", n)
	}
}

// TestManyRecords: a new node learns 10,000 records in few calls.
func TestManyRecords(t *testing.T) {
	url, client := fresh(t)
	a := join(t, url, "A", nil)
	a.must(t, "k", "1")
	words := []string{"HSET", hash}
	for i := range 10_000 {
		name := fmt.Sprint("n", i)
		words = append(words, idOf(name), fmt.Sprintf("%d 1%s=1", 2+i, name))
	}
	do(t, client, words...)
	a.stop()
	calls := func() int {
		text, err := do(t, client, "INFO", "commandstats").ToString()
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, script := range regexp.MustCompile(`cmdstat_eval(?:sha)?:calls=(\d+)`).FindAllStringSubmatch(text, -1) {
			of, _ := strconv.Atoi(script[1]) // digits
			n += of
		}
		return n
	}
	before := calls()
	c := join(t, url, "C", nil)
	c.stop()
	if n := calls() - before - int(c.ticks.Load()); len(c.texts()) != 10_001 || n > 100 {
		t.Errorf("%d records after %d calls", len(c.texts()), n)
	}
}

// TestFlushedThenBehind: after FLUSHALL a node that has missed changes makes the first one.
// The last change that was answered as made holds.
func TestFlushedThenBehind(t *testing.T) {
	url, client := fresh(t)
	proxy := redistest.StartProxy(t, strings.TrimPrefix(url, "redis://"))
	a, b := join(t, url, "A", nil), join(t, "redis://"+proxy.Addr, "B", nil)
	a.must(t, "k", "1")
	agree(t, "k=1", a, b)
	proxy.Set(redistest.Cutting)
	for i := range 5 {
		a.must(t, "k", fmt.Sprint(i+2))
	}
	agree(t, "k=6", a)
	// A version is the store's time in ms, or one more than the last: six changes may be ahead of it.
	testkit.Until(t, "the clock to pass the versions", func() bool {
		now, err := do(t, client, "TIME").AsIntSlice()
		if err != nil {
			t.Fatal(err)
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		return now[0]*1000+now[1]/1000 > int64(a.have["k"].Version)
	})
	// The store loses all, and A is gone for a while.
	have := maps.Clone(a.have)
	a.stop()
	do(t, client, "FLUSHALL")
	proxy.Set(redistest.Faithful)
	testkit.Until(t, "a change by who is behind", func() bool { return b.set(t, "k", "later") == nil })
	a = join(t, url, "A2", have)
	agree(t, "k=later", a, b)
}

// TestSecretChanged: after the first use of a secret the nodes keep their records, however
// many entries the log has had since. After the removal of the old records the store has each
// record once, and no name in clear.
func TestSecretChanged(t *testing.T) {
	url, client := fresh(t)
	a := join(t, url, "A", nil)
	a.must(t, "alice", "1")
	a.must(t, "bob", "1")
	for range fleet.MostEntries {
		if err := a.Publish(t.Context(), []byte("reset")); err != nil {
			t.Fatal(err)
		}
	}
	a.stop()
	b := join(t, url+withSecret(t, "0123456789abcdef"), "B", a.have)
	agree(t, "alice=1 bob=1", b)
	b.must(t, "bob", "1")
	do(t, client, "DEL", hash, list)
	testkit.Until(t, "the store to have each record once", func() bool {
		n, err := do(t, client, "HLEN", hash).AsInt64()
		return err == nil && n == 3
	})
	agree(t, "alice=1 bob=1", b)
	for _, words := range [][]string{{"HGETALL", hash}, {"LRANGE", list, "0", "-1"}} {
		if text := fmt.Sprint(do(t, client, words...).ToAny()); strings.Contains(text, "alice") || strings.Contains(text, "bob") {
			t.Errorf("%v shows %s", words, text)
		}
	}
}
