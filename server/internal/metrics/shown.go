// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// shownSeries are the series that the page shows.
var shownSeries = []string{"sluice_operation_duration_seconds", "sluice_operation_errors_total", "sluice_build_info"}

// registerer registers a collector in a registry and, if it has shown series, in a second one.
type registerer struct {
	*registry
	shown *prometheus.Registry
}

type registry = prometheus.Registry

// Register registers c in both, or in none.
func (r registerer) Register(c prometheus.Collector) error {
	if err := r.registry.Register(c); err != nil || !isShown(c) {
		return err
	}
	if err := r.shown.Register(c); err != nil {
		r.registry.Unregister(c)
		return err
	}
	return nil
}

// MustRegister registers each collector, and panics if that fails.
func (r registerer) MustRegister(all ...prometheus.Collector) {
	r.registry.MustRegister(all...)
	for _, c := range all {
		if isShown(c) {
			r.shown.MustRegister(c)
		}
	}
}

// Unregister unregisters c, and reports whether it was registered.
func (r registerer) Unregister(c prometheus.Collector) bool {
	r.shown.Unregister(c)
	return r.registry.Unregister(c)
}

func isShown(c prometheus.Collector) (shown bool) {
	all := make(chan *prometheus.Desc)
	go func() {
		defer close(all)
		c.Describe(all)
	}()
	for d := range all {
		shown = shown || slices.ContainsFunc(shownSeries, func(name string) bool { return strings.Contains(d.String(), `"`+name+`"`) })
	}
	return shown
}
