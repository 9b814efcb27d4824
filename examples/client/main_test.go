// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice/internal/testkit"
)

// TestRepeatedReads: of a read each second for ten minutes, under 5 a minute, the API is
// sent the first and one each half minute, and denies none. Reads of something else pay.
func TestRepeatedReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, err := newAPI()
		if err != nil {
			t.Fatal(err)
		}
		statuses := make(map[int]int)
		pipes := testkit.NewPipes()
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			noted := &status{ResponseWriter: w, code: http.StatusOK}
			api.ServeHTTP(noted, r)
			statuses[noted.code]++
		})}
		done := make(chan error, 1)
		go func() { done <- server.Serve(pipes) }()
		base := &http.Transport{DialContext: pipes.Dial}
		client, err := newClient(base)
		if err != nil {
			t.Fatal(err)
		}
		for range 10 * 60 {
			if err := read(client, "http://api.test/rates"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if got, asked := statuses[http.StatusOK], statuses[http.StatusNotModified]; got != 1 || asked < 15 || asked > 20 || len(statuses) != 2 {
			t.Errorf("the API sent %v; want 200 once and 304 each half minute", statuses)
		}
		start := time.Now()
		for _, path := range []string{"/a", "/b", "/c", "/d", "/e", "/f", "/g"} {
			if err := read(client, "http://api.test"+path); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(start); took < 12*time.Second || statuses[http.StatusOK] != 8 || len(statuses) != 2 {
			t.Errorf("seven other reads took %v, and the API sent %v; want the limit kept to", took, statuses)
		}
		base.CloseIdleConnections()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
}

// status notes the status of a response.
type status struct {
	http.ResponseWriter
	code int
}

func (s *status) WriteHeader(code int) {
	s.code = code
	s.ResponseWriter.WriteHeader(code)
}
