// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluicegate/sluice/internal/fleet"
	"github.com/sluicegate/sluice/internal/redistest"
)

// idOf is the field of a name without a secret.
func idOf(name string) string {
	sum := sha256.Sum256([]byte(name))
	return base64.RawURLEncoding.EncodeToString(sum[:18])
}

// soon waits, but not as long as wait.
func soon(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Errorf("waited 5 s for %s", what)
			return
		}
	}
}

// headed waits until a node has begun a log.
func headed(t *testing.T, client rueidis.Client) {
	t.Helper()
	wait(t, "a head", func() bool { return do(t, client, "HGET", hash, "!head").Error() == nil })
}

func has(m *member, want string) func() bool {
	return func() bool { return strings.Join(m.texts(), " ") == want }
}

// TestChangeAfterRestart: a node comes back with its file to a store that has
// lost everything; a change that is answered as made must be active.
func TestChangeAfterRestart(t *testing.T) {
	server := redistest.Start(t, redistest.Redis(t))
	url := "redis://" + server.Addr
	have := map[string]fleet.Record{"k": {Name: "k", Version: fleet.Version{Counter: 500, Writer: "A"}, Body: []byte("k=1")}}
	b := join(t, url, "B", have, time.Hour)
	agree(t, "k=1", b)
	v, err := b.Change(t.Context(), "k", fleet.Version{Counter: 500, Writer: "A"}, []byte("k=2"), []byte("k is 2"))
	t.Logf("answered: version %v, %v", v, err)
	if err != nil {
		t.Fatal(err)
	}
	soon(t, "the change that was made to hold on the node that made it: "+fmt.Sprint(b.texts()), has(b, "k=2"))
	c := join(t, url, "C", have, time.Hour)
	soon(t, "the change that was made to hold after a restart", has(c, "k=2"))
}

// TestLongEntry: an entry that is too long must not keep the node from learning.
func TestLongEntry(t *testing.T) {
	server := redistest.Start(t, redistest.Redis(t))
	url := "redis://" + server.Addr
	a, b := join(t, url, "A", nil, 0), join(t, url, "B", nil, 0)
	a.mu.Lock()
	missed := a.missed
	a.mu.Unlock()
	if err := b.Publish(t.Context(), []byte(strings.Repeat("x", 17<<10))); err != nil {
		t.Fatal(err)
	}
	soon(t, "the other node to know that it missed something", func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.missed > missed
	})
	if all, err := a.Entries(t.Context(), 1); err != nil || len(all) != 0 {
		t.Errorf("entries %v, %v", all, err)
	}
	a.must(t, "k", "1")
	soon(t, fmt.Sprintf("the other node to learn (it says synced: %v)", b.Synced()), has(b, "k=1"))
}

// TestRecordOfLargestCounter: one record with the largest counter must not end all changes.
func TestRecordOfLargestCounter(t *testing.T) {
	server := redistest.Start(t, redistest.Redis(t))
	client := server.Client(t)
	url := "redis://" + server.Addr
	do(t, client, "HSET", hash, idOf("x"), "1125899906842624 Z 1x=1")
	a := join(t, url, "A", nil, 0)
	if err := a.set(t, "k", "1"); err != nil {
		t.Errorf("a change of another record: %v", err)
	}
	do(t, client, "FLUSHALL")
	headed(t, client)
	if err := a.set(t, "l", "1"); err != nil {
		t.Errorf("after FLUSHALL: %v", err)
	}
}

// TestCounterAtBound: a change holds over a record whose counter is the largest that is
// plausible, and over one that is just above, which no node learns.
func TestCounterAtBound(t *testing.T) {
	server := redistest.Start(t, redistest.Redis(t))
	client := server.Client(t)
	a := join(t, "redis://"+server.Addr, "A", nil, 0)
	bound := time.Now().UnixMilli() + 1<<41
	do(t, client, "HSET", hash, idOf("k"), fmt.Sprintf("%d Z 1k=9", bound-1), idOf("l"), fmt.Sprintf("%d Z 1l=9", bound+3_600_000))
	b := join(t, "redis://"+server.Addr, "B", nil, 0)
	agree(t, "k=9", b)
	b.must(t, "k", "1")
	b.must(t, "l", "2")
	agree(t, "k=1 l=2", a, b, join(t, "redis://"+server.Addr, "C", nil, 0))
}

// TestHeadOfLargestCounter: so with the head, which needs no secret, in range and beyond.
func TestHeadOfLargestCounter(t *testing.T) {
	for _, head := range []string{"35184372088832:x", "1125899906842624:x", "9999999999999999999:x"} {
		t.Run(head, func(t *testing.T) {
			server := redistest.Start(t, redistest.Redis(t))
			client := server.Client(t)
			a := join(t, "redis://"+server.Addr, "A", nil, 0)
			a.must(t, "k", "1")
			do(t, client, "HSET", hash, "!head", head)
			if err := a.set(t, "k", "2"); err != nil {
				t.Errorf("a change: %v", err)
			}
			do(t, client, "FLUSHALL")
			headed(t, client)
			if err := a.set(t, "l", "1"); err != nil {
				t.Errorf("after FLUSHALL: %v", err)
			}
		})
	}
}

// TestHashLost: the store loses the hash alone (eviction), and within the
// second somebody adds another override or resets a key.
func TestHashLost(t *testing.T) {
	for _, how := range []string{"change", "publish"} {
		t.Run(how, func(t *testing.T) {
			server := redistest.Start(t, redistest.Redis(t))
			client := server.Client(t)
			url := "redis://" + server.Addr
			a, b := join(t, url, "A", nil, 0), join(t, url, "B", nil, 0)
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
			soon(t, "the store to have all again", func() bool {
				n, err := do(t, client, "HLEN", hash).AsInt64()
				return err == nil && n == int64(len(strings.Fields(want)))+1
			})
			c := join(t, url, "C", nil, 0)
			soon(t, fmt.Sprint("a new node to have all; synced: ", c.Synced(), ", has: ", c.texts()), has(c, want))
		})
	}
}

// TestUnreadableRecord: what somebody writes into a record's field must not make the
// record unchangeable.
func TestUnreadableRecord(t *testing.T) {
	for _, text := range []string{"1000000 Z garbage", "1000000 Z 1garbage", "0001000000 Z 1k=9", "1000000 Z " + strings.Repeat("x", 20<<10)} {
		t.Run(text[:16], func(t *testing.T) {
			server := redistest.Start(t, redistest.Redis(t))
			client := server.Client(t)
			a := join(t, "redis://"+server.Addr, "A", nil, 0)
			a.must(t, "k", "1")
			do(t, client, "HSET", hash, idOf("k"), text)
			a.must(t, "k", "2")
			b := join(t, "redis://"+server.Addr, "B", nil, 0)
			agree(t, "k=2", a, b)
		})
	}
}

// TestLaterFormat: what a later release has written is neither read nor written over, and
// says so; of an entry that it has written a node knows that it missed something.
func TestLaterFormat(t *testing.T) {
	server := redistest.Start(t, redistest.Redis(t))
	client := server.Client(t)
	a := join(t, "redis://"+server.Addr, "A", nil, 0)
	a.must(t, "k", "1")
	const later = "3000000000000 Z 2k=9" // above the time
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
	do(t, client, "LPUSH", list, number+" random Z - 2later")
	do(t, client, "HSET", hash, "!head", number+":random")
	wait(t, "the node to know that it missed something", func() bool {
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

// TestManyFields: with 100,000 fields a node still gets what is right.
func TestManyFields(t *testing.T) {
	server := redistest.Start(t, redistest.Redis(t))
	client := server.Client(t)
	a := join(t, "redis://"+server.Addr, "A", nil, 0)
	a.must(t, "k", "1")
	do(t, client, "EVAL", "for i = 1, 100000 do redis.call('HSET', KEYS[1], 'x' .. i, 'garbage') end", "1", hash)
	c := join(t, "redis://"+server.Addr, "C", nil, 0) // waits 20 s
	agree(t, "k=1", c)
}

// TestGiantValues: giant values are not read into memory, and a node gets what is right.
func TestGiantValues(t *testing.T) {
	server := redistest.Start(t, redistest.Redis(t))
	client := server.Client(t)
	a := join(t, "redis://"+server.Addr, "A", nil, 0)
	a.must(t, "k", "1")
	do(t, client, "EVAL", "local s = string.rep('x', 20000000) for i = 1, 10 do redis.call('HSET', KEYS[1], string.format('x%023d', i), '7 B ' .. s) end", "1", hash)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	c := join(t, "redis://"+server.Addr, "C", nil, 0)
	agree(t, "k=1", c)
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 20_000_000 {
		t.Errorf("a node that joins has allocated %d bytes, more than one of ten values", n)
	}
}

// slow passes connections on to a server, each piece 10 ms late in each direction.
func slow(t *testing.T, to string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	pass := func(to, from net.Conn) {
		type piece struct {
			at   time.Time
			data []byte
		}
		pieces := make(chan piece, 1<<14)
		go func() {
			defer close(pieces)
			for {
				buf := make([]byte, 64<<10)
				n, err := from.Read(buf)
				if n > 0 {
					pieces <- piece{time.Now().Add(10 * time.Millisecond), buf[:n]}
				}
				if err != nil {
					return
				}
			}
		}()
		for p := range pieces {
			time.Sleep(time.Until(p.at))
			_, _ = to.Write(p.data)
		}
		_ = to.Close()
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s, err := net.Dial("tcp", to)
			if err != nil {
				_ = c.Close()
				continue
			}
			go pass(s, c)
			go pass(c, s)
		}
	}()
	return l.Addr().String()
}

// TestSlowLink: with a round trip of 20 ms a new node learns 10,000 records.
func TestSlowLink(t *testing.T) {
	server := redistest.Start(t, redistest.Redis(t))
	client := server.Client(t)
	a := join(t, "redis://"+server.Addr, "A", nil, 0)
	a.must(t, "k", "1")
	for i := range 10_000 {
		name := fmt.Sprint("n", i)
		do(t, client, "HSET", hash, idOf(name), fmt.Sprintf("%d A 1%s=1", 2+i, name))
	}
	begin := time.Now()
	c := join(t, "redis://"+slow(t, server.Addr), "C", nil, 0) // waits 20 s
	t.Logf("%d records after %v", len(c.texts()), time.Since(begin))
}

// TestFlushedThenBehind: FLUSHALL, and a node that knows less than another changes first; of the two
// changes that were answered as made, the later one holds.
func TestFlushedThenBehind(t *testing.T) {
	server := redistest.Start(t, redistest.Redis(t))
	client := server.Client(t)
	proxy := redistest.StartProxy(t, server.Addr)
	a, b := join(t, "redis://"+server.Addr, "A", nil, 0), join(t, "redis://"+proxy.Addr, "B", nil, 0)
	a.must(t, "k", "1")
	agree(t, "k=1", a, b)
	proxy.Set(redistest.Cutting)
	for i := range 5 {
		a.must(t, "k", fmt.Sprint(i+2))
	}
	agree(t, "k=6", a)
	// The store loses all, and A is gone for a while.
	have := maps.Clone(a.have)
	a.stop()
	do(t, client, "FLUSHALL")
	proxy.Set(redistest.Faithful)
	wait(t, "a change by who is behind", func() bool { return b.set(t, "k", "later") == nil })
	a = join(t, "redis://"+server.Addr, "A2", have, time.Minute)
	agree(t, "k=later", a, b)
}

// TestSecretChanged: after the first use of a secret, and the removal of the old records,
// the store has each record once, and no name in clear.
func TestSecretChanged(t *testing.T) {
	server := redistest.Start(t, redistest.Redis(t))
	client := server.Client(t)
	a := join(t, "redis://"+server.Addr, "A", nil, 0)
	a.must(t, "alice", "1")
	a.must(t, "bob", "1")
	a.stop()
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("0123456789abcdef"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := join(t, "redis://"+server.Addr+"?secret_file="+file, "B", a.have, time.Second)
	do(t, client, "DEL", hash, list)
	wait(t, "the store to have each record once", func() bool {
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
