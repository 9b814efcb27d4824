// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import "github.com/prometheus/client_golang/prometheus"

// collector is series whose values are asked for at every scrape.
type collector struct {
	all     []series
	collect func(chan<- prometheus.Metric)
}

// series are those of one name.
type series struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

func (c *collector) gauge(name, help string, labels ...string) series {
	return c.add(name, help, prometheus.GaugeValue, labels)
}

func (c *collector) counter(name, help string, labels ...string) series {
	return c.add(name, help, prometheus.CounterValue, labels)
}

func (c *collector) add(name, help string, kind prometheus.ValueType, labels []string) series {
	s := series{prometheus.NewDesc(name, help, labels, nil), kind}
	c.all = append(c.all, s)
	return s
}

// watch registers c, whose values are put by collect.
func (m *Metrics) watch(c *collector, collect func(chan<- prometheus.Metric)) {
	c.collect = collect
	m.registry.MustRegister(c)
}

// put sends the value of that of the series which has these labels.
func put[N int | int64 | uint64 | float64](ch chan<- prometheus.Metric, s series, n N, labels ...string) {
	ch <- prometheus.MustNewConstMetric(s.desc, s.kind, float64(n), labels...)
}

// truth returns 1 for what is so.
func truth(so bool) int {
	if so {
		return 1
	}
	return 0
}

// Describe is of [prometheus.Collector].
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, s := range c.all {
		ch <- s.desc
	}
}

// Collect is of [prometheus.Collector].
func (c *collector) Collect(ch chan<- prometheus.Metric) { c.collect(ch) }
