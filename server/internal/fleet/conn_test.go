// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/redisstore/redisurl"
	"github.com/sluicegate/sluice/redisstore/rueidisstore"
	"github.com/sluicegate/sluice/server/internal/fleet"
)

// connect returns a Conn that polls often and is patient.
func connect(t *testing.T, url, id string) *fleet.Conn {
	t.Helper()
	target, err := redisurl.Parse(url)
	if err != nil {
		t.Fatal(err)
	}
	option, err := rueidisstore.ClientOption(target)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := rueidisstore.Secret(target)
	if err != nil {
		t.Fatal(err)
	}
	c, err := fleet.New(fleet.Options{
		Target: target, Client: option, Secret: secret, Connect: rueidisstore.Connect, Node: fleet.Node{ID: id, Name: strings.ToLower(id)},
		Every: 20 * time.Millisecond, Timeout: testkit.Ceiling,
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// run runs a Conn until stop is called or the test ends.
func run(t *testing.T, c *fleet.Conn) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() { c.Run(ctx) })
	stop = func() { cancel(); group.Wait() }
	t.Cleanup(stop)
	return stop
}

// start runs a Conn with parts until the test ends.
func start(t *testing.T, url string, parts ...fleet.Part) *fleet.Conn {
	t.Helper()
	c := connect(t, url, "n1")
	for _, p := range parts {
		c.Register(p)
	}
	run(t, c)
	return c
}

// watcher is a part whose ticks go to a channel.
func watcher(marks ...fleet.Mark) (fleet.Part, <-chan fleet.Tick) {
	ticks := make(chan fleet.Tick)
	return fleet.Part{Marks: marks, Tick: func(ctx context.Context, t fleet.Tick) {
		select {
		case ticks <- t:
		case <-ctx.Done():
		}
	}}, ticks
}

// next returns the first tick that is wanted.
func next(t *testing.T, ticks <-chan fleet.Tick, want func(fleet.Tick) bool) fleet.Tick {
	t.Helper()
	deadline := time.After(testkit.Ceiling)
	for {
		select {
		case tick := <-ticks:
			if want(tick) {
				return tick
			}
		case <-deadline:
			t.Fatal("no such tick")
		}
	}
}

func answered(tick fleet.Tick) bool { return tick.Err == nil }

func failed(tick fleet.Tick) bool { return tick.Err != nil }

var set = fleet.NewScript(`redis.call('HSET', KEYS[1], ARGV[1], ARGV[2]) return {'done'}`)

// TestPoll: each part gets its own marks, before the server is there, while it is down and after
// it is back.
func TestPoll(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Redis(t))
	server.Kill(t)
	one, first := watcher(fleet.Mark{Key: "a", Field: "v"}, fleet.Mark{Key: "b", Field: "v"}, fleet.Mark{Key: "a", Field: "long"})
	two, second := watcher(fleet.Mark{Key: "b", Field: "w"})
	c := start(t, "redis://"+server.Addr, one, two)
	next(t, first, failed)
	if _, err := c.Eval(t.Context(), set, []string{c.Key("a")}, "v", "1"); err == nil {
		t.Error("a call without a connection did not fail")
	}
	go func() {
		for range second {
		}
	}()
	server.Run(t)
	tick := next(t, first, answered)
	if since := time.Since(tick.Now); since < -time.Minute || since > time.Minute {
		t.Errorf("the store's time is %v ago", since)
	}
	for _, s := range [][3]string{{"a", "v", "1"}, {"b", "v", "2"}, {"b", "w", "3"}, {"a", "long", strings.Repeat("x", 65)}} {
		list, err := c.Eval(t.Context(), set, []string{c.Key(s[0])}, s[1], s[2])
		if err != nil || len(list) != 1 || list[0] != "done" {
			t.Fatalf("set: %q, %v", list, err)
		}
	}
	c.Poke()
	next(t, first, answered)
	tick = next(t, first, answered)
	if got := strings.Join(tick.Values, ","); got != "1,2," {
		t.Errorf("marks are %q, want %q", got, "1,2,")
	}
	server.Kill(t)
	next(t, first, failed)
	if c.Err() == nil {
		t.Error("a poll that failed is not reported")
	}
	server.Run(t)
	next(t, first, answered)
	if err := c.Err(); err != nil {
		t.Errorf("after a poll that succeeded: %v", err)
	}
}

// TestCluster: all keys are in one slot.
func TestCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.Redis(t), 3, false)
	part, ticks := watcher(fleet.Mark{Key: "a", Field: "v"}, fleet.Mark{Key: "b", Field: "v"})
	c := start(t, "redis-cluster://"+cluster.Masters[0].Addr, part)
	next(t, ticks, answered)
	if _, err := c.Eval(t.Context(), set, []string{c.Key("b")}, "v", "2"); err != nil {
		t.Fatal(err)
	}
	next(t, ticks, func(t fleet.Tick) bool { return t.Err == nil && t.Values[1] == "2" })
}

// TestSeal: with a secret nobody without it reads what is kept, or writes it.
func TestSeal(t *testing.T) {
	open := func(secret string) *fleet.Conn {
		url := "redis://127.0.0.1:1"
		if secret != "" {
			url += withSecret(t, secret)
		}
		return connect(t, url, "n1")
	}
	plain, mine, other := open(""), open("0123456789abcdef"), open("fedcba9876543210")
	if kept := plain.Seal("at", []byte("alice")); kept != "alice" {
		t.Errorf("without a secret %q is kept", kept)
	}
	kept := mine.Seal("at", []byte("alice"))
	if strings.Contains(kept, "alice") {
		t.Error("the value can be read")
	}
	if got, err := mine.Unseal("at", kept); err != nil || string(got) != "alice" {
		t.Errorf("got %q, %v", got, err)
	}
	for name, f := range map[string]func() ([]byte, error){
		"elsewhere":      func() ([]byte, error) { return mine.Unseal("there", kept) },
		"another secret": func() ([]byte, error) { return other.Unseal("at", kept) },
		"plain":          func() ([]byte, error) { return mine.Unseal("at", "alice") },
		"changed":        func() ([]byte, error) { return mine.Unseal("at", kept[:len(kept)-1]+"x") },
	} {
		if got, err := f(); err == nil {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

// withSecret returns what a URL ends with where nodes have a secret.
func withSecret(t *testing.T, secret string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	return "?secret_file=" + file
}
