// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/sluicegate/sluice/internal/testkit"
)

// MasterSet is the name under which the sentinels of [StartSentinel] watch.
const MasterSet = "limits"

// Sentinel is a master with a replica, watched by three sentinels.
type Sentinel struct {
	Master, Replica *Server
	Sentinels       []*Server
}

// StartSentinel starts a master, a replica and three sentinels; two of them must agree. They
// are stopped when the test ends. A master that a busy machine delays for
// some seconds stays the master: see [Sentinel.Hasten].
func StartSentinel(t testing.TB, b Binary) *Sentinel {
	t.Helper()
	s := &Sentinel{Master: Start(t, b, "--repl-diskless-sync-delay", "0")}
	s.Replica = Start(t, b, "--replicaof", "127.0.0.1", strconv.Itoa(s.Master.Port))
	waitInfo(t, s.Replica, "replication", "role:slave", "master_link_status:up")
	for range 3 {
		n := newServer(t, b, testkit.FreePort(t), nil)
		conf := write(t, n.Dir, "sentinel.conf", fmt.Sprintf(
			"port %d\nbind 127.0.0.1\ndir %s\nsentinel monitor %s 127.0.0.1 %d 2\n"+
				"sentinel down-after-milliseconds %[3]s 30000\nsentinel failover-timeout %[3]s 5000\n",
			n.Port, n.Dir, MasterSet, s.Master.Port))
		n.args = []string{conf, "--sentinel"}
		n.Run(t)
		s.Sentinels = append(s.Sentinels, n)
	}
	for _, n := range s.Sentinels {
		waitInfo(t, n, "sentinel", fmt.Sprintf("master0:name=%s,status=ok,address=%s,slaves=1,sentinels=3", MasterSet, s.Master.Addr))
	}
	return s
}

// Hasten makes the replica replace a lost master within seconds.
func (s *Sentinel) Hasten(t testing.TB) {
	t.Helper()
	for _, n := range s.Sentinels {
		Do(t, n.Client(t), "SENTINEL", "SET", MasterSet, "down-after-milliseconds", "1000")
	}
}
