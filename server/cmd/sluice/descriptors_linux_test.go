// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// What a process of 140 file descriptors divides: see package serve.
const (
	fewDescriptors  = 140
	fewClients      = 18
	fewToUpstreams  = 22
	manyAtOnce      = 40
	fullConnections = `sluice_upstream_connections_refused_total{reason="full"}`
)

// withDescriptors makes a program run with so many file descriptors.
func withDescriptors(n int) func(*exec.Cmd) {
	return func(c *exec.Cmd) {
		c.Args = append([]string{"sh", "-c", fmt.Sprintf(`ulimit -n %d; exec "$@"`, n), "sh"}, c.Args...)
		c.Path = "/bin/sh"
	}
}

// TestFewDescriptors: clients and upstreams together never take all file descriptors
// of the process. A request that finds no connection is answered, operators get in, and
// connections that are idle make room for those to another upstream.
func TestFewDescriptors(t *testing.T) {
	t.Parallel()
	one, other := servetest.NewHolding(t), servetest.NewHolding(t)
	file := filepath.Join(t.TempDir(), "sluice.yaml")
	admin := &servetest.Gateway{Admin: "http://" + testkit.FreeAddress(t)}
	yaml := fmt.Sprintf("listen: 127.0.0.1:0\nadmin: %q\nupstream: [{url: %q, path: /one}, {url: %q}]\nrules: [{name: api, limits: 1000000/min}]\n", strings.TrimPrefix(admin.Admin, "http://"), one.URL, other.URL)
	testkit.WriteFile(t, file, yaml)
	p := startProgramBy(t, withDescriptors(fewDescriptors), "--config", file)
	client := oneConnection(t)
	servetest.Fetch(t, client, p.url+"/.well-known/ratelimit") // by which the connection is there, and none to an upstream
	answers := make(chan servetest.Answer, manyAtOnce)
	for range manyAtOnce { // over one connection
		go func() { answers <- servetest.Fetch(t, client, p.url+"/one") }()
	}
	for range fewToUpstreams {
		<-one.Arrived
	}
	for range manyAtOnce - fewToUpstreams {
		if got := <-answers; got.Status != http.StatusServiceUnavailable || !strings.Contains(got.Body, "no connections left for the upstream") {
			t.Errorf("got %d %q, want 503 that says why", got.Status, got.Body)
		}
	}
	for range fewClients - 1 { // the others there may be
		servetest.Dial(t, p.url, "")
	}
	testkit.Until(t, "all clients to be let in", func() bool {
		return admin.Metrics(t)[`sluice_tcp_open_connections{listener="127.0.0.1:0"}`] == fewClients
	})
	now := admin.Metrics(t) // one in which nothing changes: its parts are read one after the other
	if open, full := now["sluice_upstream_connections"], now[fullConnections]; open != fewToUpstreams || full != manyAtOnce-fewToUpstreams {
		t.Errorf("%v open and %v refused in metrics, want %d and %d", open, full, fewToUpstreams, manyAtOnce-fewToUpstreams)
	}
	if fds := now["process_open_fds"]; fds < fewClients+fewToUpstreams || fds > fewDescriptors-20 {
		t.Errorf("%v file descriptors are open, of %d", fds, fewDescriptors)
	}
	close(one.Release)
	for range fewToUpstreams {
		if got := <-answers; got.Status != http.StatusOK {
			t.Errorf("held: got %d %q", got.Status, got.Body)
		}
	}
	again, until := 0.0, time.Now().Add(testkit.Ceiling)
	for range fewToUpstreams {
		go func() { answers <- servetest.Fetch(t, client, p.url+"/other") }()
	}
	for arrived := 0; arrived < fewToUpstreams; { // while those to the first are idle
		select {
		case <-other.Arrived:
			arrived++
		case got := <-answers: // a connection becomes idle a moment after its answer
			if got.Status != http.StatusServiceUnavailable || got.Header.Get("Retry-After") == "" {
				t.Fatalf("got %d %q from behind idle connections", got.Status, got.Body)
			}
			again++
			if !time.Now().Before(until) {
				t.Fatal("idle connections make no room")
			}
			go func() { answers <- servetest.Fetch(t, client, p.url+"/other") }()
		}
	}
	close(other.Release)
	for range fewToUpstreams {
		if got := <-answers; got.Status != http.StatusOK {
			t.Errorf("another upstream: got %d %q", got.Status, got.Body)
		}
	}
	now = admin.Metrics(t)
	if n := now[fullConnections]; n != manyAtOnce-fewToUpstreams+again {
		t.Errorf("%v refused in metrics, and idle ones were to make room", n)
	}
	if n := now[`sluice_upstream_connections_refused_total{reason="descriptors"}`]; n != 0 || strings.Contains(p.logs.String(), "too many open files") {
		t.Errorf("descriptors ran out %v times; logged %s", n, p.logs)
	}
}

// oneConnection returns a client that sends all requests over one connection.
func oneConnection(t *testing.T) *http.Client {
	t.Helper()
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: &protocols}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}
