// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"os"
	"slices"
	"sync"
	"testing"
)

// Main runs the tests of a package and stops the servers that [Shared] has started.
// TestMain calls it.
func Main(m *testing.M) {
	code := m.Run()
	for _, end := range slices.Backward(shared.ends) {
		end()
	}
	os.Exit(code)
}

// shared holds the servers that live longer than a test.
var shared struct {
	servers  map[Binary]*Server
	clusters map[Binary]*Cluster
	ends     []func()
	mu       sync.Mutex // guards admins, as tests of other servers may run at the same time
	admins   map[*Server]*Client
}

func init() {
	shared.servers, shared.clusters, shared.admins = make(map[Binary]*Server), make(map[Binary]*Cluster), make(map[*Server]*Client)
}

// Shared returns the server that the tests of this process share, without keys, scripts and
// statistics. A test that stops or configures a server, or that runs in parallel, must start
// its own. The package needs a TestMain: see [Main].
func Shared(t testing.TB, b Binary) *Server {
	t.Helper()
	s := shared.servers[b]
	if s == nil {
		s = Start(lasting{t}, b)
		shared.servers[b] = s
	}
	s.reset(t)
	return s
}

// SharedCluster is [Shared] of three masters.
func SharedCluster(t testing.TB, b Binary) *Cluster {
	t.Helper()
	c := shared.clusters[b]
	if c == nil {
		c = StartCluster(lasting{t}, b, 3, false)
		shared.clusters[b] = c
	}
	for _, s := range c.Masters {
		s.reset(t)
	}
	return c
}

// reset deletes the data of earlier tests.
func (s *Server) reset(t testing.TB) {
	t.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	admin := shared.admins[s]
	if admin == nil {
		admin = s.Connect(lasting{t})
		shared.admins[s] = admin
	}
	for _, command := range [][]string{{"CLIENT", "UNPAUSE"}, {"FLUSHALL"}, {"SCRIPT", "FLUSH"}, {"CONFIG", "RESETSTAT"}} {
		Do(t, admin, command...)
	}
}

// lasting is a test that starts a server which lives longer.
type lasting struct{ testing.TB }

func (lasting) Cleanup(f func()) { shared.ends = append(shared.ends, f) }

func (l lasting) TempDir() string {
	l.Helper()
	dir, err := os.MkdirTemp("", "redistest")
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
