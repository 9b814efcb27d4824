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
	perSecond float64       // requests
	cpu       time.Duration // of the server, per request
	wrong     int           // answers that are not of the class 2xx
	requests  int
}

const (
	connections = 64
	warmUp      = time.Second
)

var (
	wrkRequests = regexp.MustCompile(`(\d+) requests in`)
	wrkRate     = regexp.MustCompile(`Requests/sec:\s+([\d.]+)`)
	wrkWrong    = regexp.MustCompile(`Non-2xx or 3xx responses: (\d+)`)
	wrkErrors   = regexp.MustCompile(`Socket errors: .*`)
)

// saturate presses a server with wrk.
func saturate(ctx context.Context, p *process, length time.Duration) (s saturation, err error) {
	if _, err = wrk(ctx, p.address, warmUp); err != nil {
		return s, err
	}
	before, err := p.cpu()
	if err != nil {
		return s, err
	}
	out, err := wrk(ctx, p.address, length)
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
	if s.perSecond, err = strconv.ParseFloat(rate[1], 64); err != nil {
		return s, err
	}
	if wrkWrong.MatchString(out) {
		if s.wrong, err = number(wrkWrong, out); err != nil {
			return s, err
		}
	}
	s.cpu = (after - before) / time.Duration(s.requests)
	return s, nil
}

func wrk(ctx context.Context, address string, length time.Duration) (string, error) {
	seconds := max(int(length.Seconds()), 1)
	cmd := exec.CommandContext(ctx, "wrk", "-t2", "-c"+strconv.Itoa(connections), "-d"+strconv.Itoa(seconds)+"s", "http://"+address+"/")
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
