// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicegate/sluice/gateway/tcp"
)

// CountTCP counts what became of a connection at the listener of that name:
//
//	sluice_tcp_connections_total{listener,verdict}  allowed, denied-client, denied-rate, denied-open, undecided
func (m *Metrics) CountTCP(listener string, e tcp.Event) {
	m.connections.WithLabelValues(listener, e.Verdict.String()).Inc()
}

// WatchTCP exports what passes TCP listeners, by their names. It is asked at
// every scrape.
//
//	sluice_tcp_open_connections{listener}
//	sluice_tcp_bytes_total{listener,direction}  received from clients, and sent to them
func (m *Metrics) WatchTCP(stats func() map[string]tcp.Stats) {
	m.registry.MustRegister(connections{stats})
}

type connections struct{ stats func() map[string]tcp.Stats }

var (
	tcpOpenDesc  = prometheus.NewDesc("sluice_tcp_open_connections", "TCP connections that are there now.", []string{"listener"}, nil)
	tcpBytesDesc = prometheus.NewDesc("sluice_tcp_bytes_total", "Bytes passed on over TCP.", []string{"listener", "direction"}, nil)
)

// Describe is of [prometheus.Collector].
func (c connections) Describe(ch chan<- *prometheus.Desc) {
	ch <- tcpOpenDesc
	ch <- tcpBytesDesc
}

// Collect is of [prometheus.Collector].
func (c connections) Collect(ch chan<- prometheus.Metric) {
	for name, s := range c.stats() {
		ch <- prometheus.MustNewConstMetric(tcpOpenDesc, prometheus.GaugeValue, float64(s.Open), name)
		ch <- prometheus.MustNewConstMetric(tcpBytesDesc, prometheus.CounterValue, float64(s.Received), name, "received")
		ch <- prometheus.MustNewConstMetric(tcpBytesDesc, prometheus.CounterValue, float64(s.Sent), name, "sent")
	}
}
