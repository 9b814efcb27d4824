// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"
	"strings"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
)

// counted counts the scripts and calls of a Client.
type counted struct {
	Client
	trips, scripts int
}

func (c *counted) Run(ctx context.Context, scripts []*Script, replies []Reply) {
	c.trips, c.scripts = c.trips+1, c.scripts+len(scripts)
	c.Client.Run(ctx, scripts, replies)
}

// count wraps the Client of a store with counters.
func count(s *Store) *counted {
	c := &counted{Client: s.client}
	s.client = c
	return c
}

// TestServerOfOneSlot: a server that refuses keys of several slots, such as one of a Cluster
// or a proxy in front of several servers, is asked once.
func TestServerOfOneSlot(t *testing.T) {
	server := redistest.StartCluster(t, redistest.Redis(t), 1, false).Masters[0]
	s, p := bare(server.Client(t)), testkit.Plan(t, "scope", "1000/day")
	one := takesOfKeys(p, "first")
	takeTogether(s, one...) // so that the server knows the script
	c := count(s)
	for round, want := range []int{1 + mostKeys, mostKeys, mostKeys} {
		c.scripts = 0
		for i, r := range takeTogether(s, takesOfKeys(p, keysTo(mostKeys)...)...) {
			if r.Err != nil || r.Decision.Remaining != 999-int64(round) {
				t.Errorf("round %d, take %d: got %+v, %v, want %d remaining", round, i, r.Decision, r.Err, 999-round)
			}
		}
		if c.scripts != want {
			t.Errorf("round %d: got %d calls, want %d", round, c.scripts, want)
		}
	}
}

// TestBatchOnServerThatRefuses: the takes of a batch that the server did not run are sent
// again together, not one after the other.
func TestBatchOnServerThatRefuses(t *testing.T) {
	server := redistest.Shared(t, redistest.Redis(t))
	client := server.Client(t)
	s, p := bare(client), testkit.Plan(t, "scope", "1000/day")
	reqs := takesOfKeys(p, keysTo(5*mostKeys)...)
	out := make([]sluice.Result, len(reqs))
	take := func() {
		t.Helper()
		if err := s.TakeBatch(context.Background(), reqs, out); err != nil {
			t.Fatal(err)
		}
	}
	s.decideAll(t.Context(), reqs[:1], out) // so that the server knows the script
	take()
	items, _ := s.appendItems(nil, &reqs[0].Charge, 0)
	redistest.Do(t, client, "DEL", items[0].key)
	redistest.Do(t, client, "LPUSH", items[0].key, "x")
	c := count(s)
	take()
	for i, r := range out {
		switch {
		case i == 0 && (r.Err == nil || !strings.Contains(r.Err.Error(), "WRONGTYPE")):
			t.Errorf("take 0: got %v, want WRONGTYPE", r.Err)
		case i > 0 && (r.Err != nil || r.Decision.Remaining != 998):
			t.Errorf("take %d: got %+v, %v, want 998 remaining", i, r.Decision, r.Err)
		}
	}
	if c.trips != 2 {
		t.Errorf("got %d round trips, want 2", c.trips)
	}
}

// TestChangedLimitsShareCalls: takes of keys that another limit has written share the call
// that finds this out.
func TestChangedLimitsShareCalls(t *testing.T) {
	server := redistest.Shared(t, redistest.Redis(t))
	client := server.Client(t)
	for _, text := range shared {
		t.Run(text, func(t *testing.T) {
			before, after := testkit.Plan(t, t.Name(), "x: "+text), testkit.Plan(t, t.Name(), "x: 2"+text)
			s := bare(client)
			takeTogether(s, takesOfKeys(before, keysTo(mostKeys)...)...)
			s = bare(client) // it has not met that limit
			takeTogether(s, takesOfKeys(after, "first")...)
			c := count(s)
			for i, r := range takeTogether(s, takesOfKeys(after, keysTo(mostKeys)...)...) {
				if r.Err != nil || !r.Decision.Allowed {
					t.Errorf("take %d: got %+v, %v, want it allowed", i, r.Decision, r.Err)
				}
			}
			if c.scripts > 2+mostKeys { // and the text of the script that replaces a value
				t.Errorf("got %d calls, want %d", c.scripts, 2+mostKeys)
			}
		})
	}
}
