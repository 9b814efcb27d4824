// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"time"
)

// saturation is what a server does when both cores are full.
type saturation struct {
	cpu      time.Duration // of the server
	length   time.Duration
	wrong    int // answers that are not of the class 2xx
	requests int
}

func (s *saturation) add(o saturation) {
	s.cpu, s.length, s.wrong, s.requests = s.cpu+o.cpu, s.length+o.length, s.wrong+o.wrong, s.requests+o.requests
}

// perRequest returns the CPU time of the server.
func (s *saturation) perRequest() time.Duration { return s.cpu / time.Duration(s.requests) }

func (s *saturation) perSecond() float64 { return float64(s.requests) / s.length.Seconds() }

const connections = 64

// turn is how long wrk presses a server before the next is pressed, the least that it
// takes: what a shared machine does changes within seconds.
const turn = time.Second

var (
	wrkRequests = regexp.MustCompile(`(\d+) requests in`)
	wrkRate     = regexp.MustCompile(`Requests/sec:\s+([\d.]+)`)
	wrkWrong    = regexp.MustCompile(`Non-2xx or 3xx responses: (\d+)`)
	wrkErrors   = regexp.MustCompile(`Socket errors: .*`)
)

// saturate presses a server with wrk for a turn.
func saturate(ctx context.Context, p *process) (s saturation, err error) {
	before, err := p.cpu()
	if err != nil {
		return s, err
	}
	out, err := wrk(ctx, p.address)
	if err != nil {
		return s, err
	}
	after, err := p.cpu()
	if err != nil {
		return s, err
	}
	if s.requests, err = number(wrkRequests, out); err != nil {
		return s, err
	}
	rate := wrkRate.FindStringSubmatch(out)
	if rate == nil || s.requests == 0 {
		return s, fmt.Errorf("wrk: no rate in:\n%s", out)
	}
	perSecond, err := strconv.ParseFloat(rate[1], 64)
	if err != nil {
		return s, err
	}
	if wrkWrong.MatchString(out) {
		if s.wrong, err = number(wrkWrong, out); err != nil {
			return s, err
		}
	}
	s.cpu, s.length = after-before, time.Duration(float64(s.requests)/perSecond*float64(time.Second))
	return s, nil
}

func wrk(ctx context.Context, address string) (string, error) {
	cmd := exec.CommandContext(ctx, "wrk", "-t2", "-c"+strconv.Itoa(connections), "-d"+strconv.Itoa(int(turn.Seconds()))+"s", "http://"+address+"/")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("wrk: %w\n%s", err, out)
	}
	if failed := wrkErrors.Find(out); failed != nil {
		return "", errors.New("wrk: " + string(failed))
	}
	return string(out), nil
}

func number(re *regexp.Regexp, text string) (int, error) {
	m := re.FindStringSubmatch(text)
	if m == nil {
		return 0, fmt.Errorf("wrk: no %v in:\n%s", re, text)
	}
	return strconv.Atoi(m[1])
}
