// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicegate/sluice/denycache"
	"github.com/sluicegate/sluice/failure"
)

// shared collects from one Stats of each per scrape.
type shared struct {
	failure func() failure.Stats
	denials func() denycache.Stats
}

var (
	upDesc       = prometheus.NewDesc("sluice_store_up", "1 while requests go to the shared store, 0 while the failure policy decides.", nil, nil)
	outagesDesc  = prometheus.NewDesc("sluice_store_outages_total", "How often the shared store was given up.", nil, nil)
	degradedDesc = prometheus.NewDesc("sluice_degraded_total", "Requests that the failure policy decided in the store's place.", []string{"policy"}, nil)
	callsDesc    = prometheus.NewDesc("sluice_store_calls_failed_total", "Calls that the shared store did not decide, by the reason.", []string{"reason"}, nil)
	inFlightDesc = prometheus.NewDesc("sluice_store_calls_in_flight", "Calls that have not come back, those included whose callers have left.", nil, nil)
	owedDesc     = prometheus.NewDesc("sluice_store_owed_keys", "Keys with units to be charged to the shared store on its return.", nil, nil)
	settledDesc  = prometheus.NewDesc("sluice_store_owed_units_total", "Units spent in the store's absence, by what became of them.", []string{"outcome"}, nil)
	backDesc     = prometheus.NewDesc("sluice_store_given_back_total", "Decisions that came too late and were given back.", nil, nil)
	lostDesc     = prometheus.NewDesc("sluice_store_not_given_back_total", "Decisions that came too late and whose refund failed.", nil, nil)
	savedDesc    = prometheus.NewDesc("sluice_denials_from_memory_total", "Requests denied without asking the shared store, as it would.", nil, nil)
)

// Describe is of [prometheus.Collector].
func (s shared) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{upDesc, outagesDesc, degradedDesc, callsDesc, inFlightDesc, owedDesc, settledDesc, backDesc, lostDesc, savedDesc} {
		ch <- d
	}
}

// Collect is of [prometheus.Collector].
func (s shared) Collect(ch chan<- prometheus.Metric) {
	f := s.failure()
	up := 0.0
	if f.Healthy {
		up = 1
	}
	gauge := func(d *prometheus.Desc, v float64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v)
	}
	counter := func(d *prometheus.Desc, v uint64, label ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), label...)
	}
	gauge(upDesc, up)
	gauge(inFlightDesc, float64(f.InFlight))
	gauge(owedDesc, float64(f.Owed))
	counter(outagesDesc, f.Outages)
	counter(degradedDesc, f.Opened, failure.Open.String())
	counter(degradedDesc, f.Localized, failure.Local.String())
	counter(degradedDesc, f.Refused, failure.Closed.String())
	counter(callsDesc, f.Timeouts, "timeout")
	counter(callsDesc, f.Errors, "error")
	counter(callsDesc, f.Skipped, "skipped")
	counter(callsDesc, f.Crowded, "crowded")
	counter(settledDesc, f.Charged, "charged")
	counter(settledDesc, f.Dropped, "dropped")
	counter(backDesc, f.GivenBack)
	counter(lostDesc, f.NotGivenBack)
	counter(savedDesc, s.denials().Answered)
}

// WatchShared exports how a store that is shared with others fares: pass the
// Stats methods of what wraps it. They are called at every scrape. Only one
// store can be watched.
func (m *Metrics) WatchShared(of func() failure.Stats, denials func() denycache.Stats) {
	m.registry.MustRegister(shared{of, denials})
}
