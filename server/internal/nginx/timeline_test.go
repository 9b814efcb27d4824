// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package nginx_test

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
)

// timelineConfig has limits that refill during the test. The access log has the instant of
// each answer, in seconds to the millisecond, and its duration; the error log has the excess
// of each delayed request.
const timelineConfig = `
daemon off;
master_process off;
error_log DIR/error.log warn;
pid DIR/pid;
events { worker_connections 1024; }
http {
	log_format instants "$arg_id $msec $request_time $status $uri";
	access_log DIR/access.log instants;
	client_body_temp_path DIR/a; proxy_temp_path DIR/b; fastcgi_temp_path DIR/c; uwsgi_temp_path DIR/d; scgi_temp_path DIR/e;
	root DIR/root;
	limit_req_zone $binary_remote_addr zone=a:1m rate=20r/s;
	limit_req_zone $binary_remote_addr zone=b:1m rate=20r/s;
	limit_req_zone $binary_remote_addr zone=c:1m rate=20r/s;
	limit_req_zone $binary_remote_addr zone=d:1m rate=600r/m;
	server {
		listen 127.0.0.1:PORT;
		location /key/ { limit_req zone=a burst=5 nodelay; }
		location = /pair { limit_req zone=b burst=4; }
		location /most/ { limit_req zone=c burst=6 delay=3; }
		location /dry/ { limit_req zone=d; }
	}
}
`

// answered is a line of nginx's log.
type answered struct {
	id     int       // of the request
	at     time.Time // arrival of the request, by the clock that nginx logs
	took   time.Duration
	status int
	path   string
	held   time.Duration // delay that nginx intended
}

// span holds the time of nginx's decision. nginx decides by another clock than it logs, which
// it reads a little later, and truncates both to a millisecond. On a busy machine the gap may
// be long, but it ends before the answer, less the intended delay, and before nginx logs
// another instant: nginx reads both clocks, then requests, then both again. The logged
// duration bounds nothing, as it is of the logged clock.
type span struct{ from, to time.Time }

// zone holds two conversions of a limit: low never holds more than nginx's zone, as it assumes
// the earliest arrival of each request, and high never less.
type zone struct {
	low, high       *sluice.Limiter
	lowNow, highNow time.Time

	allowed, denied, held int
}

func newZone(t *testing.T, l sluice.Limit) *zone {
	t.Helper()
	z := &zone{}
	l.Debt = 1000 // so that Charge counts all that nginx allowed
	for _, side := range []struct {
		lim **sluice.Limiter
		now *time.Time
	}{{&z.low, &z.lowNow}, {&z.high, &z.highNow}} {
		lim, err := sluice.New(memstore.New(memstore.Options{MaxKeys: 16, Now: func() time.Time { return *side.now }}), "zone", l)
		if err != nil {
			t.Fatal(err)
		}
		*side.lim = lim
	}
	return z
}

// check fails if the zone cannot decide as nginx did within the span.
func (z *zone) check(t *testing.T, l answered, s span) {
	t.Helper()
	decide := func(lim *sluice.Limiter, d func(context.Context, string, int64) (sluice.Decision, error)) sluice.Decision {
		t.Helper()
		got, err := d(t.Context(), "k", 1)
		if err != nil {
			t.Fatalf("%v: %v", lim, err)
		}
		return got
	}
	if l.status == http.StatusServiceUnavailable {
		z.denied++
		z.highNow = s.from
		if d := decide(z.high, z.high.Peek); d.Allowed {
			t.Fatalf("%+v: allowed at its earliest instant, nginx denies", l)
		}
		return
	}
	z.allowed++
	z.lowNow = s.to
	d := decide(z.low, z.low.Peek)
	if !d.Allowed {
		t.Fatalf("%+v: denied for %v at its latest instant, nginx allows", l, d.RetryAfter)
	}
	if d.Delay > l.held+time.Millisecond { // truncated, too
		t.Fatalf("%+v: delayed by at least %v, by nginx for %v", l, d.Delay, l.held)
	}
	if l.held > 0 && d.Delay > 0 {
		z.held++
	}
	z.lowNow, z.highNow = s.from, s.to
	decide(z.low, z.low.Charge)
	decide(z.high, z.high.Charge)
}

// TestRealNginxInTime sends nginx requests at random instants. The conversion of its
// configuration decides each as nginx did, at the same instant, and delays it no longer.
func TestRealNginxInTime(t *testing.T) {
	t.Parallel()
	base, text := startNginx(t, timelineConfig)
	yaml, notes, err := convertText("nginx.conf", text)
	if err != nil || len(notes) > 0 {
		t.Fatalf("error %v, notes %v", err, notes)
	}
	c, err := config.Parse("converted.yaml", yaml)
	if err != nil {
		t.Fatal(err)
	}
	zones := make(map[string]*zone)
	for _, r := range c.Policy.Rules() {
		zones[strings.TrimSuffix(r.Match.Paths[0], "/")] = newZone(t, r.Levels[0].Limits[0].Limit)
	}
	there := flood(t, base, []string{"/key/x?", "/pair?", "/most/x?", "/dry/x?"}, 40)
	checkLog(t, text, there, func(path string) *zone { return zones[strings.TrimSuffix(path, "/x")] })
	for path, z := range zones {
		if z.allowed < 5 || z.denied < 5 {
			t.Errorf("%s: %d allowed, %d denied; the timeline shows too little", path, z.allowed, z.denied)
		}
		if delays := path == "/pair" || path == "/most"; delays != (z.held > 5) {
			t.Errorf("%s: %d delayed", path, z.held)
		}
	}
}

// checkLog compares nginx's log with the zones of the paths.
func checkLog(t *testing.T, text string, there []time.Time, of func(path string) *zone) {
	t.Helper()
	log := regexp.MustCompile(`access_log (\S+) `).FindStringSubmatch(text)[1]
	var lines []answered
	testkit.Until(t, "nginx, which answers first, to log all requests", func() bool {
		lines = readLog(t, log)
		return len(lines) >= len(there)
	})
	if len(lines) > len(there) {
		t.Fatalf("nginx logged %d of %d requests", len(lines), len(there))
	}
	held := readHeld(t, text)
	next := 0 // first line of another instant
	for _, l := range lines {
		l.held = held[l.id]
		s := span{l.at.Add(-time.Millisecond), there[l.id].Add(time.Millisecond - l.held)}
		for next < len(lines) && !lines[next].at.After(l.at) {
			next++
		}
		if next < len(lines) {
			if end := lines[next].at.Add(time.Millisecond); end.Before(s.to) {
				s.to = end
			}
		}
		if s.to.Before(s.from) {
			t.Fatalf("%+v: the answer was there before it was sent, at %v", l, there[l.id])
		}
		z := of(l.path)
		if z == nil {
			t.Fatalf("no rule is about %s", l.path)
		}
		z.check(t, l, s)
	}
}

// flood sends requests for a while, at random instants from simultaneous to further apart than
// any limit, and returns when each was answered. Those to one path come many at once: more
// than a limit allows, however slow the machine is.
func flood(t *testing.T, base string, paths []string, bursts int) (there []time.Time) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	// With few worker_connections left, nginx closes connections whose request it has not read
	// yet.
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64, MaxConnsPerHost: 900}}
	defer client.CloseIdleConnections()
	const few, most = 4, 20 // one in few paths gets up to most requests
	there = make([]time.Time, bursts*most*len(paths))
	var wg sync.WaitGroup
	n := 0
	for range bursts {
		for _, path := range paths {
			if rng.IntN(few) > 0 {
				continue
			}
			for range 1 + rng.IntN(most) {
				id := n
				n++
				wg.Go(func() {
					resp, err := client.Get(fmt.Sprintf("%s%sid=%d", base, path, id))
					if err != nil {
						t.Error(err)
						return
					}
					if err := resp.Body.Close(); err != nil {
						t.Error(err)
					}
					there[id] = time.Now()
				})
			}
		}
		time.Sleep(time.Duration(rng.IntN(160)) * time.Millisecond)
	}
	wg.Wait()
	return there[:n]
}

// readLog returns nginx's log in the order of its decisions.
func readLog(t *testing.T, file string) (lines []answered) {
	t.Helper()
	f, err := os.Open(filepath.Clean(file))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}()
	for s := bufio.NewScanner(f); s.Scan(); {
		var end, took string
		var l answered
		if _, err := fmt.Sscan(s.Text(), &l.id, &end, &took, &l.status, &l.path); err != nil {
			t.Fatalf("log line %q: %v", s.Text(), err)
		}
		l.took = millis(t, took)
		l.at = time.UnixMilli(0).Add(millis(t, end) - l.took)
		lines = append(lines, l)
	}
	// Among requests in one millisecond those that passed come first.
	slices.SortStableFunc(lines, func(a, b answered) int {
		return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.status, b.status), cmp.Compare(a.took, b.took))
	})
	return lines
}

// delaying matches nginx's log line about a delayed request, with the excess in units.
var delaying = regexp.MustCompile(`delaying request, excess: (\S+), by zone "(.)".*[?&]id=(\d+)`)

// readHeld returns how long nginx delays requests, from its log and the configuration.
func readHeld(t *testing.T, text string) map[int]time.Duration {
	t.Helper()
	errors, err := os.ReadFile(regexp.MustCompile(`error_log (\S+) `).FindStringSubmatch(text)[1])
	if err != nil {
		t.Fatal(err)
	}
	number := func(s string) int {
		n, err := strconv.Atoi(cmp.Or(s, "0"))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	rate, free := make(map[string]int), make(map[string]int) // of each zone, a second; units that are not delayed
	for _, m := range regexp.MustCompile(`zone=(.):1m rate=(\d+)r/s`).FindAllStringSubmatch(text, -1) {
		rate[m[1]] = number(m[2])
	}
	for _, m := range regexp.MustCompile(`limit_req zone=(.)[^;]* delay=(\d+);`).FindAllStringSubmatch(text, -1) {
		free[m[1]] = number(m[2])
	}
	held := make(map[int]time.Duration)
	for _, m := range delaying.FindAllStringSubmatch(string(errors), -1) {
		units := millis(t, m[1]) - time.Duration(free[m[2]])*time.Second
		held[number(m[3])] = (units / time.Duration(rate[m[2]])).Truncate(time.Millisecond)
	}
	return held
}

// millis reads seconds with three decimals.
func millis(t *testing.T, text string) time.Duration {
	t.Helper()
	n, err := strconv.ParseInt(strings.Replace(text, ".", "", 1), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(n) * time.Millisecond
}
