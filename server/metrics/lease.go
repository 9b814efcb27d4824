// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicegate/sluice/lease"
)

// leases collects from one Stats per scrape.
type leases func() lease.Stats

var (
	leasedDesc    = prometheus.NewDesc("sluice_lease_decisions_total", "Takes under leased limits that were decided without asking the store.", []string{"verdict"}, nil)
	askedDesc     = prometheus.NewDesc("sluice_lease_store_calls_total", "Questions to the store about takes under leased limits.", nil, nil)
	unitsDesc     = prometheus.NewDesc("sluice_lease_units_total", "Units taken in advance, and those of them given back unused or lost.", []string{"outcome"}, nil)
	untrackedDesc = prometheus.NewDesc("sluice_lease_untracked_total", "Takes that were not leased, as too many keys are in demand.", nil, nil)
)

// Describe is of [prometheus.Collector].
func (l leases) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{leasedDesc, askedDesc, unitsDesc, untrackedDesc} {
		ch <- d
	}
}

// Collect is of [prometheus.Collector].
func (l leases) Collect(ch chan<- prometheus.Metric) {
	s := l()
	counter := func(d *prometheus.Desc, v uint64, label ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), label...)
	}
	counter(leasedDesc, s.Allowed, "allowed")
	counter(leasedDesc, s.Denied, "denied")
	counter(askedDesc, s.Asked)
	counter(unitsDesc, s.Leased, "leased")
	counter(unitsDesc, s.Returned, "returned")
	counter(unitsDesc, s.Lost, "lost")
	counter(untrackedDesc, s.Untracked)
}

// WatchLeases exports how much leases save: pass the Stats method of a
// [lease.Store], which is called at every scrape. Only one can be watched.
func (m *Metrics) WatchLeases(of func() lease.Stats) {
	m.registry.MustRegister(leases(of))
}
