// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// process is a program that was started, with what it has written.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{}

	mu  sync.Mutex
	out bytes.Buffer
}

// Write keeps what the program writes.
func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(b)
}

func (p *process) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

// startProcess starts a program and waits until it accepts connections at
// address.
func startProcess(ctx context.Context, address, dir, path string, args ...string) (*process, error) {
	p := &process{cmd: exec.Command(path, args...), ended: make(chan struct{})} //nolint:gosec,noctx // programs of the caller, which end them
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, p, p
	p.cmd.WaitDelay = 5 * time.Second // for children that hold on to its output
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // how it ended says ProcessState
	}()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", address)
		if err == nil {
			return p, conn.Close()
		}
		select {
		case <-tick.C:
		case <-p.ended:
			return nil, fmt.Errorf("%s ended at once: %s", path, p.output())
		case <-ctx.Done():
			p.kill()
			return nil, fmt.Errorf("%s does not listen at %s: %w\n%s", path, address, err, p.output())
		}
	}
}

// kill ends the program at once and waits for its end.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // an error means that it has ended
	<-p.ended
}

// end asks the program to end, as one must that has children, and waits for it.
func (p *process) end() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // an error means that it has ended
	<-p.ended
}

// freeAddress returns an address of this machine at which nobody listens. Its UDP port stays
// taken, so that no other process that chooses in this way gets the address before the server
// listens there.
func freeAddress(ctx context.Context) (address string, err error) {
	const first, end = 10_000, 32_000 // below those that systems give to clients
	var lc net.ListenConfig
	for range 100 {
		address = net.JoinHostPort("127.0.0.1", strconv.Itoa(first+rand.IntN(end-first))) //nolint:gosec // any port will do
		var claim net.PacketConn
		if claim, err = lc.ListenPacket(ctx, "udp", address); err != nil {
			continue
		}
		var l net.Listener
		if l, err = lc.Listen(ctx, "tcp", address); err == nil {
			claims = append(claims, claim)
			return address, l.Close()
		}
		_ = claim.Close() // the port is another's
	}
	return "", err
}

// claims are the UDP ports of the addresses that freeAddress has returned.
var claims []net.PacketConn

// startRedis starts a Redis server and returns its URL.
func startRedis(ctx context.Context, dir string) (*process, string, error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, "", errors.New("redis-server is missing; install it with: apt-get install redis-server")
	}
	address, err := freeAddress(ctx)
	if err != nil {
		return nil, "", err
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, "", err
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return nil, "", err
	}
	p, err := startProcess(ctx, address, dir, path, "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", dir)
	return p, "redis://" + address + "?timeout=1s", err // patient: the load is on the same machine
}
