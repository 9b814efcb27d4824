// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package faults

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
)

// pair is a master and its replica, which take turns.
type pair struct {
	master, replica *redistest.Server
	fallen          bool // the replica is not running
}

// fail has the replica fall behind, waits until the store has admitted more that
// it does not know, and kills the master. It returns since when that was
// admitted.
func (p *pair) fail(t *testing.T, rigs []*rig) sluice.Instant {
	t.Helper()
	if p.fallen {
		p.replica.Run(t)
		testkit.Until(t, "the old master to be a replica", func() bool {
			return strings.Contains(p.replica.Do(t, "INFO", "replication"), "role:slave") &&
				info(t, p.replica, "replication", "master_link_status") == "up"
		})
	}
	since := sluice.InstantOf(time.Now())
	sent := offset(t, p.master, "master_repl_offset")
	testkit.Until(t, "the replica to follow", func() bool { return offset(t, p.replica, "slave_repl_offset") >= sent })
	p.replica.Stop(t)
	fill(t, p.master) // all that comes now waits behind it
	admitMore(t, rigs)
	p.master.Kill(t)
	p.replica.Continue(t)
	return since
}

// turn makes the replica the master, as the servers have.
func (p *pair) turn() { p.master, p.replica, p.fallen = p.replica, p.master, true }

// fill writes more to a server than the connection to its replica can hold.
func fill(t *testing.T, s *redistest.Server) {
	t.Helper()
	client := s.Connect(t)
	defer client.Close()
	value := strings.Repeat("-", 24<<20)
	for n := range 100 {
		reply := client.Do(t.Context(), "SET", "filler"+strconv.Itoa(n), value, "EX", "60")
		switch {
		case reply.Err == nil:
			return
		case !reply.Refused || !strings.HasPrefix(reply.Err.Error(), "MOVED "):
			t.Fatal(reply.Err)
		}
	}
	t.Fatal("no key is kept by this server")
}

// info returns what a server says of one of its properties.
func info(t *testing.T, s *redistest.Server, section, name string) string {
	t.Helper()
	for line := range strings.Lines(s.Do(t, "INFO", section)) {
		if is, value, _ := strings.Cut(strings.TrimSpace(line), ":"); is == name {
			return value
		}
	}
	return ""
}

func offset(t *testing.T, s *redistest.Server, name string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(info(t, s, "replication", name), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func waitMaster(t *testing.T, s *redistest.Server) {
	t.Helper()
	testkit.Until(t, "a replica to be master", func() bool { return info(t, s, "replication", "role") == "master" })
}

// sentinelFailover kills the master. What returns is its replica, when the
// sentinels name it: before that no client can know.
func sentinelFailover(t *testing.T) *stage {
	s := redistest.StartSentinel(t, redistest.Redis(t))
	s.Hasten(t)
	var addresses []string
	for _, n := range s.Sentinels {
		addresses = append(addresses, n.Addr)
	}
	p := &pair{master: s.Master, replica: s.Replica}
	g := &stage{url: fmt.Sprintf("redis-sentinel://%s/%s", strings.Join(addresses, ","), redistest.MasterSet)}
	g.strike = func(rigs []*rig) sluice.Instant {
		since := p.fail(t, rigs)
		g.servers = []*redistest.Server{p.replica} // the only one left
		return since
	}
	g.heal = func() {
		waitMaster(t, p.replica)
		began := time.Now()
		testkit.Until(t, "the sentinels to name the new master", func() bool {
			named := 0
			for _, n := range s.Sentinels {
				at := n.List(t, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", redistest.MasterSet)
				if len(at) == 2 && at[1] == strconv.Itoa(p.replica.Port) {
					named++
				}
			}
			return named > len(s.Sentinels)/2
		})
		t.Logf("named by the sentinels %v after it was master", time.Since(began).Round(time.Millisecond))
		p.turn()
	}
	return g
}

// clusterFailover kills a master. What returns is its replica, when the Cluster
// is whole, as each of its servers says that a client may ask.
func clusterFailover(t *testing.T) *stage {
	c := redistest.StartCluster(t, redistest.Redis(t), 3, true)
	c.Hasten(t)
	p := &pair{master: c.Masters[0], replica: c.Replicas[0]}
	g := &stage{url: clusterURL(c)}
	g.strike = func(rigs []*rig) sluice.Instant {
		since := p.fail(t, rigs)
		g.servers = append([]*redistest.Server{p.replica}, append(c.Masters[1:], c.Replicas[1:]...)...)
		return since
	}
	g.heal = func() {
		waitMaster(t, p.replica)
		began := time.Now()
		testkit.Until(t, "the Cluster to be whole", func() bool {
			return !slices.ContainsFunc(g.servers, func(s *redistest.Server) bool {
				return !strings.Contains(s.Do(t, "CLUSTER", "INFO"), "cluster_state:ok")
			})
		})
		t.Logf("whole to all its servers %v after the replica was master", time.Since(began).Round(time.Millisecond))
		p.turn()
	}
	g.holds = func(text string) bool { return len(p.master.List(t, "KEYS", "*"+text+"*")) > 0 }
	return g
}

func clusterURL(c *redistest.Cluster) string {
	var addresses []string
	for _, s := range append(c.Masters, c.Replicas...) {
		addresses = append(addresses, s.Addr)
	}
	return "redis-cluster://" + strings.Join(addresses, ",")
}
