// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package series exports values that are kept elsewhere as Prometheus series: they
// are asked for at every scrape.
package series

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Collector is series whose values are asked for at every scrape: a
// [prometheus.Collector] once all of them were added, and it has With.
type Collector struct {
	all     []Series
	collect func(chan<- prometheus.Metric)
}

// Series are those of one name.
type Series struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

// Gauge adds a gauge.
func (c *Collector) Gauge(name, help string, labels ...string) Series {
	return c.add(name, help, prometheus.GaugeValue, labels)
}

// Counter adds a counter.
func (c *Collector) Counter(name, help string, labels ...string) Series {
	return c.add(name, help, prometheus.CounterValue, labels)
}

func (c *Collector) add(name, help string, kind prometheus.ValueType, labels []string) Series {
	s := Series{desc: prometheus.NewDesc(name, help, labels, nil), kind: kind}
	c.all = append(c.all, s)
	return s
}

// With says what puts the values, which is called at every scrape, also at once by
// several. It returns c.
func (c *Collector) With(collect func(chan<- prometheus.Metric)) *Collector {
	c.collect = collect
	return c
}

// Put sends the value of that of the series which has these labels.
func Put[N int | int64 | uint64 | float64](ch chan<- prometheus.Metric, s Series, n N, labels ...string) {
	m, err := prometheus.NewConstMetric(s.desc, s.kind, float64(n), labels...)
	if err != nil {
		m = prometheus.NewInvalidMetric(s.desc, err) // which the scrape reports
	}
	ch <- m
}

// Truth returns 1 for what is so.
func Truth(so bool) int {
	if so {
		return 1
	}
	return 0
}

// Label returns s as the value of a label can be: in UTF-8.
func Label(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// Describe is of [prometheus.Collector].
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, s := range c.all {
		ch <- s.desc
	}
}

// Collect is of [prometheus.Collector].
func (c *Collector) Collect(ch chan<- prometheus.Metric) { c.collect(ch) }
