// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package nftables_test plays through how the kernel takes over from sluice, in
// network namespaces of its own: the machine's firewall is not touched.
package nftables_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/clientip"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/server/internal/gateway/tcp"
)

// role makes the test program another one, run within a namespace.
const role = "SLUICE_NFTABLES_ROLE"

// offenders is the script under test.
const offenders = "../../../examples/nftables/offenders.sh"

func TestMain(m *testing.M) {
	switch os.Getenv(role) {
	case "server":
		fail(server())
	case "client":
		within, err := time.ParseDuration(os.Args[3])
		if err != nil {
			fail(err)
		}
		_, _ = fmt.Fprintln(os.Stdout, client(os.Args[1], os.Args[2], within))
	default:
		os.Exit(m.Run())
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// server passes connections on to an echo, three for each client, and prints
// the key of a client when it was denied for the fifth time.
func server() error {
	up, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() {
		for {
			c, err := up.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(c, c) // until the client ends or resets it
				_ = c.Close()
			}()
		}
	}()
	plan, err := sluice.Compile("connections", sluice.MustParseLimit("3/day"))
	if err != nil {
		return err
	}
	clients, err := clientip.New(clientip.Options{})
	if err != nil {
		return err
	}
	var mu sync.Mutex
	denied := make(map[string]int)
	s, err := tcp.New(tcp.Options{
		Upstream: up.Addr().String(), Store: memstore.New(memstore.Options{}), Limits: tcp.Limits{Rate: plan, Key: clients.Group},
		Log: slog.New(slog.DiscardHandler),
		OnDecision: func(e tcp.Event) {
			mu.Lock()
			defer mu.Unlock()
			if e.Verdict != tcp.DeniedRate {
				return
			}
			if denied[e.Key]++; denied[e.Key] == 5 {
				_, _ = fmt.Fprintln(os.Stdout, "offender", e.Key)
			}
		},
	})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", ":8443")
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintln(os.Stdout, "ready")
	return s.Serve(l)
}

// client returns the outcome of a connection from an address: "passes", "reset",
// or "nothing" if no packet comes back within a time.
func client(from, to string, within time.Duration) string {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: within}
	c, err := d.Dial("tcp", to)
	if err == nil {
		defer func() { _ = c.Close() }() // its result is known
		if err = c.SetDeadline(time.Now().Add(testkit.Ceiling)); err != nil {
			return err.Error()
		}
		if _, err = c.Write([]byte("x")); err == nil {
			_, err = io.ReadFull(c, make([]byte, 1))
		}
	}
	var timeout net.Error
	switch {
	case err == nil:
		return "passes"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.EOF):
		return "reset"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "nothing"
	}
	return err.Error()
}

// world is two namespaces with a cable between them.
type world struct {
	t           *testing.T
	front, away string
}

func newWorld(t *testing.T) world {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to make network namespaces; run it with sudo")
	}
	for _, program := range []string{"ip", "nft", "bash"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs %s: %v; install the packages iproute2 and nftables", program, err)
		}
	}
	id := fmt.Sprint(os.Getpid())
	w := world{t, "sluice-f" + id, "sluice-a" + id}
	for i, name := range []string{w.front, w.away} {
		if out, err := exec.CommandContext(t.Context(), "ip", "netns", "add", name).CombinedOutput(); err != nil {
			if i > 0 {
				t.Fatalf("ip netns add: %v: %s", err, out)
			}
			t.Skipf("this machine does not allow network namespaces: %v: %s", err, out)
		}
		t.Cleanup(func() {
			if out, err := exec.Command("ip", "netns", "del", name).CombinedOutput(); err != nil {
				t.Errorf("ip netns del: %v: %s", err, out)
			}
		})
	}
	if out, err := w.in(w.front, "nft", "list", "tables").CombinedOutput(); err != nil {
		t.Skipf("this machine's kernel does not offer nftables: %v: %s", err, out)
	}
	w.must(exec.CommandContext(t.Context(), "ip", "link", "add", "cable", "netns", w.front, "type", "veth", "peer", "name", "cable", "netns", w.away))
	for _, line := range []struct{ ns, args string }{
		{w.front, "addr add 10.203.0.1/24 dev cable"},
		{w.front, "addr add fd00:203::1/48 dev cable nodad"},
		{w.away, "addr add 10.203.0.2/24 dev cable"},
		{w.away, "addr add 10.203.0.3/24 dev cable"},
		{w.away, "addr add fd00:203:0:2::1/48 dev cable nodad"},
		{w.away, "addr add fd00:203:0:2::2/48 dev cable nodad"},
		{w.away, "addr add fd00:203:0:3::1/48 dev cable nodad"},
		{w.front, "link set lo up"},
		{w.front, "link set cable up"},
		{w.away, "link set cable up"},
	} {
		w.must(w.in(line.ns, "ip", strings.Fields(line.args)...))
	}
	return w
}

// in returns a command within a namespace.
func (w world) in(ns, name string, args ...string) *exec.Cmd {
	return exec.CommandContext(w.t.Context(), "ip", append([]string{"netns", "exec", ns, name}, args...)...)
}

func (w world) must(cmd *exec.Cmd) string {
	w.t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.t.Fatalf("%v: %v: %s", cmd, err, out)
	}
	return strings.TrimSpace(string(out))
}

// script runs offenders.sh at the front.
func (w world) script(input string, args ...string) string {
	w.t.Helper()
	cmd := w.in(w.front, offenders, args...)
	cmd.Stdin = strings.NewReader(input)
	return w.must(cmd)
}

// try has a client connect, to which a packet is to come within a time.
func (w world) try(from, to string, within time.Duration) string {
	w.t.Helper()
	cmd := w.in(w.away, os.Args[0], from, to, within.String())
	cmd.Env = append(os.Environ(), role+"=client", "GORACE=atexit_sleep_ms=0")
	return w.must(cmd)
}

// TestOffendersAreBlocked: a client that goes on after being denied gets no answer any
// more, others do, and it ends when they are let back in.
func TestOffendersAreBlocked(t *testing.T) {
	w := newWorld(t)
	cmd := w.in(w.front, os.Args[0])
	cmd.Env = append(os.Environ(), role+"=server")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait() // it was killed
	})
	said := bufio.NewScanner(out)
	if !said.Scan() || said.Text() != "ready" {
		t.Fatalf("the server said %q, %v", said.Text(), said.Err())
	}
	w.script("", "setup", "8443")
	const blocked = 2 * time.Second // how long a client waits for nothing
	for _, c := range []struct{ name, offender, key, again, bystander, to string }{
		{"IPv4", "10.203.0.2", "10.203.0.2", "10.203.0.2", "10.203.0.3", "10.203.0.1:8443"},
		{"IPv6", "fd00:203:0:2::1", "fd00:203:0:2::/64", "fd00:203:0:2::2", "fd00:203:0:3::1", "[fd00:203::1]:8443"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := world{t, w.front, w.away}
			for i := range 8 { // three are allowed, five denied
				want := "passes"
				if i >= 3 {
					want = "reset"
				}
				if got := w.try(c.offender, c.to, testkit.Ceiling); got != want {
					t.Errorf("connection %d: %s; want %s", i+1, got, want)
				}
			}
			if !said.Scan() {
				t.Fatal("the server names no offender")
			}
			key, ok := strings.CutPrefix(said.Text(), "offender ")
			if !ok || key != c.key {
				t.Fatalf("the server said %q; want offender %s", said.Text(), c.key)
			}
			w.script(key+"\n", "block", "1h")
			w.script(key+"\n", "block", "1h") // again, from now
			if got := w.try(c.again, c.to, blocked); got != "nothing" {
				t.Errorf("the offender: %s; want nothing", got)
			}
			if got := w.try(c.bystander, c.to, testkit.Ceiling); got != "passes" {
				t.Errorf("the bystander: %s; want passes", got)
			}
			w.script(key+"\n", "unblock")
			if got := w.try(c.again, c.to, testkit.Ceiling); got != "reset" {
				t.Errorf("let back in: %s; want reset, by the limit again", got)
			}
			w.script(key+"\n", "block", "1s")
			for i := 0; w.try(c.again, c.to, blocked) != "reset"; i++ {
				if i == 20 {
					t.Fatal("a second's block does not end")
				}
			}
		})
	}
	w.script("", "remove")
}

// TestInput: what is no client is named and left out, and nothing of it is run.
func TestInput(t *testing.T) {
	w := newWorld(t)
	w.script("", "setup", "80", "443")
	const input = "192.0.2.1\n192.0.2.256\n2001:db8::1\n192.0.2.2 }; flush ruleset\n2001:db8::/64\n0.0.0.0/0\n192.0.2.3"
	cmd := w.in(w.front, offenders, "block", "10m")
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 || strings.Count(string(out), "left out") != 4 {
		t.Errorf("got %v: %s; want status 1 and four lines left out", err, out)
	}
	list := w.script("", "list")
	for _, want := range []string{"192.0.2.1 ", "192.0.2.3 ", "2001:db8:: ", "80, 443"} {
		if !strings.Contains(list, want) {
			t.Errorf("%q is not in the list:\n%s", want, list)
		}
	}
	if strings.Contains(list, "192.0.2.2 ") {
		t.Errorf("192.0.2.2 is in the list:\n%s", list)
	}
	for _, args := range [][]string{{}, {"setup"}, {"setup", "0"}, {"setup", "80;"}, {"block", "1 h"}, {"unknown"}} {
		cmd := w.in(w.front, offenders, args...)
		if exit, ok := errors.AsType[*exec.ExitError](cmd.Run()); !ok || exit.ExitCode() != 2 {
			t.Errorf("%q: got no status 2", args)
		}
	}
	if strings.TrimSpace(w.script("", "setup", "80")) != "" || strings.Contains(w.script("", "list"), "192.0.2.1") {
		t.Error("a new setup keeps the old table")
	}
}
