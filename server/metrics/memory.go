// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicegate/sluice/memstore"
)

// memory collects from one Stats per scrape, since each walks all shards.
type memory struct{ stats func() memstore.Stats }

var (
	keysDesc     = prometheus.NewDesc("sluice_keys", "States held in memory: one for each key under each limit.", nil, nil)
	bytesDesc    = prometheus.NewDesc("sluice_store_bytes", "Memory that these take, room for growth included.", nil, nil)
	evictedDesc  = prometheus.NewDesc("sluice_evictions_total", "States forgotten for lack of room before they were as never seen.", nil, nil)
	forgivenDesc = prometheus.NewDesc("sluice_forgiven_seconds_total", "Time after which the evicted states would have been as never seen, in all.", nil, nil)
)

// Describe is of [prometheus.Collector].
func (m memory) Describe(ch chan<- *prometheus.Desc) {
	ch <- keysDesc
	ch <- bytesDesc
	ch <- evictedDesc
	ch <- forgivenDesc
}

// Collect is of [prometheus.Collector].
func (m memory) Collect(ch chan<- prometheus.Metric) {
	s := m.stats()
	ch <- prometheus.MustNewConstMetric(keysDesc, prometheus.GaugeValue, float64(s.States))
	ch <- prometheus.MustNewConstMetric(bytesDesc, prometheus.GaugeValue, float64(s.Bytes))
	ch <- prometheus.MustNewConstMetric(evictedDesc, prometheus.CounterValue, float64(s.Evicted))
	ch <- prometheus.MustNewConstMetric(forgivenDesc, prometheus.CounterValue, s.Forgiven.Seconds())
}
