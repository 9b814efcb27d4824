// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
)

// shared are limits whose takes may share a call.
var shared = []string{"1000/day", "1000/366day fixed-window", "1000/year fixed-window calendar UTC", "1000/366day sliding-counter"}

// takeTogether sends takes as if their callers had come at the same time.
func takeTogether(s *Store, reqs ...sluice.Request) []sluice.Result {
	calls, list, out := make([]*call, len(reqs)), make([]*queued, len(reqs)), make([]sluice.Result, len(reqs))
	for i := range reqs {
		c := s.newCall(&reqs[i])
		c.ask(&reqs[i])
		s.guess(c)
		calls[i], list[i] = c, s.gathering.queued(s.invocation(c))
	}
	s.sendAll(list)
	for i, p := range list {
		out[i].Err = s.conclude(context.Background(), calls[i], p.inv, p.inv.retry(context.Background(), s, <-p.ready))
		out[i].Decision = calls[i].jobs[0].decision
	}
	return out
}

// takesOfKeys returns takes of one unit of each key.
func takesOfKeys(p *sluice.Plan, keys ...string) []sluice.Request {
	reqs := make([]sluice.Request, len(keys))
	for i, key := range keys {
		reqs[i] = sluice.Request{Charge: sluice.Charge{Plan: p, Key: key, Cost: 1}}
	}
	return reqs
}

func keysTo(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprint("k", i)
	}
	return keys
}

// TestTakesOfManyKeysShareCalls: each take is charged once and has a decision of its own, also
// if a key comes twice or the server does not know the scripts.
func TestTakesOfManyKeysShareCalls(t *testing.T) {
	for _, b := range redistest.Binaries(t) {
		server := redistest.Shared(t, b)
		client := server.Client(t)
		for _, text := range shared {
			t.Run(b.Name+"/"+text, func(t *testing.T) {
				s, p := bare(client), testkit.Plan(t, t.Name(), text)
				redistest.Do(t, client, "SCRIPT", "FLUSH")
				redistest.ScriptCalls(t, client)
				reqs := takesOfKeys(p, append(keysTo(2*mostKeys+5), "k3", "k3")...)
				for round := range int64(2) {
					for i, r := range takeTogether(s, reqs...) {
						want := 999 - round
						if reqs[i].Key == "k3" {
							want -= 2 * round // units of the two other takes
						}
						if i >= 2*mostKeys+5 {
							want -= int64(i - 2*mostKeys - 4)
						}
						if r.Err != nil || !r.Decision.Allowed || r.Decision.Remaining != want {
							t.Errorf("round %d, take %d, of %s: got %+v, %v, want %d remaining", round, i, reqs[i].Key, r.Decision, r.Err, want)
						}
					}
					want := 3
					if round == 0 {
						want *= 2 // each sent the script to the server, as none waits for another
					}
					if got := redistest.ScriptCalls(t, client); got != want {
						t.Errorf("round %d: got %d calls, want %d", round, got, want)
					}
				}
			})
		}
	}
}

// TestWhatSharesACall: takes share a call if they differ in the key only.
func TestWhatSharesACall(t *testing.T) {
	server := redistest.Shared(t, redistest.Redis(t))
	s := bare(server.Client(t))
	p, like, other := testkit.Plan(t, "scope", "x: 1000/day"), testkit.Plan(t, "like", "x: 1000/day"), testkit.Plan(t, "scope", "x: 1001/day")
	two := testkit.Plan(t, "two", "x: 1000/day", "y: 10/s")
	req := func(p *sluice.Plan, op sluice.Op, cost int64) sluice.Request {
		return sluice.Request{Op: op, Charge: sluice.Charge{Plan: p, Key: "k", Cost: cost}}
	}
	log, window := testkit.Plan(t, "log", "10/s sliding-log"), testkit.Plan(t, "window", "10/h fixed-window")
	divided, denials := testkit.Plan(t, "divided", "10/h sliding-counter sub-windows 6"), testkit.Plan(t, "denials", "10/h sliding-counter count-denied")
	for name, c := range map[string]struct {
		reqs []sluice.Request
		want int
	}{
		"the same":                 {[]sluice.Request{req(p, sluice.OpTake, 1), req(p, sluice.OpTake, 1)}, 1},
		"another scope":            {[]sluice.Request{req(p, sluice.OpTake, 1), req(like, sluice.OpTake, 1)}, 1},
		"another cost":             {[]sluice.Request{req(p, sluice.OpTake, 1), req(p, sluice.OpTake, 2), req(like, sluice.OpTake, 1), req(like, sluice.OpTake, 2)}, 2},
		"another limit":            {[]sluice.Request{req(p, sluice.OpTake, 1), req(other, sluice.OpTake, 1)}, 2},
		"another operation":        {[]sluice.Request{req(p, sluice.OpTake, 1), req(p, sluice.OpPeek, 1), req(p, sluice.OpCharge, 1)}, 3},
		"charges of a window":      {[]sluice.Request{req(window, sluice.OpCharge, 1), req(window, sluice.OpCharge, 1)}, 1},
		"takes and charges":        {[]sluice.Request{req(window, sluice.OpTake, 1), req(window, sluice.OpCharge, 1)}, 2},
		"charges of a bucket":      {[]sluice.Request{req(p, sluice.OpCharge, 1), req(p, sluice.OpCharge, 1)}, 2},
		"several limits":           {[]sluice.Request{req(two, sluice.OpTake, 1), req(two, sluice.OpTake, 1)}, 2},
		"a log":                    {[]sluice.Request{req(log, sluice.OpTake, 1), req(log, sluice.OpTake, 1)}, 2},
		"a divided counter":        {[]sluice.Request{req(divided, sluice.OpTake, 1), req(divided, sluice.OpTake, 1)}, 2},
		"denials in a counter":     {[]sluice.Request{req(denials, sluice.OpTake, 1), req(denials, sluice.OpTake, 1)}, 2},
		"a take that may be later": {[]sluice.Request{{Charge: sluice.Charge{Plan: p, Key: "k", Cost: 1}, MaxWait: time.Hour}, req(p, sluice.OpTake, 1)}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := bare(server.Client(t)) // it has met no other limit of the scope
			w := new(pipeline)
			for i := range c.reqs {
				c1 := s.newCall(&c.reqs[i])
				c1.ask(&c.reqs[i])
				w.add(s.gathering.queued(s.invocation(c1)))
			}
			if got := len(w.toSend()); got != c.want {
				t.Errorf("got %d calls, want %d", got, c.want)
			}
		})
	}
	apart := bare(server.Client(t))
	apart.options.NoCoalescing = true
	client := server.Client(t)
	for s, want := range map[*Store]int{s: 1, apart: 10} {
		takeTogether(s, takesOfKeys(p, keysTo(10)...)...) // so that the server knows the script
		redistest.ScriptCalls(t, client)
		if takeTogether(s, takesOfKeys(p, keysTo(10)...)...); redistest.ScriptCalls(t, client) != want {
			t.Errorf("NoCoalescing %t: want %d calls", s.options.NoCoalescing, want)
		}
	}
}

// TestBatchesShareCalls: requests of one batch, and of several, share calls and have the
// decisions of their own keys. Requests of one key stay in order.
func TestBatchesShareCalls(t *testing.T) {
	server := redistest.Shared(t, redistest.Redis(t))
	client := server.Client(t)
	s, p, other, second := bare(client), testkit.Plan(t, "scope", "x: 1000/day"), testkit.Plan(t, "other", "x: 1000/day"), testkit.Plan(t, "scope", "y: 1000/day")
	reqs := takesOfKeys(p, keysTo(10)...)
	take := func(reqs []sluice.Request, want int64) {
		t.Helper()
		out := make([]sluice.Result, len(reqs))
		if err := s.TakeBatch(t.Context(), reqs, out); err != nil {
			t.Error(err)
		}
		for i, r := range out {
			if r.Err != nil || r.Decision.Remaining != want {
				t.Errorf("take %d: got %+v, %v, want %d remaining", i, r.Decision, r.Err, want)
			}
		}
	}
	take(reqs, 999)
	redistest.ScriptCalls(t, client)
	if take(reqs, 998); redistest.ScriptCalls(t, client) != 1 {
		t.Error("the takes of a batch did not share a call")
	}
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			key := fmt.Sprint("of ", i)
			for round := range int64(20) {
				take(append(takesOfKeys(p, key), takesOfKeys(other, key)...), 999-round)
			}
		})
	}
	wg.Wait()
	if got := redistest.ScriptCalls(t, client); got > 50*20*2*9/10 {
		t.Errorf("got %d calls for %d takes, want them to share calls", got, 50*20*2)
	}
	ordered := []sluice.Request{reqs[0], {Op: sluice.OpPeek, Charge: sluice.Charge{Plan: second, Key: "k0"}}, reqs[0]}
	take(ordered[1:2], 1000)
	out := make([]sluice.Result, 3)
	if err := s.TakeBatch(t.Context(), ordered, out); err != nil || out[0].Decision.Remaining != 997 || out[1].Decision.Remaining != 1000 || out[2].Decision.Remaining != 996 {
		t.Errorf("got %+v, %v, want 997, 1000 and 996 remaining", out, err)
	}
}

// TestOnesFaultIsNotTheOthers: a key with an invalid state fails only its own take, with the
// same error as alone, and the other takes of the call are charged once.
func TestOnesFaultIsNotTheOthers(t *testing.T) {
	server := redistest.Shared(t, redistest.Redis(t))
	client := server.Client(t)
	for _, text := range shared {
		t.Run(text, func(t *testing.T) {
			s, p := bare(client), testkit.Plan(t, t.Name(), text)
			reqs := takesOfKeys(p, keysTo(mostKeys)...)
			head := ""
			value := func(i int, command, value string) {
				items, _ := s.appendItems(nil, &reqs[i].Charge, 0)
				head = items[0].head
				redistest.Do(t, client, command, items[0].key, value)
			}
			bad := map[int]string{2: "WRONGTYPE", 5: "too short", 6: "upgrade the program", 11: "WRONGTYPE"}
			value(2, "LPUSH", "x")
			value(5, "SET", head+"x")
			value(6, "SET", "\x09x")
			value(11, "LPUSH", "x")
			for round := range int64(3) {
				for i, r := range takeTogether(s, reqs...) {
					want, fails := bad[i]
					switch {
					case fails && (r.Err == nil || !strings.Contains(r.Err.Error(), want)):
						t.Errorf("take %d: got %v, want an error with %q", i, r.Err, want)
					case fails:
						_, err := s.alone(t.Context(), &reqs[i])
						if err == nil || err.Error() != r.Err.Error() {
							t.Errorf("take %d: got %v, by itself it is %v", i, r.Err, err)
						}
					case r.Err != nil || r.Decision.Remaining != 999-round:
						t.Errorf("take %d: got %+v, %v, want %d remaining", i, r.Decision, r.Err, 999-round)
					}
				}
			}
		})
	}
}

// TestServerThatRefusesWrites: takes that share a call fail as each would alone, with few more
// calls, and none is charged.
func TestServerThatRefusesWrites(t *testing.T) {
	server := redistest.Start(t, redistest.Redis(t))
	client := server.Client(t)
	s, p := bare(client), testkit.Plan(t, "scope", "1000/day")
	reqs := takesOfKeys(p, keysTo(mostKeys)...)
	takeTogether(s, reqs...)
	set := func(name, value string) {
		t.Helper()
		redistest.Do(t, client, "CONFIG", "SET", name, value)
	}
	set("maxmemory", "1")
	redistest.ScriptCalls(t, client)
	for i, r := range takeTogether(s, reqs...) {
		if r.Err == nil || !strings.HasPrefix(r.Err.Error(), "OOM ") {
			t.Errorf("take %d: got %+v, %v, want OOM", i, r.Decision, r.Err)
		}
	}
	if got := redistest.ScriptCalls(t, client); got > mostKeys+2 {
		t.Errorf("got %d calls, want no more than %d", got, mostKeys+2)
	}
	set("maxmemory", "0")
	for i, r := range takeTogether(s, reqs...) {
		if r.Err != nil || r.Decision.Remaining != 998 {
			t.Errorf("take %d: got %+v, %v, want 998 remaining", i, r.Decision, r.Err)
		}
	}
}

// TestKeyThatIsForbidden: a server that refuses a call because of one key has run nothing, and
// then decides the other takes.
func TestKeyThatIsForbidden(t *testing.T) {
	server := redistest.Start(t, redistest.Redis(t))
	redistest.Do(t, server.Client(t), "ACL", "SETUSER", "one", "on", "nopass", "+@all", "~sluice{1one/*")
	s := bare(server.ConnectAs(t, "one", "any"))
	reqs := takesOfKeys(testkit.Plan(t, "one", "1000/day"), keysTo(5)...)
	reqs = append(reqs, takesOfKeys(testkit.Plan(t, "two", "1000/day"), keysTo(5)...)...)
	for round := range int64(2) {
		for i, r := range takeTogether(s, reqs...) {
			if i < 5 && (r.Err != nil || r.Decision.Remaining != 999-round) {
				t.Errorf("take %d: got %+v, %v, want %d remaining", i, r.Decision, r.Err, 999-round)
			}
			if i >= 5 && (r.Err == nil || !strings.HasPrefix(r.Err.Error(), "NOPERM")) {
				t.Errorf("take %d: got %+v, %v, want NOPERM", i, r.Decision, r.Err)
			}
		}
	}
}
