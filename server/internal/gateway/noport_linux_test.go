// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package gateway_test

import (
	"net"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"github.com/sluicegate/sluice/server/internal/gateway"
)

// TestNoPorts: connections for which the system has no local port left are counted as such, on
// a network with two ports.
func TestNoPorts(t *testing.T) {
	type result struct {
		stats gateway.ConnectionStats
		why   string // why the test could not run
		err   error
	}
	done := make(chan result)
	go func() {
		runtime.LockOSThread() // and not unlocked: no other goroutine gets the thread and its network
		stats, why, err := withoutPorts(t)
		done <- result{stats, why, err}
	}()
	got := <-done
	switch {
	case got.why != "":
		t.Skipf("%s: %v", got.why, got.err)
	case got.err != nil:
		t.Fatal(got.err)
	case got.stats != gateway.ConnectionStats{Open: 2, NoPort: 1}:
		t.Errorf("got %+v, want 2 open and one without a port", got.stats)
	}
}

// withoutPorts opens three connections where there are ports for two.
func withoutPorts(t *testing.T) (stats gateway.ConnectionStats, why string, err error) {
	if err := syscall.Unshare(syscall.CLONE_NEWNET); err != nil {
		return stats, "a network of its own is needed", err
	}
	if out, err := exec.CommandContext(t.Context(), "ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		return stats, string(out), err
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_local_port_range", []byte("40000 40001"), 0); err != nil {
		return stats, "a range of ports is needed", err
	}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:50000")
	if err != nil {
		return stats, "", err
	}
	defer l.Close() //nolint:errcheck // the test is over
	c := gateway.NewConnections(10, nil)
	for range 3 {
		conn, err := c.Dial(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			continue // counted
		}
		defer conn.Close() //nolint:errcheck // the test is over
	}
	return c.Stats(), "", nil
}
