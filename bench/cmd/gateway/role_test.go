// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
)

// TestConstantIsTheDenial: the server that denies from constants answers as sluice does,
// so that what the two cost can be compared.
func TestConstantIsTheDenial(t *testing.T) {
	limit, err := sluice.ParseLimit("1/day")
	if err != nil {
		t.Fatal(err)
	}
	m, err := httplimit.Limit(memstore.New(memstore.Options{}), "gateway", policy.IP(), limit.WithName("gateway"))
	if err != nil {
		t.Fatal(err)
	}
	h := m.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", http.NoBody))
	want, got := httptest.NewRecorder(), httptest.NewRecorder()
	h.ServeHTTP(want, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
	deny(got, nil)
	if got.Code != want.Code || !maps.EqualFunc(got.Header(), want.Header(), slices.Equal) || got.Body.String() != want.Body.String() {
		t.Errorf("got %d %v\n%s\nwant %d %v\n%s", got.Code, got.Header(), got.Body, want.Code, want.Header(), want.Body)
	}
}
