// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// attack is what a client does that wants more than its share, or harm.
type attack struct {
	name string
	do   func(ctx context.Context, a *assault)
}

// crowd is how many connections come at once: the gateway takes 9,950 where a
// process may have 20,000 file descriptors.
const crowd = 9000

var attacks = []attack{
	{"hang-ups.http1", hangUps},
	{"hang-ups.http2", sessions(16, resets)},
	{"new-keys", newKeys},
	{"held", held(crowd, 10, 66_000)},
	{"held.large-headers", held(crowd, 60_000, 0)},
	{"held.http2-large-headers", sessions(100, fields("/held"))},
	{"errors.http2", sessions(1000, faults)},
	{"idle", stayers(crowd, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 0, "")},
	{"silent", stayers(crowd, "", 0, "")},
	{"uploads", stayers(crowd, "POST /upload HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\nx", time.Second, strings.Repeat("b", 300))},
	{"headers", stayers(crowd, "GET / HTTP/1.1\r\nHost: x\r\nX-A: "+strings.Repeat("a", 60_000), 0, "")},
	{"headers.http2", sessions(crowd, unended)},
	{"bodies.http2", sessions(1000, partial)},
	{"unread", unread},
	{"handshakes", handshakes},
	{"reload", nil},
}

// attackRules are active under every attack. The other client is under the
// last of them alone.
const attackRules = `rules:
  - {name: slots, match: {path: /slow0}, by: header.X-Key, in_flight: 2}
  - {name: login, match: {path: /slow1}, by: header.X-Key, limits: 5/15min sliding-log, when: {response: [401, 403], charge: first}}
  - {name: successes, match: {path: /slow2}, by: header.X-Key, limits: 5/15min sliding-log, when: {response: [200]}}
  - {name: held, match: {path: /held}, by: ip, limits: 10/s leaky-bucket burst 20000, max_wait: 1h}
  - {name: keys, match: {path: /keys}, by: header.X-Key, limits: [1000000/day, 1000/h sliding-log, 2000/h sliding-histogram]}
  - {name: other, match: {path: /other}, by: ip, limits: 1000000/s}
`

// attacked is a gateway under attack, with the memory that the goal names.
type attacked struct {
	*process
	file, secure, text string
}

const memoryLimit = "200MiB"

func (h *house) startAttacked(ctx context.Context, upstream string) (a *attacked, err error) {
	a = &attacked{file: filepath.Join(h.dir, "attacked.yaml")}
	address, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	if a.secure, err = freeAddress(ctx); err != nil {
		return nil, err
	}
	cert, key, err := h.certificate()
	if err != nil {
		return nil, err
	}
	a.text = fmt.Sprintf("listen:\n  - %s\n  - {address: %q, tls: {cert: %s, key: %s}}\nadmin: \"off\"\nupstream: http://%s\n%s", address, a.secure, cert, key, upstream, attackRules)
	if err := replaceFile(a.file, a.text); err != nil {
		return nil, err
	}
	a.process, err = start(ctx, address, "env", "GOMEMLIMIT="+memoryLimit, h.sluice, "serve", "--config", a.file)
	return a, err
}

// attacks measures another client beside each attack.
func (m *measurer) attacks(ctx context.Context) error {
	return m.rounds("Attacks", func(round int) error {
		for _, k := range attacks {
			if m.options.attack != "" && !strings.Contains(k.name, m.options.attack) {
				continue
			}
			if err := m.attackRound(ctx, k, round); err != nil {
				return fmt.Errorf("%s: %w", k.name, err)
			}
		}
		return nil
	})
}

// attackRound measures another client of a gateway: alone, beside the attacker of
// another server that does nothing else, and beside the attacker of the gateway.
func (m *measurer) attackRound(ctx context.Context, k attack, round int) (err error) {
	var running []*process
	defer func() {
		for _, p := range running {
			err = errors.Join(err, p.stop())
		}
	}()
	upstream, err := m.house.startRole(ctx, "upstream")
	if err != nil {
		return err
	}
	running = append(running, upstream)
	empty, err := m.house.startRole(ctx, "empty")
	if err != nil {
		return err
	}
	running = append(running, empty)
	a, err := m.house.startAttacked(ctx, upstream.address)
	if err != nil {
		return err
	}
	running = append(running, a.process)
	alone := pacedOther(ctx, a.address, m.length, m.rate)
	var control others
	if k.do != nil {
		if control, _, err = m.beside(ctx, k, a.address, empty.address, empty.address); err != nil {
			return err
		}
	}
	before, err := a.cpu()
	if err != nil {
		return err
	}
	under, did, err := m.underAttack(ctx, k, a)
	if err != nil {
		return err
	}
	after, err := a.cpu()
	if err != nil {
		return err
	}
	peak, err := a.peak()
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(m.progress, "  %-26s %s\n", k.name, did.text); err != nil {
		return err
	}
	return m.keep(round, "Attacks", k.name, len(under.took),
		micro(quantile(alone.took, 0.5)), "p50-alone-µs", micro(quantile(alone.took, 0.99)), "p99-alone-µs",
		micro(quantile(control.took, 0.99)), "p99-control-µs",
		micro(quantile(under.took, 0.5)), "p50-under-µs", micro(quantile(under.took, 0.99)), "p99-under-µs",
		float64(quantile(under.took, 0.99))/float64(quantile(alone.took, 0.99)), "p99-under/alone",
		float64(under.failed), "not-served",
		float64(peak)/(1<<20), "rss-max-MiB",
		(after - before).Seconds(), "cpu-s", did.cpu.Seconds(), "attacker-cpu-s",
		float64(did.open), "connections", float64(did.sent), "requests")
}

func (m *measurer) underAttack(ctx context.Context, k attack, a *attacked) (others, deeds, error) {
	if k.do != nil {
		return m.beside(ctx, k, a.address, a.address, a.secure)
	}
	var failed error
	done := make(chan struct{})
	go func() { // the operator's own file
		defer close(done)
		for i := range 2 {
			if failed = writeNext(a.file, i, a.text+moreRules(20_000, i)); failed != nil {
				return
			}
			if _, failed = reloadOnce(a.process, a.file, i); failed != nil {
				return
			}
		}
	}()
	under := pacedOther(ctx, a.address, m.length, m.rate)
	<-done
	return under, deeds{}, failed
}

func moreRules(n, version int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "  - {name: more%d, match: {path: /more%d/}, by: ip, limits: %d/s}\n", i, i, 1000+version)
	}
	return b.String()
}

// deeds are what an attacker did.
type deeds struct {
	open, sent, refused int
	cpu                 time.Duration
	text                string
}

// beside measures another client while an attacker is at work, which gives way
// where a processor is scarce: the gateway's clients have machines of their own.
func (m *measurer) beside(ctx context.Context, k attack, other, target, secure string) (o others, d deeds, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := exec.CommandContext(ctx, "nice", "-n", "19", m.house.self, "-role", "attack:"+k.name, "-listen", target, "-upstream", secure)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = time.Minute
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Start(); err != nil {
		return o, d, err
	}
	o = pacedOther(ctx, other, m.length, m.rate)
	cancel()
	_ = cmd.Wait() // it was asked to end; what it says shows whether it did
	if _, err := fmt.Sscan(out.String(), &d.open, &d.sent, &d.refused); err != nil {
		return o, d, fmt.Errorf("the attacker said %q %q: %w", out.String(), said.String(), err)
	}
	d.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	d.text = strconv.Itoa(d.open) + " connections, " + strconv.Itoa(d.sent) + " requests, " + strconv.Itoa(d.refused) + " refused"
	return o, d, nil
}
