// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/server/internal/series"
)

// WatchLimits exports the limits of the active policy, without those of overrides, whose keys are
// clients'. It calls active at every scrape.
//
//	sluice_limit_info{rule,level,tier,limit,algorithm,quota,window}  1; the window in seconds
func (m *Metrics) WatchLimits(active func() *policy.Policy) {
	var c series.Collector
	info := c.Gauge("sluice_limit_info", "1, labelled by a limit in effect: its quota in units and its window in seconds.",
		"rule", "level", "tier", "limit", "algorithm", "quota", "window")
	m.watch(&c, func(ch chan<- prometheus.Metric) {
		p := active()
		for i := range p.Rules() {
			for _, l := range p.Levels(i) {
				put := func(tier string, set *policy.Set) {
					if set == nil {
						return
					}
					for j := range set.All.Len() {
						series.Put(ch, info, 1, labelsOf(&l, tier, set.All.Term(j))...)
					}
				}
				put("", l.Base)
				for tier, set := range l.ByTier {
					put(series.Label(tier), set)
				}
			}
		}
	})
}

// labelsOf returns the labels of a limit in effect.
func labelsOf(l *policy.CompiledLevel, tier string, t *sluice.Term) []string {
	return []string{
		l.Rule.Name, l.Name, tier, t.Name, t.Algorithm.String(),
		strconv.FormatInt(t.Quota, 10), strconv.FormatFloat(t.Window.Seconds(), 'f', -1, 64),
	}
}
