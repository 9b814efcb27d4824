// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	lineRequests = 100_000
	lineClients  = 16
	lineTimeout  = 20 * time.Second // for the last lines to be written
)

// lineRules deny some of the requests for each of linePaths, in different ways.
const lineRules = `
  - {name: all, by: query.u, missing: skip, limits: [50/s, 10000/h sliding-log]}
  - {name: dry, match: {path: /dry}, mode: shadow, limits: 10/s}
  - {name: needs, match: {path: /needs}, by: query.k, missing: refuse, limits: 20/s}
  - {name: tree, match: {path: /tree}, levels: [{name: one, limits: 5000/s}, {name: two, by: query.u, missing: skip, limits: 30/s}]}
`

var linePaths = []string{"/", "/?u=1", "/dry", "/needs", "/needs?k=1", "/tree?u=2", "/tree"}

// lines compares what the decision log says of many requests with the metrics.
func (m *measurer) lines(ctx context.Context) error {
	admin, err := freeAddress(ctx)
	if err != nil {
		return err
	}
	log := filepath.Join(m.house.dir, "lines.decisions")
	return m.rounds("Lines", func(round int) error {
		if err := os.RemoveAll(log); err != nil {
			return err
		}
		of := contender{"sluice.config", func(ctx context.Context, h *house, address string) (*process, error) {
			name, err := h.file(address+".yaml", fmt.Sprintf("listen: %s\nadmin: %s\nupstream: http://%s\ndecision_log: %s\nrules:%s", address, admin, h.upstream, log, lineRules))
			if err != nil {
				return nil, err
			}
			return start(ctx, address, h.sluice, "serve", "--config", name)
		}}
		return m.together(ctx, []contender{of}, func(running []*process) error {
			if err := sendLines(ctx, running[0].address); err != nil {
				return err
			}
			counts, err := settledMetrics(ctx, "http://"+admin+"/metrics")
			if err != nil {
				return err
			}
			differences, err := compareLines(log, counts)
			if err != nil {
				return err
			}
			written, dropped := counts[`sluice_decision_log_lines_total{result="written"}`], counts[`sluice_decision_log_lines_total{result="dropped"}`]
			return m.keep(round, "Lines", of.name, lineRequests, float64(lineRequests), "requests", written, "written", dropped, "dropped", float64(differences), "differences")
		})
	})
}

// sendLines sends requests for all paths, over a few connections.
func sendLines(ctx context.Context, address string) error {
	var mu sync.Mutex
	var faults []error
	var all sync.WaitGroup
	for n := range lineClients {
		all.Go(func() {
			err := sendSome(ctx, address, n)
			mu.Lock()
			defer mu.Unlock()
			faults = append(faults, err)
		})
	}
	all.Wait()
	return errors.Join(faults...)
}

func sendSome(ctx context.Context, address string, first int) (err error) {
	c, err := dial(ctx, address, "/")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.conn.Close()) }()
	for i := range lineRequests / lineClients {
		c.request = []byte("GET " + linePaths[(first+i)%len(linePaths)] + " HTTP/1.1\r\nHost: " + address + "\r\n\r\n")
		if _, err := c.do(); err != nil {
			return err
		}
	}
	return nil
}

// settledMetrics returns the series when a line of each request is written or dropped.
func settledMetrics(ctx context.Context, url string) (map[string]float64, error) {
	for end := time.Now().Add(lineTimeout); ; time.Sleep(100 * time.Millisecond) {
		counts, err := readMetrics(ctx, url)
		if err != nil {
			return nil, err
		}
		requests, lines := 0.0, 0.0
		for name, n := range counts {
			switch {
			case strings.HasPrefix(name, "sluice_requests_total{"):
				requests += n
			case strings.HasPrefix(name, "sluice_decision_log_lines_total{"):
				lines += n
			}
		}
		if requests == lines {
			return counts, nil
		}
		if time.Now().After(end) {
			return nil, fmt.Errorf("%v lines are written or dropped, of %v requests", lines, requests)
		}
	}
}

func readMetrics(ctx context.Context, url string) (counts map[string]float64, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	counts = make(map[string]float64)
	for s := bufio.NewScanner(resp.Body); s.Scan(); {
		name, value, ok := strings.Cut(s.Text(), "} ")
		if !ok || !strings.HasPrefix(name, "sluice_") {
			continue
		}
		if counts[name+"}"], err = strconv.ParseFloat(value, 64); err != nil {
			return nil, err
		}
	}
	return counts, nil
}

// compareLines returns how many of the counts differ that can be made of the lines.
func compareLines(log string, counts map[string]float64) (differences int, err error) {
	f, err := os.Open(log)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	lines := make(map[string]float64)
	for s := bufio.NewScanner(f); s.Scan(); {
		if err := countLine(s.Bytes(), lines); err != nil {
			return 0, err
		}
	}
	for name, n := range counts {
		if strings.HasPrefix(name, "sluice_requests_total{") || strings.HasPrefix(name, "sluice_rule_requests_total{") {
			if lines[name] != n {
				differences++
			}
			delete(lines, name)
		}
	}
	return differences + len(lines), nil
}

// countLine counts a request as the metrics do: a denial for the rule that binds, and
// else each rule that applied.
func countLine(line []byte, counts map[string]float64) error {
	var d struct {
		Verdict string
		Rules   []struct {
			Rule, Mode, Verdict string
			Binds               bool
		}
	}
	if err := json.Unmarshal(line, &d); err != nil {
		return fmt.Errorf("%.200q: %w", line, err)
	}
	counts[fmt.Sprintf("sluice_requests_total{verdict=%q}", d.Verdict)]++
	last := ""
	for _, r := range d.Rules {
		verdict := "allowed"
		switch {
		case r.Mode == "shadow" || r.Rule == last:
			continue
		case d.Verdict == "denied" || d.Verdict == "refused":
			if verdict = d.Verdict; !r.Binds && r.Verdict != "refused" {
				continue
			}
		}
		last = r.Rule
		counts[fmt.Sprintf("sluice_rule_requests_total{rule=%q,verdict=%q}", r.Rule, verdict)]++
	}
	return nil
}
