// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluicegate/sluice/failure"
	"github.com/sluicegate/sluice/internal/redistest"
)

// fault is something that befalls a store under load.
type fault struct {
	name string
	// losses is how often the servers forget: all, or what had not come to a
	// replica. Each time the hot key may be spent once more.
	losses int64
	// calm says that no call may fail.
	calm bool
	// setUp starts servers and returns their URL, and what to do to them: strike
	// begins the fault, heal ends it and returns when the servers can serve.
	setUp func(t *testing.T) (url string, strike, heal func())
}

// patience is the deadline of calls. Where none may fail it leaves a busy
// machine time.
func (f *fault) patience() time.Duration {
	if f.calm {
		return 5 * time.Second
	}
	return failure.DefaultTimeout
}

// lasting is how long a fault lasts.
const lasting = 1500 * time.Millisecond

// times is how often each fault strikes: more by SLUICE_FAULTS.
func times(t *testing.T) int {
	t.Helper()
	text := os.Getenv("SLUICE_FAULTS")
	if text == "" {
		return 1
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("SLUICE_FAULTS is %q; write how often each fault shall strike, such as 20", text)
	}
	return n
}

// TestInvariant22 (store down): closed admits nothing, open and local what they
// state, no decision takes longer than its deadline, and all go back to the
// store when it returns.
func TestInvariant22(t *testing.T) {
	for _, f := range outages {
		t.Run(f.name, func(t *testing.T) { f.play(t) })
	}
}

// TestInvariant23 (failover): the excess is at most what was admitted in the
// lost suffix, and nothing is charged twice.
func TestInvariant23(t *testing.T) {
	for _, f := range failovers {
		t.Run(f.name, func(t *testing.T) { f.play(t) })
	}
}

func (f *fault) play(t *testing.T) {
	url, strike, heal := f.setUp(t)
	runtime.GC()
	goroutines, files, heap := runtime.NumGoroutine(), openFiles(t), heapInUse()
	var rigs []*rig
	for _, p := range []failure.Policy{failure.Closed, failure.Open, failure.Local} {
		r := newRig(t, url, p, f.patience())
		rigs = append(rigs, r)
		r.start()
	}
	for range times(t) {
		settled := make([]int64, len(rigs))
		for i, r := range rigs {
			waitFor(t, "load on the store", func() bool { return r.decided.Load() > settled[i]+100 })
		}
		strike()
		pause(lasting)
		heal()
		awaitStore(t, rigs)
		for i, r := range rigs {
			settled[i] = r.decided.Load()
		}
	}
	pause(200 * time.Millisecond)
	losses := f.losses * int64(times(t))
	for _, r := range rigs {
		r.halt()
		waitFor(t, "late answers and owed units", func() bool { s := r.store.Stats(); return s.InFlight == 0 && s.Owed == 0 })
		r.check(t, f, losses)
		r.close(t)
	}
	waitFor(t, "goroutines to end", func() bool { return runtime.NumGoroutine() <= goroutines })
	waitFor(t, "connections to be closed", func() bool { return openFiles(t) <= files })
	const flat = 16 << 20
	if grown := heapInUse() - heap; grown > flat {
		t.Errorf("%d bytes more in use than before", grown)
	}
}

// pause lets load and fault meet: on real servers there is no virtual time.
func pause(d time.Duration) { <-time.After(d) }

// check holds what was counted against what the policy states.
func (r *rig) check(t *testing.T, f *fault, losses int64) {
	t.Helper()
	stats := r.store.Stats()
	spent, calls, known := r.spent(t), r.calls.Load(), r.known.Load()
	admitted, degraded := r.admitted.Load(), r.degraded.Load()
	t.Logf("%-6v %5d calls, %4d by the policy, longest %v; hot key %d admitted + %d by the policy; meter %d known, %d spent; %+v",
		r.policy, 2*calls, r.unasked.Load(), time.Duration(r.longest.Load()).Round(time.Millisecond), admitted, degraded, known, spent, stats)
	if n := r.odd.Load(); n > 0 {
		t.Errorf("%v: %d errors that the policy does not explain, such as %v", r.policy, n, r.lastOdd.Load())
	}
	if all, told := calls+r.asked.Load(), r.decided.Load()+r.unasked.Load(); all != told {
		t.Errorf("%v: %d calls, but %d decisions and refusals", r.policy, all, told)
	}
	if longest := time.Duration(r.longest.Load()); longest > tolerance*f.patience() {
		t.Errorf("%v: a call took %v, with a deadline of %v", r.policy, longest, f.patience())
	}
	if most := quota * (1 + losses); admitted > most {
		t.Errorf("%v: the store admitted %d, want at most %d", r.policy, admitted, most)
	}
	switch most, nodes := int64(0), 1; r.policy {
	case failure.Local:
		most, _ = failure.Bound(r.hot.Plan().Term(0).Limit, nodes, time.Hour)
		fallthrough
	case failure.Closed:
		if degraded > most {
			t.Errorf("%v: the policy admitted %d, want at most %d", r.policy, degraded, most)
		}
	case failure.Open: // whatever comes
	}
	if spent > calls {
		t.Errorf("%v: %d units spent by %d calls: something was charged twice", r.policy, spent, calls)
	}
	if losses == 0 && spent < known {
		t.Errorf("%v: %d units spent, though %d were told to be", r.policy, spent, known)
	}
	if n := stats.Errors + stats.Timeouts + stats.Skipped; f.calm && n > 0 {
		t.Errorf("%v: %d calls failed", r.policy, n)
	}
	if !f.calm && stats.Outages == 0 {
		t.Errorf("%v: no outage was noticed: the fault did not strike", r.policy)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

func heapInUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// tell runs a command on a server, over a connection that ends with it: what
// stays open after a fault is the store's.
func tell(t *testing.T, s *redistest.Server, words ...string) rueidis.RedisMessage {
	t.Helper()
	client, err := rueidis.NewClient(s.Option())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	m, err := client.Do(t.Context(), client.B().Arbitrary(words...).Build()).ToMessage()
	if err != nil {
		t.Fatalf("%s: %v", strings.Join(words, " "), err)
	}
	return m
}

// command is tell of a command that answers in text.
func command(t *testing.T, s *redistest.Server, words ...string) string {
	t.Helper()
	m := tell(t, s, words...)
	text, err := m.ToString()
	if err != nil {
		t.Fatalf("%s: %v", strings.Join(words, " "), err)
	}
	return text
}

// ordered starts one server and strikes and heals it by commands.
func ordered(strike, heal []string) func(*testing.T) (string, func(), func()) {
	return func(t *testing.T) (string, func(), func()) {
		s := redistest.Start(t, redistest.Redis(t))
		return "redis://" + s.Addr, func() { command(t, s, strike...) }, func() {
			if heal != nil {
				command(t, s, heal...)
			}
		}
	}
}

// signalled starts one server and sends it signals.
func signalled(t *testing.T) (string, func(), func()) {
	s := redistest.Start(t, redistest.Redis(t))
	send := func(sig syscall.Signal) func() {
		return func() {
			if err := s.Process().Signal(sig); err != nil {
				t.Fatal(err)
			}
		}
	}
	return "redis://" + s.Addr, send(syscall.SIGSTOP), send(syscall.SIGCONT)
}

// killed starts one server, kills it, and starts it again with empty memory.
func killed(t *testing.T) (string, func(), func()) {
	s := redistest.Start(t, redistest.Redis(t))
	return "redis://" + s.Addr, func() { s.Kill(t) }, func() { s.Run(t) }
}

// loading starts one server that, when it is killed, loads what it had saved,
// for about a second in which it answers that it is loading.
func loading(t *testing.T) (string, func(), func()) {
	s := redistest.Start(t, redistest.Redis(t), "--enable-debug-command", "yes", "--dbfilename", "dump.rdb",
		"--key-load-delay", "500", "--loading-process-events-interval-bytes", "1024")
	return "redis://" + s.Addr, func() {
		command(t, s, "DEBUG", "POPULATE", "3000", "filler", "100")
		command(t, s, "SAVE")
		s.Kill(t)
		s.Run(t) // returns when it is loaded
	}, func() {}
}

// proxied starts one server behind a proxy that changes its manner.
func proxied(m manner) func(*testing.T) (string, func(), func()) {
	return func(t *testing.T) (string, func(), func()) {
		p := startProxy(t, redistest.Start(t, redistest.Redis(t)).Addr)
		return "redis://" + p.addr, func() { p.set(m) }, func() { p.set(faithful) }
	}
}

var outages = []fault{
	{name: "SIGKILL and restart with empty memory", losses: 1, setUp: killed},
	{name: "SIGSTOP and SIGCONT", setUp: signalled},
	{name: "NOSCRIPT", calm: true, setUp: ordered([]string{"SCRIPT", "FLUSH"}, nil)},
	{name: "OOM", setUp: ordered([]string{"CONFIG", "SET", "maxmemory", "1"}, []string{"CONFIG", "SET", "maxmemory", "0"})},
	{name: "READONLY", setUp: ordered([]string{"REPLICAOF", "127.0.0.1", "1"}, []string{"REPLICAOF", "NO", "ONE"})},
	{name: "LOADING", losses: 1, setUp: loading},
	{name: "network delays", setUp: proxied(delaying)},
	{name: "network trickles", setUp: proxied(trickling)},
	{name: "network swallows", setUp: proxied(swallowing)},
	{name: "network cuts", setUp: proxied(cutting)},
}

var failovers = []fault{
	{name: "Sentinel failover", losses: 1, setUp: sentinelFailover},
	{name: "Cluster failover", losses: 1, setUp: clusterFailover},
	{name: "Cluster moves a slot", calm: true, setUp: slotMoves},
}

// sentinelFailover kills the master; what returns is its replica.
func sentinelFailover(t *testing.T) (string, func(), func()) {
	if times(t) > 1 {
		t.Skip("the killed master is not restarted: this fault strikes once")
	}
	s := redistest.StartSentinel(t, redistest.Redis(t))
	var addresses []string
	for _, n := range s.Sentinels {
		addresses = append(addresses, n.Addr)
	}
	url := fmt.Sprintf("redis-sentinel://%s/%s", strings.Join(addresses, ","), redistest.MasterSet)
	return url, func() { s.Master.Kill(t) }, func() { waitMaster(t, s.Replica) }
}

func waitMaster(t *testing.T, s *redistest.Server) {
	t.Helper()
	waitFor(t, "a replica to be master", func() bool {
		return strings.Contains(command(t, s, "INFO", "replication"), "role:master")
	})
}

// clusterFailover kills the master that holds most of the load; what returns is
// its replica.
func clusterFailover(t *testing.T) (string, func(), func()) {
	if times(t) > 1 {
		t.Skip("the killed master is not restarted: this fault strikes once")
	}
	c := redistest.StartCluster(t, redistest.Redis(t), 3, true)
	replica := c.Replicas[0]
	return clusterURL(c), func() { c.Masters[0].Kill(t) }, func() {
		waitMaster(t, replica)
		waitFor(t, "the Cluster to be whole", func() bool {
			return strings.Contains(command(t, replica, "CLUSTER", "INFO"), "cluster_state:ok")
		})
	}
}

func clusterURL(c *redistest.Cluster) string {
	var addresses []string
	for _, s := range append(c.Masters, c.Replicas...) {
		addresses = append(addresses, s.Addr)
	}
	return "redis-cluster://" + strings.Join(addresses, ",")
}
