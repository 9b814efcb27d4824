// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/sluicegate/sluice/memstore"
)

// TestBytesAMinute: the third segment is let in at 80 MB; who has spent the quota gets no
// more, and others do.
func TestBytesAMinute(t *testing.T) {
	now := time.Date(2026, 1, 2, 10, 0, 0, 0, time.UTC)
	films, err := newFilms(memstore.New(memstore.Options{Now: func() time.Time { return now }}))
	if err != nil {
		t.Fatal(err)
	}
	var got []int
	for _, viewer := range []string{"ann", "ann", "ann", "ann", "bob"} {
		w := httptest.NewRecorder()
		w.Body = nil // the film is not kept
		films.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/segment?viewer="+viewer, nil))
		got = append(got, w.Code)
	}
	if want := []int{200, 200, 200, 429, 200}; !slices.Equal(got, want) {
		t.Errorf("statuses %v, want %v", got, want)
	}
}
