// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// series is a [prometheus.Collector] of values that each scrape asks for.
type series struct {
	all     []*prometheus.Desc
	collect func(chan<- prometheus.Metric)
}

// described is the series of one name.
type described struct {
	*prometheus.Desc
	kind prometheus.ValueType
}

func (c *series) gauge(name, help string, labels ...string) described {
	c.all = append(c.all, prometheus.NewDesc(name, help, labels, nil))
	return described{c.all[len(c.all)-1], prometheus.GaugeValue}
}

func (c *series) counter(name, help string, labels ...string) described {
	return described{c.gauge(name, help, labels...).Desc, prometheus.CounterValue}
}

// put sends the value of the series with these labels.
func put[N int | int64 | uint64 | float64](ch chan<- prometheus.Metric, s described, n N, labels ...string) {
	m, err := prometheus.NewConstMetric(s.Desc, s.kind, float64(n), labels...)
	if err != nil {
		m = prometheus.NewInvalidMetric(s.Desc, err) // the scrape reports it
	}
	ch <- m
}

// label returns s as the value of a label, which is UTF-8.
func label(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// Describe implements [prometheus.Collector].
func (c *series) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.all {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *series) Collect(ch chan<- prometheus.Metric) { c.collect(ch) }
