// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/memstore"
)

func TestRoutes(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	handler, err := routes(memstore.New(memstore.Options{Now: func() time.Time { return now }}))
	if err != nil {
		t.Fatal(err)
	}
	send := func(method, path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(method, path, nil))
		return w
	}

	var got []int
	for _, user := range []string{"u1", "u1", "u1", "u1", "u2"} {
		got = append(got, send(http.MethodPost, "/users/"+user+"/messages").Code)
	}
	var last *httptest.ResponseRecorder
	for range 6 { // five requests have been sent already
		last = send(http.MethodGet, "/users/u1")
		got = append(got, last.Code)
	}
	if want := []int{201, 201, 201, 429, 201, 200, 200, 200, 200, 200, 429}; !slices.Equal(got, want) {
		t.Errorf("statuses %v, want %v", got, want)
	}
	if !strings.Contains(last.Body.String(), `"violated-policies":["per-address"]`) {
		t.Errorf("the denial: %s", last.Body)
	}
}

// TestServeUntilStopped: both limits are in the fields of an answer, the outer one first.
func TestServeUntilStopped(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- serve(ctx, listener) }()
	resp, err := http.Post("http://"+listener.Addr().String()+"/users/u1/messages", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Fatal(err)
	}
	policies := strings.Join(resp.Header["Ratelimit-Policy"], ", ") // a client reads names in Go's case
	if resp.StatusCode != http.StatusCreated || policies != `"per-address";q=10;w=1, "per-user";q=3;w=60` {
		t.Errorf("status %d, policies %s", resp.StatusCode, policies)
	}
	stop()
	if err := <-done; err != nil {
		t.Errorf("stopped with %v", err)
	}
	if _, err := listener.Accept(); !errors.Is(err, net.ErrClosed) { // another test may have its port by now
		t.Errorf("the listener: got %v, want %v", err, net.ErrClosed)
	}
}
