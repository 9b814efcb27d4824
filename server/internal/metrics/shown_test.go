// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicegate/sluice/server/internal/metrics"
)

// TestShown: Shown gathers only the page's series, and a collector is in both registries or in
// none.
func TestShown(t *testing.T) {
	m := metrics.New()
	counter := func(name string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name})
	}
	failed, other := counter("sluice_operation_errors_total"), counter("sluice_decisions_total")
	r := m.Registerer()
	r.MustRegister(failed, other)
	names := func() (all []string) {
		families, err := m.Shown().Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			all = append(all, f.GetName())
		}
		return all
	}
	if got := names(); len(got) != 1 || got[0] != "sluice_operation_errors_total" {
		t.Errorf("shown are %v", got)
	}
	if err := r.Register(failed); err == nil {
		t.Error("a collector is registered twice")
	}
	if !r.Unregister(failed) || len(names()) != 0 || r.Unregister(failed) {
		t.Errorf("after it is gone %v are shown", names())
	}
	r.MustRegister(failed)
}
