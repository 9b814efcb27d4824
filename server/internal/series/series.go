// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package series exports values as Prometheus series, which it reads at every scrape.
package series

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Collector is a set of series whose values are read at every scrape. It is a
// [prometheus.Collector] once all series were added and With was called.
type Collector struct {
	all     []Series
	collect func(chan<- prometheus.Metric)
}

// Series is the series of one name.
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

// With sets the function that sends the values, and returns c. The function is called at every
// scrape, also by several goroutines at once.
func (c *Collector) With(collect func(chan<- prometheus.Metric)) *Collector {
	c.collect = collect
	return c
}

// Put sends the value of the series with these labels.
func Put[N int | int64 | uint64 | float64](ch chan<- prometheus.Metric, s Series, n N, labels ...string) {
	m, err := prometheus.NewConstMetric(s.desc, s.kind, float64(n), labels...)
	if err != nil {
		m = prometheus.NewInvalidMetric(s.desc, err) // the scrape reports the error
	}
	ch <- m
}

// Truth returns 1 for true and 0 for false.
func Truth(so bool) int {
	if so {
		return 1
	}
	return 0
}

// Label returns s as a label value: invalid UTF-8 is replaced.
func Label(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// Describe implements [prometheus.Collector].
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, s := range c.all {
		ch <- s.desc
	}
}

// Collect implements [prometheus.Collector].
func (c *Collector) Collect(ch chan<- prometheus.Metric) { c.collect(ch) }
