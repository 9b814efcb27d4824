// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"syscall"
	"time"
)

// saturation is what a server does when both cores are full.
type saturation struct {
	perSecond float64       // requests
	cpu       time.Duration // of the server, per request
	wrong     int           // answers that are not of the class 2xx
	requests  int
}

const connections = 64

var (
	wrkRequests = regexp.MustCompile(`(\d+) requests in`)
	wrkWrong    = regexp.MustCompile(`Non-2xx or 3xx responses: (\d+)`)
	wrkErrors   = regexp.MustCompile(`Socket errors: .*`)
)

// saturate presses each server with a wrk of its own for the length in all, in slices as
// inTurns has them. Between its turns a wrk is stopped, and its connections stay.
func saturate(ctx context.Context, servers []*process, length time.Duration) (all []saturation, err error) {
	loads := make([]*wrk, len(servers))
	defer func() {
		for _, w := range loads {
			if w != nil {
				err = errors.Join(err, w.kill())
			}
		}
	}()
	before := make([]time.Duration, len(servers))
	for i, p := range servers {
		if before[i], err = p.cpu(); err != nil {
			return nil, err
		}
		if loads[i], err = startWrk(ctx, p); err != nil {
			return nil, err
		}
	}
	for turn := range int(length / slice) {
		for k := range loads {
			if err := loads[(turn+k)%len(loads)].press(ctx, slice); err != nil {
				return nil, err
			}
		}
	}
	for i, p := range servers {
		s, err := loads[i].end()
		if err != nil {
			return nil, err
		}
		after, err := p.cpu()
		if err != nil {
			return nil, err
		}
		s.cpu = (after - before[i]) / time.Duration(s.requests)
		all = append(all, s)
	}
	return all, nil
}

// wrk is a wrk that presses one server. It is stopped except for its turns.
type wrk struct {
	cmd     *exec.Cmd
	out     bytes.Buffer
	pressed time.Duration
	ended   bool
}

// wrkTimeout is longer than a wrk waits for its turn with requests that were sent. It
// keeps a counter for each µs of it.
const wrkTimeout = "30s"

func startWrk(ctx context.Context, p *process) (*wrk, error) {
	args := []string{"-t2", "-c" + strconv.Itoa(connections), "-d1h", "--timeout", wrkTimeout, "http://" + p.address + "/"}
	if p.script != "" {
		args = append([]string{"-s", p.script}, args...)
	}
	w := &wrk{cmd: exec.CommandContext(ctx, "wrk", args...)}
	w.cmd.Stdout, w.cmd.Stderr = &w.out, &w.out
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := w.cmd.Start(); err != nil {
		return nil, err
	}
	return w, w.cmd.Process.Signal(syscall.SIGSTOP)
}

// press has it send requests for so long.
func (w *wrk) press(ctx context.Context, length time.Duration) error {
	began := time.Now()
	if err := w.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		return err
	}
	select {
	case <-time.After(length):
	case <-ctx.Done():
		return ctx.Err()
	}
	w.pressed += time.Since(began)
	return w.cmd.Process.Signal(syscall.SIGSTOP)
}

// end ends it and returns what it counted, but for the CPU time.
func (w *wrk) end() (s saturation, err error) {
	err = w.interrupt()
	out := w.out.String()
	if err != nil {
		return s, fmt.Errorf("wrk: %w\n%s", err, out)
	}
	if failed := wrkErrors.FindString(out); failed != "" {
		return s, errors.New("wrk: " + failed)
	}
	if s.requests, err = number(wrkRequests, out); err != nil {
		return s, err
	}
	if s.requests == 0 {
		return s, errors.New("wrk: no request was answered in:\n" + out)
	}
	s.perSecond = float64(s.requests) / w.pressed.Seconds()
	if wrkWrong.MatchString(out) {
		s.wrong, err = number(wrkWrong, out)
	}
	return s, err
}

// interrupt has it end. Only its first thread does so, and the signal may reach another.
func (w *wrk) interrupt() error {
	w.ended = true
	ended := make(chan error, 1)
	err := w.cmd.Process.Signal(syscall.SIGCONT)
	go func() { ended <- w.cmd.Wait() }()
	for range 50 {
		// An error says that it has ended, which Wait tells.
		_ = w.cmd.Process.Signal(syscall.SIGINT)
		select {
		case done := <-ended:
			return errors.Join(err, done)
		case <-time.After(100 * time.Millisecond):
		}
	}
	return errors.Join(err, errors.New("it goes on after it was interrupted"), w.cmd.Process.Kill(), <-ended)
}

// kill ends it where end did not.
func (w *wrk) kill() error {
	if w.ended {
		return nil
	}
	err := w.cmd.Process.Kill()
	_ = w.cmd.Wait() // it is killed, which is an error
	return err
}

func number(re *regexp.Regexp, text string) (int, error) {
	m := re.FindStringSubmatch(text)
	if m == nil {
		return 0, fmt.Errorf("wrk: no %v in:\n%s", re, text)
	}
	return strconv.Atoi(m[1])
}
