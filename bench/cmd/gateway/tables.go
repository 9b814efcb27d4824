// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/sluicegate/sluice/bench/report"
)

// goals are what the project wants. They are shown beside what was measured;
// nothing fails by them.
func goals() []report.Goal {
	var gs []report.Goal
	for _, who := range []string{"sluice", "sluice.config"} {
		for _, n := range []string{"1", "4"} {
			gs = append(gs, report.Goal{
				Title: who + ", " + n + " connections: µs added to the p50 of a plain ReverseProxy", Bench: "Latency/connections=" + n,
				Who: who, From: "reverseproxy", Unit: "p50-µs", Want: 5,
			})
		}
		gs = append(gs,
			report.Goal{Title: who + ": CPU of the same proxy without limits", Bench: "Proxy", Who: who, To: "unlimited", Unit: "cpu-µs/req", Want: 1.1},
			report.Goal{Title: who + ": requests per CPU second, of Caddy's", Bench: "Proxy", Who: who, To: "caddy", Unit: "cpu-µs/req", Invert: true, Want: 1},
			report.Goal{Title: who + ": requests per CPU second, of Traefik's", Bench: "Proxy", Who: who, To: "traefik", Unit: "cpu-µs/req", Invert: true, Want: 1},
			report.Goal{Title: who + ", denying: CPU of an empty net/http answer", Bench: "Denied", Who: who, To: "empty", Unit: "cpu-µs/req", Want: 1.2},
			report.Goal{Title: who + ", denying: CPU of the same answer from constants", Bench: "Denied", Who: who, To: "constant", Unit: "cpu-µs/req", Want: 1.2},
			report.Goal{Title: who + ", denying: CPU of the other sluice", Bench: "Denied", Who: who, To: strings.Replace(who, "sluice", "before", 1), Unit: "cpu-µs/req", Want: 1},
		)
	}
	return append(gs,
		report.Goal{Title: "limits, fields and counting: ns of CPU per allowed request", Bench: "Handlers", Who: "allowed", From: "bare", Unit: "cpu-ns/op", Want: 1200},
		report.Goal{Title: "10,000 rules: ms from the signal until they are active", Bench: "Reload", Who: "sluice.config", Unit: "ms", Want: 400},
		report.Goal{Title: "p99 while they are read, of that without", Bench: "Reload", Who: "sluice.config", Unit: "p99-during/without", Want: 3},
		report.Goal{Title: "10,000 rules, a process beside that is always busy: ms from the signal until they are active", Bench: "Reload/neighbour=busy", Who: "sluice.config", Unit: "ms", Want: 400},
		report.Goal{Title: "p99 while they are read, a process beside that is always busy, of that without reading", Bench: "Reload/neighbour=busy", Who: "sluice.config", Unit: "p99-during/without", Want: 3},
		report.Goal{Title: "20,000 rules: MB after the start or one of three changes, the most", Bench: "Memory", Who: "sluice.config", Unit: "rss-MB", Want: 100},
		report.Goal{Title: "CPU with a decision log of what is denied, of that without", Bench: "Logs", Who: "denied", To: "off", Unit: "cpu-µs/req", Want: 1.05},
		report.Goal{Title: "CPU with a decision log of all requests, of that without", Bench: "Logs", Who: "all", To: "off", Unit: "cpu-µs/req", Want: 1.15},
		report.Goal{Title: "nginx that asks an empty server: requests/s, of one that asks sluice", Bench: "Checks", Who: "nginx.empty", To: "nginx.check", Unit: "req/s", Want: 1.25},
		report.Goal{Title: "an empty server of JSON: requests/s, of the API's", Bench: "Fronts", Who: "json", To: "api", Unit: "req/s", Want: 1 / 0.7},
		report.Goal{Title: "9,000 idle connections to the API: KB each", Bench: "FrontsIdle", Who: "api", Unit: "KB/connection", Want: 30},
		report.Goal{Title: "calls/s of one request, of those of batches of 100", Bench: "Fronts", Who: "api", To: "api.batch", Unit: "req/s", Want: 10},
		report.Goal{Title: "lines of the decision log that are not as the metrics count", Bench: "Lines", Who: "sluice.config", Unit: "differences", Want: 0},
		report.Goal{Title: "soak: RSS at the end, of that when the table was full", Bench: "Soak", Who: "sluice.config", Unit: "rss-end/full", Want: 1.05},
		report.Goal{Title: "soak: heap at the end, of that when the table was full", Bench: "Soak", Who: "sluice.config", Unit: "heap-end/full", Want: 1.05},
	)
}

func writeTables(w io.Writer, header string, set report.Set) error {
	if _, err := fmt.Fprintf(w, "# Gateway\n\n```\n%s```\n", header); err != nil {
		return err
	}
	if err := set.Goals(w, goals()); err != nil {
		return err
	}
	if err := set.Changes(w, "sluice", "before"); err != nil {
		return err
	}
	saturated := func(bench string) []report.Column {
		return []report.Column{
			{Title: "requests/s", Bench: bench, Unit: "req/s"},
			{Title: "CPU µs per request", Bench: bench, Unit: "cpu-µs/req"},
			{Title: "requests per CPU second", Bench: bench, Unit: "req/cpu-s"},
		}
	}
	activation := func(bench string) []report.Column {
		return []report.Column{
			{Title: "ms until active", Bench: bench, Unit: "ms"},
			{Title: "CPU ms", Bench: bench, Unit: "cpu-ms"},
			{Title: "p50 without, µs", Bench: bench, Unit: "p50-µs"},
			{Title: "p50 during", Bench: bench, Unit: "p50-during-µs"},
			{Title: "p99 without, µs", Bench: bench, Unit: "p99-µs"},
			{Title: "p99 during", Bench: bench, Unit: "p99-during-µs"},
			{Title: "p99 during/without", Bench: bench, Unit: "p99-during/without"},
		}
	}
	var latency []report.Column
	for _, n := range []string{"1", "4"} {
		for _, q := range []string{"p50", "p90", "p99"} {
			latency = append(latency, report.Column{Title: n + " connections, " + q, Bench: "Latency/connections=" + n, Unit: q + "-µs"})
		}
	}
	for _, t := range []struct {
		title, base string
		columns     []report.Column
	}{
		{"Proxies, both cores full", "unlimited", saturated("Proxy")},
		{"Denying, both cores full", "empty", saturated("Denied")},
		{"All handlers around one that does nothing, in process", "bare", []report.Column{
			{Title: "CPU, ns", Bench: "Handlers", Unit: "cpu-ns/op"},
			{Title: "bytes", Bench: "Handlers", Unit: "B/op"},
			{Title: "objects", Bench: "Handlers", Unit: "allocs/op"},
		}},
		{"Logging, both cores full", "off", saturated("Logs")},
		{"nginx that asks about each request, both cores full; CPU of nginx alone", "nginx.empty", saturated("Checks")},
		{"The API beside a server of JSON, both cores full; a request of api.batch has 100", "json", saturated("Fronts")},
		{"The API with 1,000,000 keys", "", []report.Column{
			{Title: "p50, µs", Bench: "FrontsLatency", Unit: "p50-µs"},
			{Title: "p99, µs", Bench: "FrontsLatency", Unit: "p99-µs"},
		}},
		{"9,000 idle connections to the API", "", []report.Column{{Title: "KB each", Bench: "FrontsIdle", Unit: "KB/connection"}}},
		{"Lines of the decision log", "", []report.Column{
			{Title: "requests", Bench: "Lines", Unit: "requests"},
			{Title: "written", Bench: "Lines", Unit: "written"},
			{Title: "dropped", Bench: "Lines", Unit: "dropped"},
			{Title: "counts that differ from the metrics", Bench: "Lines", Unit: "differences"},
		}},
		{"Latency, µs", "unlimited", latency},
		{"Reload of 10,000 rules", "", activation("Reload")},
		{"Reload of 10,000 rules, a process beside that is always busy", "", activation("Reload/neighbour=busy")},
		{"Memory with 20,000 rules", "", []report.Column{
			{Title: "RSS after the start, MB", Bench: "Memory", Unit: "rss-0-MB"},
			{Title: "after one change", Bench: "Memory", Unit: "rss-1-MB"},
			{Title: "after two", Bench: "Memory", Unit: "rss-2-MB"},
			{Title: "after three", Bench: "Memory", Unit: "rss-3-MB"},
		}},
		{"Soak", "", []report.Column{
			{Title: "requests", Bench: "Soak", Unit: "requests"},
			{Title: "RSS when full, MB", Bench: "Soak", Unit: "rss-full-MB"},
			{Title: "RSS at the end, MB", Bench: "Soak", Unit: "rss-end-MB"},
			{Title: "RSS at most, MB", Bench: "Soak", Unit: "rss-max-MB"},
			{Title: "heap when full, MB", Bench: "Soak", Unit: "heap-full-MB"},
			{Title: "heap at the end, MB", Bench: "Soak", Unit: "heap-end-MB"},
		}},
		{"Attacks on a gateway with GOMEMLIMIT=200MiB: another client", "", []report.Column{
			{Title: "p50 alone, µs", Bench: "Attacks", Unit: "p50-alone-µs"},
			{Title: "p50 under attack", Bench: "Attacks", Unit: "p50-under-µs"},
			{Title: "p99 alone", Bench: "Attacks", Unit: "p99-alone-µs"},
			{Title: "p99, attacker at an empty server", Bench: "Attacks", Unit: "p99-control-µs"},
			{Title: "p99 under attack", Bench: "Attacks", Unit: "p99-under-µs"},
			{Title: "under attack/alone", Bench: "Attacks", Unit: "p99-under/alone"},
			{Title: "not served", Bench: "Attacks", Unit: "not-served"},
			{Title: "RSS at most, MiB", Bench: "Attacks", Unit: "rss-max-MiB"},
			{Title: "gateway's CPU, s", Bench: "Attacks", Unit: "cpu-s"},
			{Title: "attacker's CPU, s", Bench: "Attacks", Unit: "attacker-cpu-s"},
			{Title: "connections", Bench: "Attacks", Unit: "connections"},
			{Title: "requests", Bench: "Attacks", Unit: "requests"},
		}},
	} {
		if err := set.Table(w, t.title, t.base, t.columns); err != nil {
			return err
		}
	}
	return nil
}
