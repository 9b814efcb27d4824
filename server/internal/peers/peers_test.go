// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package peers_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/redisstore/redisurl"
	"github.com/sluicegate/sluice/redisstore/rueidisstore"
	"github.com/sluicegate/sluice/server/internal/fleet"
	"github.com/sluicegate/sluice/server/internal/history"
	"github.com/sluicegate/sluice/server/internal/outcome"
	"github.com/sluicegate/sluice/server/internal/peers"
	"github.com/sluicegate/sluice/server/internal/report"
	"github.com/sluicegate/sluice/server/internal/sketch"
)

// member is a node of a fleet that reports the counts it is given.
type member struct {
	*peers.Peers
	conn *fleet.Conn
	kill context.CancelFunc // ends it without a word

	mu    sync.Mutex
	asked []string // the rules of its last report
}

// join starts a member of a fleet of so many at a store's URL, whose first watch does not
// wait long.
func join(t testing.TB, url, id string, live int64, reports func(rules []string) *report.Report) *member {
	t.Helper()
	return joinPatient(t, url, id, live, reports, time.Second)
}

func joinPatient(t testing.TB, url, id string, live int64, reports func(rules []string) *report.Report, patience time.Duration) *member {
	t.Helper()
	every := time.Duration(live) * 10 * time.Millisecond
	if _, is := t.(*testing.B); is {
		every = fleet.Every // as it is measured
	}
	m := &member{conn: connect(t, url, id, every)}
	m.Peers = peers.New(peers.Options{
		Conn: m.conn, Live: func() int64 { return live }, Met: func(*report.Fleet) {}, Patience: patience,
		Self: func() report.Node {
			return report.Node{Name: "host-" + id, Version: "v1.0.0", Config: "0123456789ab", Rules: "0123456789ab", StoreUp: true, Clock: time.Now().UnixMilli()}
		},
		Report: func(rules []string) *report.Report {
			m.mu.Lock()
			m.asked = rules
			m.mu.Unlock()
			return reports(rules)
		},
	})
	m.conn.Register(m.Part())
	m.kill = run(t, m.conn)
	return m
}

func connect(t testing.TB, url, id string, every time.Duration) *fleet.Conn {
	t.Helper()
	target, err := redisurl.Parse(url)
	if err != nil {
		t.Fatal(err)
	}
	option, err := rueidisstore.ClientOption(target)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := rueidisstore.Secret(target)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := fleet.New(fleet.Options{
		Target: target, Client: option, Secret: secret, Connect: rueidisstore.Connect, Node: fleet.Node{ID: id, Name: "host-" + id}, Every: every, Timeout: testkit.Ceiling,
	})
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func run(t testing.TB, conn *fleet.Conn) (kill context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() { conn.Run(ctx) })
	kill = func() { cancel(); group.Wait() }
	t.Cleanup(kill)
	return kill
}

// watchUntil watches until the result is as wanted.
func watchUntil(t testing.TB, m *member, what string, is func(*report.Fleet) bool, rules ...string) report.Fleet {
	t.Helper()
	for end := time.Now().Add(5 * testkit.Ceiling); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if f := m.Reports(t.Context(), rules); is(&f) {
			return f
		}
	}
	f := m.Reports(t.Context(), rules)
	t.Fatalf("watch until %s: in vain: %d nodes, %v", what, len(f.Nodes), f.Err)
	return f
}

// small returns a report of one rule, in detail if it is asked for.
func small(rules []string) *report.Report {
	r := &report.Report{Rules: []report.Rule{{Name: "api", Counts: outcome.Counts{Unlimited: 7}}}}
	if len(rules) > 0 {
		r.Rules[0].Detail = &report.Detail{Top: []outcome.Denied{{Total: 1, Keys: []outcome.KeyCount{{Key: "alice@example.com", Least: 1, Most: 1}}}}}
	}
	return r
}

// reported reports whether so many nodes have reported, with details.
func reported(n int) func(*report.Fleet) bool {
	return func(f *report.Fleet) bool {
		for i := range f.Nodes {
			if r := f.Nodes[i].Report; r == nil || len(r.Rules) != 1 || r.Rules[0].Detail == nil {
				return false
			}
		}
		return f.Err == nil && len(f.Nodes) == n
	}
}

// dial returns a client of the server, closed when the test ends.
func dial(t testing.TB, server *redistest.Server) rueidis.Client {
	t.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr}, ForceSingleClient: true, DisableCache: true, DisableRetry: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func do(t testing.TB, client rueidis.Client, words ...string) rueidis.RedisResult {
	t.Helper()
	r := client.Do(context.Background(), client.B().Arbitrary(words...).Build())
	if err := r.Error(); err != nil && !rueidis.IsRedisNil(err) {
		t.Fatalf("%q: %v", words, err)
	}
	return r
}

// TestReports: the first watch has the reports of all other nodes, without a key in clear if
// there is a secret. Nodes report nothing without a watch. A node that leaves is gone, and
// a killed node is silent.
func TestReports(t *testing.T) {
	for _, secret := range []string{"", "0123456789abcdef"} {
		t.Run("secret "+secret, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, redistest.Redis(t))
			url := "redis://" + server.Addr
			if secret != "" {
				file := testkit.TempFile(t, "secret", secret)
				url += "?secret_file=" + file
			}
			client := dial(t, server)
			a, b, c := joinPatient(t, url, "a", 3, small, testkit.Ceiling), join(t, url, "b", 3, small), join(t, url, "c", 3, small)
			lines := func() int64 {
				n, err := do(t, client, "HLEN", "sluice{fleet}!nodes").AsInt64()
				if err != nil {
					t.Fatal(err)
				}
				return n
			}
			testkit.Until(t, "all nodes to be there", func() bool { return lines() == 3 })
			if n, err := do(t, client, "EXISTS", "sluice{fleet}!reports").AsInt64(); err != nil || n != 0 {
				t.Errorf("nodes report though nobody watches: %d, %v", n, err)
			}
			if f := a.Reports(t.Context(), []string{"api"}); !reported(2)(&f) {
				t.Errorf("the first watch: %+v", f)
			}
			dump, err := do(t, client, "HGET", "sluice{fleet}!reports", "b").ToString()
			if err != nil || secret != "" && strings.Contains(dump, "alice") || strings.Contains(dump, `"id":"b"`) {
				t.Errorf("%v; in the store: %q", err, dump)
			}
			if err := c.Leave(t.Context()); err != nil {
				t.Fatal(err)
			}
			watchUntil(t, a, "one has left", reported(1), "api")
			b.kill()
			line, err := do(t, client, "HGET", "sluice{fleet}!nodes", "b").ToString()
			if err != nil {
				t.Fatal(err)
			}
			// As if that was 16 seconds ago.
			at, err := strconv.ParseInt(line[:16], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			do(t, client, "HSET", "sluice{fleet}!nodes", "b", fmt.Sprintf("%016d", at-16e6)+line[16:])
			watchUntil(t, a, "one is silent", func(f *report.Fleet) bool { return len(f.Nodes) == 1 && f.Silent(&f.Nodes[0]) }, "api")
		})
	}
}

// TestWatchOfMany: nodes report few rules in detail, however many a watch names.
func TestWatchOfMany(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Redis(t))
	a, b := join(t, "redis://"+server.Addr, "a", 2, small), join(t, "redis://"+server.Addr, "b", 2, small)
	var rules []string
	for i := range 3 * report.MostLookedAt {
		rules = append(rules, strconv.Itoa(i))
	}
	n := 0
	watchUntil(t, a, "rules are asked for", func(*report.Fleet) bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		n = len(b.asked)
		return n > 0
	}, rules...)
	if n != report.MostLookedAt {
		t.Errorf("%d rules are asked for, want %d", n, report.MostLookedAt)
	}
}

// TestTickTooShort: a report made at the end of a tick is sent unchanged in the next one,
// before a report for a newer watch.
func TestTickTooShort(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Redis(t))
	client := dial(t, server)
	a, conn := join(t, "redis://"+server.Addr, "a", 2, small), connect(t, "redis://"+server.Addr, "b", 20*time.Millisecond)
	run(t, conn)
	watchUntil(t, a, "both are connected", func(f *report.Fleet) bool { return f.Err == nil && conn.Err() == nil }, "api")
	ctx, end := context.WithCancel(t.Context())
	made := 0
	b := peers.New(peers.Options{
		Conn: conn, Live: func() int64 { return 2 }, Met: func(*report.Fleet) {},
		Self: func() report.Node { return report.Node{Name: "host"} },
		Report: func(rules []string) *report.Report {
			end()
			made++
			return small(rules)
		},
	})
	for i, c := range []struct {
		change        string
		made, written int
	}{{"1", 1, 0}, {"1", 1, 1}, {"1", 2, 1}, {"1", 2, 0}, {"2", 3, 1}} {
		now := time.Now()
		b.Part().Tick(ctx, fleet.Tick{Now: now, Values: []string{strconv.FormatInt(now.Add(time.Minute).UnixMicro(), 10), c.change}})
		written, err := do(t, client, "HDEL", "sluice{fleet}!reports", "b").AsInt64()
		if err != nil || made != c.made || written != int64(c.written) {
			t.Errorf("tick %d: %d reports are made and %d written, %v; want %d and %d", i, made, written, err, c.made, c.written)
		}
		ctx = t.Context()
	}
}

// TestReportOfAStranger: if a stranger claims a report that does not exist, or that is long
// and another than claimed, the reports of the nodes are still read.
func TestReportOfAStranger(t *testing.T) {
	for name, size := range map[string]int{"not there": 0, "long, of another time": 200 << 10} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			readBeside(t, size)
		})
	}
}

func readBeside(t *testing.T, size int) {
	server := redistest.Start(t, redistest.Redis(t))
	client := dial(t, server)
	a := join(t, "redis://"+server.Addr, "a", 2, small)
	join(t, "redis://"+server.Addr, "b", 2, small)
	line, err := (&report.Node{ID: "STRANGER", Name: "x"}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	stamp := fmt.Sprintf("%016d", time.Now().Add(5*time.Minute).UnixMicro())
	do(t, client, "HSET", "sluice{fleet}!nodes", "STRANGER", stamp+string(line))
	do(t, client, "HSET", "sluice{fleet}!reports", "at:STRANGER", stamp)
	if size > 0 {
		do(t, client, "HSET", "sluice{fleet}!reports", "STRANGER", strings.Repeat("0", 15)+"1"+strings.Repeat("x", size))
	}
	var last time.Time
	for range 2 {
		watchUntil(t, a, "b is read again", func(f *report.Fleet) bool {
			for i := range f.Nodes {
				if s := &f.Nodes[i]; s.ID == "b" && s.At.After(last) {
					last = s.At
					return true
				}
			}
			return false
		}, "api")
	}
}

// full returns a report of a node with a thousand rules, of which those that may be asked
// for are in detail, with as many keys as sketches can count.
func full(seed uint64) *report.Report {
	random := rand.New(rand.NewPCG(seed, 1))
	now := time.Now()
	fill := func(s *history.Series) *history.Series {
		s.Allowed, s.Denied = make([]uint32, s.Steps), make([]uint32, s.Steps)
		for i := range s.Steps {
			s.Allowed[i], s.Denied[i] = random.Uint32N(1000), random.Uint32N(100)
		}
		return s
	}
	r := &report.Report{Total: history.Counts{Allowed: random.Uint64N(1e9)}, Recent: fill(history.TotalFine.Empty(now)), Day: fill(history.TotalCoarse.Empty(now))}
	for i := range 1000 {
		rule := report.Rule{Name: fmt.Sprintf("rule-of-service-%d", i), Recent: history.Counts{Allowed: random.Uint64N(1e5), Denied: random.Uint64N(1e4)}}
		rule.Counts.Allowed, rule.Counts.Denied = random.Uint64N(1e8), random.Uint64N(1e6)
		if i < testkit.Steps(4, 16) { // a slow machine must encode a report within a tick
			k := sketch.New(sketch.Fine)
			k.Turn(now)
			for range 20_000 {
				hash := random.Uint64()
				k.Seen(hash)
				k.Denied(hash)
				k.Used(hash, 1000)
			}
			rule.Detail = &report.Detail{Recent: fill(history.RuleFine.Empty(now)), Day: fill(history.RuleCoarse.Empty(now)), Hour: k.Hour(), Days: k.Day()}
			level := outcome.Denied{Total: 1e6, Rest: 3}
			for range 20 {
				level.Keys = append(level.Keys, outcome.KeyCount{Key: fmt.Sprintf("2001:db8:%x::%x", random.IntN(1<<16), random.IntN(1<<16)), Least: 10_000, Most: 12_000, Recent: 500})
			}
			rule.Detail.Top = []outcome.Denied{level}
		}
		r.Rules = append(r.Rules, rule)
	}
	return r
}

// many starts a fleet of n nodes with a thousand rules each. The last reports nothing
// while busy is locked.
func many(t testing.TB, n int, busy *sync.Mutex) (server *redistest.Server, all []*member) {
	t.Helper()
	server = redistest.Start(t, redistest.Redis(t))
	for i := range n {
		of := full(uint64(i))
		all = append(all, join(t, "redis://"+server.Addr, fmt.Sprintf("n%02d", i), int64(n), func([]string) *report.Report {
			if i == n-1 {
				busy.Lock()
				defer busy.Unlock()
			}
			return of
		}))
	}
	return server, all
}

// wrote reports whether so many nodes, or more, have written a whole report since then.
func wrote(n int, since time.Time) func(*report.Fleet) bool {
	return func(f *report.Fleet) bool {
		got := 0
		for i := range f.Nodes {
			if s := &f.Nodes[i]; s.Report != nil && len(s.Report.Rules) == 1000 && s.At.After(since) {
				got++
			}
		}
		return got >= n
	}
}

// TestFifty: 50 nodes with a thousand rules take at most 20 MB in the store while somebody
// watches, and a read of all reports brings all: of a node that is late, too, long before
// those of the others may be read again.
func TestFifty(t *testing.T) {
	t.Parallel()
	n := testkit.Steps(4, 50)
	var busy sync.Mutex
	server, all := many(t, n, &busy)
	for _, rule := range []string{"rule-of-service-1", "rule-of-service-2"} {
		var began time.Time
		f := func() report.Fleet {
			busy.Lock()
			defer busy.Unlock()
			began = time.Now()
			return watchUntil(t, all[0], "all but one have reported", wrote(n-2, began), rule)
		}()
		g := watchUntil(t, all[0], "all have reported", wrote(n-1, began), rule)
		if len(g.Nodes) != n-1 || g.Unread != 0 {
			t.Errorf("%d nodes, %d unread", len(g.Nodes), g.Unread)
		}
		again := 0
		for i := range g.Nodes {
			if at := f.Nodes[i].At; at.After(began) && !at.Equal(g.Nodes[i].At) {
				again++
			}
		}
		// The reports of 50 nodes may be read again 49 s after they were.
		if took := time.Since(began); again > 0 && took < time.Duration(n)*800*time.Millisecond {
			t.Errorf("%s: a node is late, and %d others are read again before it, within %v", rule, again, took)
		}
	}
	client, sum := dial(t, server), int64(0)
	for _, key := range []string{"nodes", "reports", "watch"} {
		n, err := do(t, client, "MEMORY", "USAGE", "sluice{fleet}!"+key, "SAMPLES", "0").AsInt64()
		if err != nil && (key != "watch" || !rueidis.IsRedisNil(err)) { // nobody watches for 15 s: it has expired
			t.Fatal(err)
		}
		t.Logf("%s: %d bytes", key, n)
		sum += n
	}
	if most := int64(n) * 20 << 20 / 50; sum > most {
		t.Errorf("%d bytes in the store, want at most %d", sum, most)
	}
}

// BenchmarkFleet is what 50 nodes with a thousand rules send and receive in 30 s, and the
// CPU of a Redis for it, while nobody watches and while one does: at one node, every 5 s.
// "idle" is a Redis that nobody asks.
func BenchmarkFleet(b *testing.B) {
	b.Run("idle", func(b *testing.B) {
		measure(b, redistest.Start(b, redistest.Redis(b)), func() {})
	})
	b.Run("nobody-watches", func(b *testing.B) {
		server, _ := many(b, 50, new(sync.Mutex))
		measure(b, server, func() {})
	})
	b.Run("one-watches", func(b *testing.B) {
		server, all := many(b, 50, new(sync.Mutex))
		measure(b, server, func() { all[0].Reports(b.Context(), []string{"rule-of-service-1"}) })
	})
}

func measure(b *testing.B, server *redistest.Server, watch func()) {
	b.Helper()
	client := dial(b, server)
	watch()
	time.Sleep(5 * time.Second) // until all have begun
	const span = 30 * time.Second
	for b.Loop() {
		before, began := info(b, client), time.Now()
		for time.Since(began) < span {
			watch()
			time.Sleep(5 * time.Second)
		}
		after, took := info(b, client), time.Since(began).Seconds()
		rate := func(names ...string) (n float64) {
			for _, name := range names {
				n += after[name] - before[name]
			}
			return n / took
		}
		b.ReportMetric(rate("total_net_input_bytes")/50/1000, "kB/s-written/node")
		b.ReportMetric(rate("total_net_output_bytes")/1000, "kB/s-read/all")
		b.ReportMetric(100*rate("used_cpu_user", "used_cpu_sys"), "%-of-a-core")
		b.ReportMetric(rate("total_commands_processed"), "calls/s")
	}
}

// info returns the INFO of a server.
func info(t testing.TB, client rueidis.Client) map[string]float64 {
	t.Helper()
	text, err := do(t, client, "INFO").ToString()
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]float64)
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if n, err := strconv.ParseFloat(value, 64); err == nil {
			all[name] = n
		}
	}
	return all
}
