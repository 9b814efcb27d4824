// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/testkit"
)

// slots is the number of hash slots of a Cluster.
const slots = 16384

// Cluster is a running Redis Cluster.
type Cluster struct {
	Masters  []*Server // in the order of their slots
	Replicas []*Server // the i-th is a replica of the i-th master
}

// StartCluster starts a Cluster of masters, with a replica each if replicas is set. It is
// stopped when the test ends. A node that a busy machine delays for some seconds does not
// change its role: see [Cluster.Hasten].
func StartCluster(t testing.TB, b Binary, masters int, replicas bool) *Cluster {
	t.Helper()
	c := &Cluster{}
	node := func() *Server {
		return Start(t, b, "--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(testkit.FreePort(t)),
			"--cluster-node-timeout", "2000", "--cluster-replica-no-failover", "yes", "--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0")
	}
	for range masters {
		c.Masters = append(c.Masters, node())
		if replicas {
			c.Replicas = append(c.Replicas, node())
		}
	}
	meet(t, c.nodes())
	share(t, c.Masters)
	for i, s := range c.Replicas {
		id := Do(t, c.Masters[i].Client(t), "CLUSTER", "MYID")
		client := s.Client(t)
		waitFor(t, "a node to know its master", func(ctx context.Context) error {
			return client.Do(ctx, "CLUSTER", "REPLICATE", id).Err
		})
	}
	for _, s := range c.nodes() {
		waitInfo(t, s, "cluster", "cluster_state:ok", "cluster_slots_ok:"+strconv.Itoa(slots))
	}
	for i, s := range c.Replicas {
		waitInfo(t, s, "replication", "role:slave", "master_port:"+strconv.Itoa(c.Masters[i].Port), "master_link_status:up")
	}
	c.timeout(t, 30*time.Second) // not before: it takes as long until nodes agree
	for _, s := range c.Replicas {
		Do(t, s.Client(t), "CONFIG", "SET", "cluster-replica-no-failover", "no")
	}
	return c
}

// Hasten makes a replica replace a lost master within seconds.
func (c *Cluster) Hasten(t testing.TB) {
	t.Helper()
	c.timeout(t, 2*time.Second)
}

func (c *Cluster) timeout(t testing.TB, d time.Duration) {
	t.Helper()
	for _, s := range c.nodes() {
		Do(t, s.Client(t), "CONFIG", "SET", "cluster-node-timeout", strconv.FormatInt(d.Milliseconds(), 10))
	}
}

// meet introduces the nodes to each other, again and again until each knows all: a node forgets
// another that does not answer its introduction within the node timeout.
func meet(t testing.TB, nodes []*Server) {
	t.Helper()
	var ids []string
	for _, s := range nodes {
		ids = append(ids, Do(t, s.Client(t), "CLUSTER", "MYID"))
	}
	var met time.Time
	testkit.Until(t, "the nodes to know each other", func() bool {
		if !slices.ContainsFunc(nodes, func(s *Server) bool { return !knows(t, s, ids) }) {
			return true
		}
		if time.Since(met) > 5*time.Second {
			met = time.Now()
			for _, s := range nodes[1:] {
				Do(t, nodes[0].Client(t), "CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(s.Port), s.busPort())
			}
		}
		return false
	})
}

// knows reports whether a node knows the nodes with these ids.
func knows(t testing.TB, s *Server, ids []string) bool {
	t.Helper()
	known := Do(t, s.Client(t), "CLUSTER", "NODES")
	return !slices.ContainsFunc(ids, func(id string) bool { return !strings.Contains(known, id+" ") })
}

// share gives each master its part of the slots.
func share(t testing.TB, masters []*Server) {
	t.Helper()
	for i, s := range masters {
		from, to := i*slots/len(masters), (i+1)*slots/len(masters)-1
		Do(t, s.Client(t), "CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(from), strconv.Itoa(to))
	}
}

// joinCluster makes a Cluster of masters.
func joinCluster(t testing.TB, masters []*Server) {
	t.Helper()
	meet(t, masters)
	share(t, masters)
	for _, s := range masters {
		waitInfo(t, s, "cluster", "cluster_state:ok", "cluster_slots_ok:"+strconv.Itoa(slots))
	}
}

// URL returns the URL of the Cluster, with [Patient].
func (c *Cluster) URL() string {
	var addrs []string
	for _, s := range c.nodes() {
		addrs = append(addrs, s.Addr)
	}
	return "redis-cluster://" + strings.Join(addrs, ",") + Patient
}

func (c *Cluster) nodes() []*Server {
	return append(append([]*Server(nil), c.Masters...), c.Replicas...)
}

func (s *Server) busPort() string {
	for i, a := range s.args {
		if a == "--cluster-port" {
			return s.args[i+1]
		}
	}
	return strconv.Itoa(s.Port + 10000)
}

// waitInfo waits until the server's INFO has all lines.
func waitInfo(t testing.TB, s *Server, section string, lines ...string) {
	t.Helper()
	client := s.Client(t)
	command := []string{"INFO", section}
	if section == "cluster" {
		command = []string{"CLUSTER", "INFO"}
	}
	waitFor(t, fmt.Sprintf("%s: %v", s.Addr, lines), func(ctx context.Context) error {
		reply := client.Do(ctx, command...)
		if reply.Err != nil {
			return reply.Err
		}
		for _, line := range lines {
			if !strings.Contains(reply.Text, line+"\r\n") {
				return errors.New(reply.Text)
			}
		}
		return nil
	})
}
