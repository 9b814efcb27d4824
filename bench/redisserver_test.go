// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package bench_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/sluicegate/sluice/internal/redistest"
)

// redisServer is a server and a connection to ask it what it has used.
type redisServer struct {
	*redistest.Server
	client rueidis.Client
}

// info returns fields of a section of INFO.
func (s *redisServer) info(b *testing.B, section string) map[string]string {
	b.Helper()
	text, err := s.client.Do(b.Context(), s.client.B().Info().Section(section).Build()).ToString()
	if err != nil {
		b.Fatal(err)
	}
	fields := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields
}

// cpu returns the CPU time that the server's process has used, the kernel's
// for it included.
func (s *redisServer) cpu(b *testing.B) time.Duration {
	b.Helper()
	info := s.info(b, "cpu")
	var sum time.Duration
	for _, name := range []string{"used_cpu_user", "used_cpu_sys"} {
		seconds, err := strconv.ParseFloat(info[name], 64)
		if err != nil {
			b.Fatalf("INFO: %s: %v", name, err)
		}
		sum += time.Duration(seconds * 1e9)
	}
	return sum
}

// scripts returns how many calls of scripts the server has had, and how long
// they ran.
func (s *redisServer) scripts(b *testing.B) (calls int64, ran time.Duration) {
	b.Helper()
	for field := range strings.SplitSeq(s.info(b, "commandstats")["cmdstat_evalsha"], ",") {
		name, value, _ := strings.Cut(field, "=")
		if name != "calls" && name != "usec" {
			continue
		}
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			b.Fatalf("INFO: cmdstat_evalsha: %s: %v", name, err)
		}
		if name == "calls" {
			calls = n
		} else {
			ran = time.Duration(n) * time.Microsecond
		}
	}
	return calls, ran
}

// memory returns what MEMORY USAGE reports of a key.
func (s *redisServer) memory(b *testing.B, key string) int64 {
	b.Helper()
	n, err := s.client.Do(b.Context(), s.client.B().MemoryUsage().Key(key).Samples(0).Build()).AsInt64()
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// spending is what client and server had used when a measurement began.
type spending struct {
	at             time.Time
	client, server time.Duration
	calls          int64 // of scripts
	ran            time.Duration
}

func (s *redisServer) begin(b *testing.B) spending {
	b.Helper()
	calls, ran := s.scripts(b)
	return spending{server: s.cpu(b), calls: calls, ran: ran, client: processTime(b), at: time.Now()}
}

// report reports what has been used since for n decisions: decisions a second,
// seconds of client and server for 100,000, and how many scripts ran how long.
func (from spending) report(b *testing.B, s *redisServer, n int) {
	b.Helper()
	wall, client := time.Since(from.at), processTime(b)-from.client
	server := s.cpu(b) - from.server
	calls, ran := s.scripts(b)
	calls, ran = calls-from.calls, ran-from.ran
	per := 1e5 / float64(n)
	b.ReportMetric(float64(n)/wall.Seconds(), "decisions/s")
	b.ReportMetric(client.Seconds()*per, "client-s/100k")
	b.ReportMetric(server.Seconds()*per, "redis-s/100k")
	if calls > 0 {
		b.ReportMetric(float64(calls)/float64(n), "calls/decision")
		b.ReportMetric(float64(ran.Microseconds())/float64(calls), "script-µs")
	}
}
