// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/sluicegate/sluice/bench/load"
	"github.com/sluicegate/sluice/bench/record"
	"github.com/sluicegate/sluice/bench/report"
)

// publish writes the tables to stdout and beside the raw results.
func publish(o options, h record.Host, raw *record.Record, set report.Set, stdout io.Writer) (err error) {
	w := stdout
	if raw.Path() != "" {
		f, createErr := os.Create(raw.Path() + ".md")
		if createErr != nil {
			return createErr
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		w = io.MultiWriter(stdout, f)
	}
	return writeTables(w, h.Header(), set, o.cores)
}

func writeTables(w io.Writer, header string, set report.Set, cores int) error {
	if _, err := fmt.Fprintf(w, "# Comparison\n\n```\n%s```\n", header); err != nil {
		return err
	}
	if err := set.Goals(w, goals()); err != nil {
		return err
	}
	if err := set.Changes(w, product, earlier); err != nil {
		return err
	}
	for _, t := range tables(cores) {
		if err := set.Table(w, t.title, t.base, t.columns); err != nil {
			return err
		}
	}
	return nil
}

type table struct {
	title, base string
	columns     []report.Column
}

func tables(cores int) []table {
	take := func(unit string) (cs []report.Column) {
		for _, l := range load.All() {
			for _, m := range modes(cores) {
				cs = append(cs, report.Column{Title: l.Name + " " + m.name, Bench: "Take/load=" + l.Name + "/mode=" + m.name, Unit: unit})
			}
		}
		return cs
	}
	one := func(bench string, least bool, titlesAndUnits ...string) (cs []report.Column) {
		for i := 0; i+1 < len(titlesAndUnits); i += 2 {
			cs = append(cs, report.Column{Title: titlesAndUnits[i], Bench: bench, Unit: titlesAndUnits[i+1], Least: least})
		}
		return cs
	}
	pressed := []string{
		"decisions/s", "decisions/s", "client, CPU s per 100k", "client-s/100k", "Redis, CPU s per 100k", "redis-s/100k",
		"scripts per decision", "calls/decision", "µs in a script", "script-µs", "p50, µs", "p50-µs", "p99, µs", "p99-µs", "errors, %", "err%",
	}
	return []table{
		{"A take, ns on the wall", "floor", take("ns/op")},
		{"A take, ns of CPU", "floor", take("cpu-ns/op")},
		{"A key never seen", "floor", one("New", false, "CPU ns", "cpu-ns/op", "wall ns", "ns/op", "allocs", "allocs/op", "B", "B/op")},
		{"1,000,000 live keys", "floor", one("Live", false, "B per key", "B/key", "objects per key", "obj/key", "collection, CPU ms", "gc-cpu-ms")},
		{"Keys with their quota spent", "", one("Full", false, "B per key", "B/key", "objects per key", "obj/key", "collection, CPU ms", "gc-cpu-ms", "ns per take", "ns/take")},
		{"Worst single call, least of all rounds, µs", "floor", one("Stall", true,
			"filling, CPU", "fill-max-cpu-µs", "filling, wall", "fill-max-wall-µs", "full, CPU", "full-max-cpu-µs", "full, wall", "full-max-wall-µs")},
		{"Slowest calls, CPU µs: full, and of keys that are there", "floor", one("Stall", false,
			"full, 1 in 1,000", "full-p99.9-cpu-µs", "1 in 10,000", "full-p99.99-cpu-µs", "1 in 100,000", "full-p99.999-cpu-µs", "worst", "full-max-cpu-µs",
			"there, 1 in 1,000", "known-p99.9-cpu-µs", "1 in 10,000", "known-p99.99-cpu-µs", "1 in 100,000", "known-p99.999-cpu-µs", "worst", "known-max-cpu-µs")},
		{"Slowest calls while filling, CPU µs", "floor", one("Stall", false,
			"1 in 1,000", "fill-p99.9-cpu-µs", "1 in 10,000", "fill-p99.99-cpu-µs", "1 in 100,000", "fill-p99.999-cpu-µs")},
		{"64 goroutines on one key, admitted in % of what is due", "", one("Contended", false, "admitted", "%due", "errors", "errs")},
		{"A decision alone, ns of CPU", "", append(one("Algo/take=paced", false, "paced", "cpu-ns/op", "allocs", "allocs/op"),
			one("Algo/take=denied", false, "denied", "cpu-ns/op", "allocs", "allocs/op")...)},
		{"Which rules match a request", "", append(one("Rules/n=1000", false, "of 1,000, CPU ns", "cpu-ns/op", "allocs", "allocs/op"),
			one("Rules/n=10000", false, "of 10,000, CPU ns", "cpu-ns/op")...)},
		{"A net/http request", "", one("HTTP", false, "CPU ns", "cpu-ns/op", "allocs", "allocs/op", "B", "B/op")},
		{"Redis: 100,000 keys, 64 goroutines", "redis_rate", one("Redis/load=uniform/callers=64", false, pressed...)},
		{"Redis: one hot key, 64 goroutines", "redis_rate", one("Redis/load=hot/callers=64", false, pressed...)},
		{"Redis: one goroutine", "incr", one("Redis/load=uniform/callers=1", false, "p50, µs", "p50-µs", "p99, µs", "p99-µs")},
		{"Redis: one goroutine, in turns with the bare GCRA script", "", one("RedisTurns", false, "p50, µs", "p50-µs", "of the script's", "p50-of-gcra")},
		{"Redis: a key at 10 times its limit, 64 goroutines", "", one("RedisDenied", false, "calls per decision", "calls/decision", "admitted, % of exact", "%exact", "wrong verdicts", "wrong")},
		{"Redis: a key at twice its limit, 8 nodes", "", one("RedisLeased", false, "calls per decision", "calls/decision", "lost, % of exact", "%lost", "over the limit", "over")},
		{"Redis: 16 keys with a quota of 10,000 a second, 64 goroutines", "sluice.alone", one("RedisLog", false, pressed...)},
		{"Redis: a key with its quota of 100 spent", "", one("RedisMemory", false, "B per key", "B/key")},
	}
}
