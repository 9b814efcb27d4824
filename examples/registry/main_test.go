// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// TestCounts: of 7 requests 5 are allowed and 2 denied.
func TestCounts(t *testing.T) {
	handler, err := newHandler()
	if err != nil {
		t.Fatal(err)
	}
	get := func(path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w
	}
	for range 7 {
		get("/")
	}
	page := get("/metrics").Body.String()
	for _, want := range []string{
		`sluice_decisions_total{limit="token-bucket.min",scope="per-address",verdict="allowed"} 5`,
		`sluice_decisions_total{limit="token-bucket.min",scope="per-address",verdict="denied"} 2`,
	} {
		if !strings.Contains(page, want+"\n") {
			t.Errorf("the metrics lack %s:\n%s", want, page)
		}
	}
}

// TestOwnRegistry: nothing is registered elsewhere, so a second registry has its own.
func TestOwnRegistry(t *testing.T) {
	for range 2 {
		if _, err := newLimit(prometheus.NewRegistry()); err != nil {
			t.Fatal(err)
		}
	}
	families, err := prometheus.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "sluice_") {
			t.Errorf("%s is in the default registry", f.GetName())
		}
	}
}
