// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package faults

import (
	"math"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
)

// fault is a disturbance of a store under load.
type fault struct {
	name string
	// calm says that no call may fail.
	calm bool
	// says is how the servers' answers begin while they refuse. They run nothing
	// then, so that it is known what every call has spent.
	says string
	// tight says that each strike makes the servers forget something.
	tight bool
	// hangs says that the servers do not answer, rather than refuse.
	hangs bool
	// grows says that many in a row are tried for what they leave behind.
	grows bool
	// long says that make long strikes with it.
	long  bool
	setUp func(t *testing.T) *stage
}

// stage is servers and what can be done to them.
type stage struct {
	url     string
	servers []*redistest.Server // whose connections are counted
	steady  bool                // whether connections are alike under any load
	// strike begins the fault. What was admitted before since is never forgotten,
	// and what is admitted after its return not by this strike.
	strike func(rigs []*rig) (since sluice.Instant)
	// heal ends the fault and returns when the servers can serve.
	heal func()
	// holds, if not nil, reports whether a key whose name contains text is where
	// the fault strikes.
	holds func(text string) bool
}

const (
	nothing    sluice.Instant = math.MaxInt64 // is forgotten
	everything sluice.Instant = 0
)

// patience is the deadline of calls. Where none may fail it leaves a busy
// machine time; how many took longer than usual is reported.
func (f *fault) patience() time.Duration {
	if f.calm {
		return testkit.Ceiling / 2
	}
	return bounds.DefaultTimeout
}

// lasts is how long a fault lasts once it is noticed: where the server hangs, longer than
// a call may take that does not wait for it.
func (f *fault) lasts() time.Duration {
	if f.hangs {
		return 1500 * time.Millisecond
	}
	return time.Duration(testkit.Steps(300, 1500)) * time.Millisecond
}

// times is how often each fault strikes: more by SLUICE_FAULTS.
func times(t *testing.T) int {
	t.Helper()
	text := os.Getenv("SLUICE_FAULTS")
	if text == "" {
		return 1
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("SLUICE_FAULTS is %q; use the number of times each fault is injected, such as 20", text)
	}
	return n
}

// outages are of invariant 22 (store down): closed admits nothing, open and local what
// they state, no decision takes longer than its deadline, all go back to the store when
// it returns, and nothing is left behind.
var outages = []fault{
	{name: "SIGKILL and restart with empty memory", tight: true, grows: true, setUp: killed},
	{name: "SIGSTOP and SIGCONT", hangs: true, grows: true, setUp: stopped},
	{name: "NOSCRIPT", calm: true, setUp: ordered([]string{"SCRIPT", "FLUSH"}, nil)},
	{name: "OOM", says: "OOM", setUp: ordered([]string{"CONFIG", "SET", "maxmemory", "1"}, []string{"CONFIG", "SET", "maxmemory", "0"})},
	{name: "READONLY", says: "READONLY", setUp: ordered([]string{"REPLICAOF", "127.0.0.1", "1"}, []string{"REPLICAOF", "NO", "ONE"})},
	{name: "LOADING", says: "LOADING", tight: true, setUp: loading},
	{name: "network delays", hangs: true, setUp: proxied(redistest.Delaying)},
	{name: "network trickles", setUp: proxied(redistest.Trickling)},
	{name: "network swallows", hangs: true, grows: true, setUp: proxied(redistest.Swallowing)},
	{name: "network cuts", grows: true, setUp: proxied(redistest.Cutting)},
}

// failovers are of invariant 23: the excess is at most what was admitted in the lost
// suffix, and nothing is charged twice.
var failovers = []fault{
	{name: "Sentinel failover", tight: true, setUp: sentinelFailover},
	{name: "Cluster failover", tight: true, long: true, setUp: clusterFailover},
	{name: "Cluster moves slots", calm: true, setUp: slotMoves},
}

// one returns a stage with one server.
func one(s *redistest.Server) *stage {
	return &stage{url: "redis://" + s.Addr, servers: []*redistest.Server{s}}
}

// ordered starts one server and strikes and heals it by commands.
func ordered(strike, heal []string) func(*testing.T) *stage {
	return func(t *testing.T) *stage {
		s := redistest.Start(t, redistest.Redis(t))
		g := one(s)
		g.strike = func([]*rig) sluice.Instant {
			s.Do(t, strike...)
			return nothing
		}
		g.heal = func() {
			if heal != nil {
				s.Do(t, heal...)
			}
		}
		return g
	}
}

// stopped starts one server and has it hang.
func stopped(t *testing.T) *stage {
	s := redistest.Start(t, redistest.Redis(t))
	g := one(s)
	g.strike = func([]*rig) sluice.Instant {
		s.Stop(t)
		return nothing
	}
	g.heal = func() { s.Continue(t) }
	return g
}

// killed starts one server, kills it, and starts it again with empty memory.
func killed(t *testing.T) *stage {
	s := redistest.Start(t, redistest.Redis(t))
	g := one(s)
	g.strike = func([]*rig) sluice.Instant {
		s.Kill(t)
		return everything
	}
	g.heal = func() { s.Run(t) }
	return g
}

// loading starts one server that is killed some time after it has saved, and
// takes seconds to load that, in which it answers that it is loading.
func loading(t *testing.T) *stage {
	s := redistest.Start(t, redistest.Redis(t), "--enable-debug-command", "yes", "--dbfilename", "dump.rdb",
		"--key-load-delay", "1000", "--loading-process-events-interval-bytes", "1024")
	g := one(s)
	g.strike = func(rigs []*rig) sluice.Instant {
		s.Do(t, "DEBUG", "POPULATE", "2500", "filler", "100")
		since := sluice.InstantOf(time.Now())
		s.Do(t, "SAVE")
		admitMore(t, rigs)
		s.Kill(t)
		s.Launch(t)
		return since
	}
	g.heal = func() { s.Await(t) }
	return g
}

// admitMore waits until the store has admitted more of every hot key that is not
// spent, as it is when a fault has struck some times.
func admitMore(t *testing.T, rigs []*rig) {
	t.Helper()
	spend(rigs)
	for _, r := range rigs {
		enough, denied := r.admitted()+10, r.denied.Load()
		testkit.Until(t, "more to be admitted", func() bool { return r.admitted() >= enough || r.denied.Load() > denied })
	}
}

// spend ends the saving of the hot keys.
func spend(rigs []*rig) {
	for _, r := range rigs {
		r.saving.Store(false)
	}
}

// proxied starts one server behind a proxy that changes its manner.
func proxied(m redistest.Manner) func(*testing.T) *stage {
	return func(t *testing.T) *stage {
		s := redistest.Start(t, redistest.Redis(t))
		p := redistest.StartProxy(t, s.Addr)
		g := one(s)
		g.url = "redis://" + p.Addr
		g.strike = func([]*rig) sluice.Instant {
			p.Set(m)
			return nothing
		}
		g.heal = func() { p.Set(redistest.Faithful) }
		return g
	}
}
