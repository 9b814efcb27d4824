// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redistest

import "testing"

// Address is an address of the first of two servers, like a name or a TCP proxy. It can be
// switched to the second server while its open connections stay.
type Address struct {
	*Proxy
	Old, New *Server
}

// StartAddress starts two servers, and an address of the first. They end with the test.
func StartAddress(t testing.TB) *Address {
	t.Helper()
	b := Redis(t)
	a := &Address{
		Old: Start(t, b, "--enable-debug-command", "yes", "--dbfilename", "dump.rdb",
			"--key-load-delay", "2500", "--loading-process-events-interval-bytes", "1024"),
		New: Start(t, b),
	}
	a.Proxy = StartProxy(t, a.Old.Addr)
	return a
}

// URL returns the URL of the address, with [Patient].
func (a *Address) URL() string { return "redis://" + a.Addr + Patient }

// Demote makes the old server refuse writes: it answers with READONLY, MASTERDOWN,
// NOREPLICAS or LOADING. The last breaks its connections, and lasts for minutes.
func (a *Address) Demote(t testing.TB, word string) {
	t.Helper()
	switch word {
	case "MASTERDOWN":
		a.Old.Do(t, "CONFIG", "SET", "replica-serve-stale-data", "no")
		fallthrough
	case "READONLY":
		a.Old.Do(t, "REPLICAOF", "127.0.0.1", "1")
	case "NOREPLICAS":
		a.Old.Do(t, "CONFIG", "SET", "min-replicas-to-write", "1")
	case "LOADING":
		a.Old.Do(t, "DEBUG", "POPULATE", "50000", "filler", "100")
		a.Old.Do(t, "SAVE")
		a.Old.Kill(t)
		a.Old.Launch(t)
	default:
		t.Fatalf("no server answers with %q", word)
	}
}

// Lead directs new connections to the new server.
func (a *Address) Lead() { a.Point(a.New.Addr) }
