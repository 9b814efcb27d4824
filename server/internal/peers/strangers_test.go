// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package peers_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/outcome"
	"github.com/sluicegate/sluice/server/internal/report"
)

// TestStrangers: a stranger that writes to the store cannot make a node exceed its bound of
// memory, with reports of nodes that do not exist, each within its bounds and compressed well.
func TestStrangers(t *testing.T) {
	const mostMiB = 80 // what reports may take together, and some for all else
	tried := func(rule *report.Rule) {
		rule.Candidates = make([]outcome.CandidateReport, 64)
		for k := range rule.Candidates {
			rule.Candidates[k] = outcome.CandidateReport{Name: fmt.Sprint("c", k), Evaluated: 1, WouldDeny: 1}
		}
	}
	for _, c := range []struct {
		name         string
		nodes, rules int
		fill         func(*report.Rule)
		some         bool // some can be used
	}{
		{"candidates", testkit.Steps(3, 30), 900, tried, false},
		{"rules", 250, report.MostRules, func(*report.Rule) {}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.some {
				testkit.Long(t)
			}
			server := redistest.Start(t, redistest.Redis(t))
			client := dial(t, server)
			m := join(t, "redis://"+server.Addr, "SELF", 1, small)
			watchUntil(t, m, "it is connected", func(f *report.Fleet) bool { return f.Err == nil })
			stamp := fmt.Sprintf("%016d", time.Now().UnixMicro())
			r := report.Report{Rules: make([]report.Rule, c.rules)}
			for j := range r.Rules {
				r.Rules[j].Name = fmt.Sprint(j)
				c.fill(&r.Rules[j])
			}
			for i := range c.nodes {
				r.ID = fmt.Sprint("STRANGER", i)
				line, err := (&report.Node{ID: r.ID, Name: "x"}).Encode()
				if err != nil {
					t.Fatal(err)
				}
				data, err := r.Encode()
				if err != nil {
					t.Fatal(err)
				}
				do(t, client, "HSET", "sluice{fleet}!nodes", r.ID, stamp+string(line))
				do(t, client, "HSET", "sluice{fleet}!reports", r.ID, stamp+string(data), "at:"+r.ID, stamp)
			}
			before := heap()
			refused, used := 0, 0
			watchUntil(t, m, "all were read", func(f *report.Fleet) bool {
				refused, used = 0, 0
				for i := range f.Nodes {
					switch s := &f.Nodes[i]; {
					case s.Report != nil:
						used++
					case s.Fault != nil:
						refused++
					}
				}
				return refused+used == c.nodes
			})
			kept := (heap() - before) >> 20
			t.Logf("%d can be used, %d are refused; %d MiB are kept", used, refused, kept)
			if kept > mostMiB || refused == 0 || used > 0 != c.some {
				t.Errorf("%d can be used, %d are refused; %d MiB are kept, want %d at most", used, refused, kept, mostMiB)
			}
			runtime.KeepAlive(m)
		})
	}
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
