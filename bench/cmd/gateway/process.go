// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/sluicegate/sluice/bench/cputime"
	"github.com/sluicegate/sluice/bench/port"
)

// process is a server that was started to be measured.
type process struct {
	cmd     *exec.Cmd
	address string
	script  string        // of the requests that wrk sends; empty: GET /
	said    *lockedBuffer // what it wrote to both of its outputs
	done    chan struct{}
}

// start runs a program that is to listen at address, and waits until it does.
func start(ctx context.Context, address, name string, args ...string) (*process, error) {
	p, err := launch(ctx, address, name, args...)
	if err != nil {
		return nil, err
	}
	if err := p.ready(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w; it said:\n%s", name, err, p.said), p.stop())
	}
	return p, nil
}

// launch runs a program.
func launch(ctx context.Context, address, name string, args ...string) (*process, error) {
	p := &process{address: address, said: &lockedBuffer{}, done: make(chan struct{})}
	p.cmd = exec.CommandContext(ctx, name, args...)
	p.cmd.Stdout, p.cmd.Stderr = p.said, p.said
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // it is stopped by a signal, which is an error
	}()
	return p, nil
}

const readyTimeout = 20 * time.Second

// ready waits until the server answers HTTP.
func (p *process) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.address+"/", nil)
		if err != nil {
			return err
		}
		// Traefik answers 404 until it has read its routes.
		if resp, err := http.DefaultClient.Do(req); err == nil {
			if err := resp.Body.Close(); err != nil {
				return err
			}
			if resp.StatusCode != http.StatusNotFound {
				return nil
			}
		}
		select {
		case <-ticker.C:
		case <-p.done:
			return errors.New("ended at once")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// stop ends the process and those it has started.
func (p *process) stop() error {
	err := syscall.Kill(-p.cmd.Process.Pid, syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(5 * time.Second):
		err = errors.Join(err, syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL))
		<-p.done
	}
	if errors.Is(err, syscall.ESRCH) { // it has ended by itself
		return nil
	}
	return err
}

// cpu returns the CPU time of the process and its children, in steps of 10 ms.
func (p *process) cpu() (time.Duration, error) { return cputime.Of(p.cmd.Process.Pid) }

// freeAddress returns 127.0.0.1 with a free port.
func freeAddress(ctx context.Context) (string, error) {
	n, err := port.Free(ctx)
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(n)), err
}

// lockedBuffer is a buffer that may be read while a process writes to it.
type lockedBuffer struct {
	mu      sync.Mutex
	b       bytes.Buffer
	waiting string // what is waited for
	came    chan<- time.Time
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.came != nil && bytes.Contains(p, []byte(b.waiting)) {
		b.came <- time.Now()
		b.came = nil
	}
	return b.b.Write(p)
}

// await returns a channel that gets the moment at which text is written next.
func (b *lockedBuffer) await(text string) <-chan time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	came := make(chan time.Time, 1)
	b.waiting, b.came = text, came
	return came
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
