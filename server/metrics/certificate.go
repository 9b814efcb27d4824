// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Certificate is how the certificate of a listener fares.
type Certificate struct {
	NotAfter time.Time // when what serves expires
	Current  bool      // it is what its files hold
}

// WatchCertificates exports how the certificates of listeners fare, by their
// names. It is asked at every scrape.
//
//	sluice_certificate_not_after_seconds{listener}  when what serves expires
//	sluice_certificate_current{listener}            0 while what its files hold does not serve
func (m *Metrics) WatchCertificates(of func() map[string]Certificate) {
	m.registry.MustRegister(certificates(of))
}

type certificates func() map[string]Certificate

var (
	notAfterDesc    = prometheus.NewDesc("sluice_certificate_not_after_seconds", "When the certificate that serves expires, in seconds since 1970.", []string{"listener"}, nil)
	certCurrentDesc = prometheus.NewDesc("sluice_certificate_current", "0 while what the files of the certificate hold could not be put in force.", []string{"listener"}, nil)
)

// Describe is of [prometheus.Collector].
func (c certificates) Describe(ch chan<- *prometheus.Desc) {
	ch <- notAfterDesc
	ch <- certCurrentDesc
}

// Collect is of [prometheus.Collector].
func (c certificates) Collect(ch chan<- prometheus.Metric) {
	for name, cert := range c() {
		current := 0.0
		if cert.Current {
			current = 1
		}
		ch <- prometheus.MustNewConstMetric(notAfterDesc, prometheus.GaugeValue, float64(cert.NotAfter.Unix()), name)
		ch <- prometheus.MustNewConstMetric(certCurrentDesc, prometheus.GaugeValue, current, name)
	}
}
