// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// soakRules are several rules, each of whose keys is in one request only, and
// some that evaluate without denying.
const soakRules = `listen: %s
admin: %s
upstream: http://%s
client_ip: {trusted: 127.0.0.0/8}
rules:
  - {name: client, by: ip, limits: [10/s burst 20, 1000/h]}
  - {name: user, by: header.X-User, limits: 100/min sliding-log, candidates: {tighter: 50/min sliding-counter}}
  - {name: both, by: [header.X-User, ip], limits: 1000/day calendar UTC}
  - {name: trial, by: query.q, mode: shadow, limits: 1/day}
  - {name: spent, match: {query: {denied: "1"}}, by: header.X-Group, limits: 1/day}
`

// sampled is how often the memory is looked at.
const sampled = 5 * time.Second

// soak sends requests whose keys are new each time, for a long time, and looks
// at the memory.
func (m *measurer) soak(ctx context.Context) error {
	address, err := freeAddress(ctx)
	if err != nil {
		return err
	}
	admin, err := freeAddress(ctx)
	if err != nil {
		return err
	}
	name := filepath.Join(m.house.dir, "soak.yaml")
	if err := replaceFile(name, fmt.Sprintf(soakRules, address, admin, m.house.upstream)); err != nil {
		return err
	}
	p, err := start(ctx, address, m.house.sluice, "serve", "--config", name)
	if err != nil {
		return err
	}
	if err := m.raw.Round(1); err != nil {
		return errors.Join(err, p.stop())
	}
	// The groups repeat after a while, so that some requests are denied and the
	// list of keys denied most is full and changes.
	paced := pace(ctx, address, "/", 8, m.rate, func(i int) []byte {
		return fmt.Appendf(nil, "GET /?q=%d&denied=%d HTTP/1.1\r\nHost: %s\r\nX-Forwarded-For: %d.%d.%d.%d\r\nX-User: user%d\r\nX-Group: %d\r\n\r\n",
			i, i%2, address, 11+i>>24, i>>16&255, i>>8&255, i&255, i, i%100_003)
	})
	samples, err := m.watch(ctx, p, admin)
	sent, stopErr := paced.stop()
	if err := errors.Join(err, stopErr, p.stop()); err != nil {
		return err
	}
	requests := 0
	for _, t := range sent {
		requests += int(t.took) + 1
	}
	return m.flat(samples, requests)
}

// memory is what a process has at a moment.
type memory struct {
	at                              time.Duration
	rss, heap, states, goroutines   float64
	evicted, collections, cpuSecond float64
}

// watch looks at the memory until the soak is over.
func (m *measurer) watch(ctx context.Context, p *process, admin string) ([]memory, error) {
	began := time.Now()
	var samples []memory
	ticker := time.NewTicker(sampled)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-p.done:
			return nil, fmt.Errorf("sluice ended; it said:\n%s", p.said)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		s, err := look(ctx, p, admin)
		if err != nil {
			return nil, err
		}
		s.at = time.Since(began)
		samples = append(samples, s)
		err = m.raw.Note(fmt.Sprintf("# %4.0f s: RSS %.1f MB, heap %.1f MB, %.0f states, %.0f evicted, %.0f goroutines, %.0f collections, %.1f s CPU\n",
			s.at.Seconds(), s.rss, s.heap, s.states, s.evicted, s.goroutines, s.collections, s.cpuSecond))
		if err != nil {
			return nil, err
		}
		if s.at >= m.options.soak {
			return samples, nil
		}
	}
}

const mega = 1 << 20

func look(ctx context.Context, p *process, admin string) (s memory, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+admin+"/metrics", nil)
	if err != nil {
		return s, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return s, err
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, 16*mega))
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return s, err
	}
	wanted := map[string]*float64{
		"process_resident_memory_bytes": &s.rss, "go_memstats_heap_inuse_bytes": &s.heap, "sluice_keys": &s.states,
		"sluice_evictions_total": &s.evicted, "go_goroutines": &s.goroutines, "go_gc_duration_seconds_count": &s.collections,
		"process_cpu_seconds_total": &s.cpuSecond,
	}
	lines := bufio.NewScanner(strings.NewReader(string(text)))
	for lines.Scan() {
		name, value, ok := strings.Cut(lines.Text(), " ")
		name = strings.TrimSuffix(name, `{store="memory"}`) // which programs of before do not have
		if at := wanted[name]; ok && at != nil {
			if *at, err = strconv.ParseFloat(value, 64); err != nil {
				return s, err
			}
			delete(wanted, name)
		}
	}
	if len(wanted) > 0 {
		return s, fmt.Errorf("%d of the series are not on the page of metrics", len(wanted))
	}
	// What the kernel says now, not at the time of the scrape's beginning.
	if s.rss, err = residentMemory(p.cmd.Process.Pid); err != nil {
		return s, err
	}
	s.heap /= mega
	return s, lines.Err()
}

// residentMemory returns a process's, in MB.
func residentMemory(pid int) (float64, error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "statm"))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0, fmt.Errorf("statm: %q", text)
	}
	pages, err := strconv.ParseFloat(fields[1], 64)
	return pages * float64(os.Getpagesize()) / mega, err
}

// flat compares the memory at the end with that when the table was full: when
// the store had begun to forget, and a minute later, as the heap breathes
// between two collections. Each is the mean of a minute.
func (m *measurer) flat(samples []memory, requests int) error {
	full := 0
	for full < len(samples) && samples[full].evicted == 0 {
		full++
	}
	minute := int(time.Minute / sampled)
	full += minute
	if full+2*minute > len(samples) {
		return fmt.Errorf("the table was full too late, after %d of %d looks: give a higher -rate or a longer -soak", full, len(samples))
	}
	mean := func(of []memory, what func(memory) float64) float64 {
		sum := 0.0
		for _, s := range of {
			sum += what(s)
		}
		return sum / float64(len(of))
	}
	rss, heap := func(s memory) float64 { return s.rss }, func(s memory) float64 { return s.heap }
	atFull, atEnd := samples[full:full+minute], samples[len(samples)-minute:]
	most := 0.0
	for _, s := range samples[full:] {
		most = max(most, s.rss)
	}
	return m.keep(1, "Soak", "sluice.config", requests,
		float64(requests), "requests", mean(atFull, rss), "rss-full-MB", mean(atEnd, rss), "rss-end-MB", most, "rss-max-MB",
		mean(atFull, heap), "heap-full-MB", mean(atEnd, heap), "heap-end-MB",
		mean(atEnd, rss)/mean(atFull, rss), "rss-end/full", mean(atEnd, heap)/mean(atFull, heap), "heap-end/full")
}
