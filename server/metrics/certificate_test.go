// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"testing"
	"time"

	"github.com/sluicegate/sluice/server/metrics"
)

func TestCertificates(t *testing.T) {
	m := metrics.New()
	m.WatchCertificates(func() map[string]metrics.Certificate {
		return map[string]metrics.Certificate{
			"a": {NotAfter: time.Unix(1_700_000_000, 0), Current: true},
			"b": {NotAfter: time.Unix(1_600_000_000, 0)},
		}
	})
	got := scrape(t, m)
	for series, want := range map[string]float64{
		`sluice_certificate_not_after_seconds{listener="a"}`: 1_700_000_000,
		`sluice_certificate_not_after_seconds{listener="b"}`: 1_600_000_000,
		`sluice_certificate_current{listener="a"}`:           1,
		`sluice_certificate_current{listener="b"}`:           0,
	} {
		if v, ok := got[series]; !ok || v != want {
			t.Errorf("%s: got %v, want %v", series, v, want)
		}
	}
}
