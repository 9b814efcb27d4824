// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
)

func TestRoutes(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	handler, err := routes(memstore.New(memstore.Options{Now: func() time.Time { return now }}))
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(handler)
	defer srv.Close()
	send := func(method, path string) (status int, header http.Header, body string) {
		req, err := http.NewRequestWithContext(t.Context(), method, srv.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := srv.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		all, err := io.ReadAll(resp.Body)
		if err := errors.Join(err, resp.Body.Close()); err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, resp.Header, string(all)
	}

	var got []int
	for range 4 {
		status, _, _ := send(http.MethodPost, "/users/u1/messages")
		got = append(got, status)
	}
	status, header, _ := send(http.MethodPost, "/users/u2/messages")
	got = append(got, status)
	if want := []int{201, 201, 201, 429, 201}; !slices.Equal(got, want) {
		t.Errorf("posts: statuses %v, want %v", got, want)
	}
	// Both limits speak: the outer one first.
	if policies := strings.Join(header.Values("RateLimit-Policy"), ", "); policies != `"per-address";q=10;w=1, "per-user";q=3;w=60` {
		t.Errorf("RateLimit-Policy: %s", policies)
	}

	got = nil
	var last string
	for range 6 { // five requests have been sent already
		status, _, body := send(http.MethodGet, "/users/u1")
		got = append(got, status)
		last = body
	}
	if want := []int{200, 200, 200, 200, 200, 429}; !slices.Equal(got, want) {
		t.Errorf("gets: statuses %v, want %v", got, want)
	}
	if !strings.Contains(last, `"violated-policies":["per-address"]`) {
		t.Errorf("the denial: %s", last)
	}
}

func TestServeUntilStopped(t *testing.T) {
	listener, err := net.Listen("tcp", testkit.FreeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- serve(ctx, listener) }()
	resp, err := http.Get("http://" + listener.Addr().String() + "/users/u1")
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK || resp.Header["Ratelimit"] == nil { // a client reads names in Go's case
		t.Errorf("status %d, fields %v", resp.StatusCode, resp.Header)
	}
	stop()
	if err := <-done; err != nil {
		t.Errorf("stopped with %v", err)
	}
	if conn, err := net.Dial("tcp", listener.Addr().String()); err == nil {
		t.Errorf("still listening; closing: %v", conn.Close())
	}
}
