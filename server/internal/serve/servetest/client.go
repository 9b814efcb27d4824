// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package servetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/internal/testkit"
)

// Answer is a response that was read to its end.
type Answer struct {
	Status int
	Header http.Header
	Body   string
}

// Request returns a request with these header fields: names and values in turn.
func Request(ctx context.Context, t testing.TB, method, url string, body io.Reader, header ...string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	return req
}

// Document returns the answer of the admin API to a GET, which must have status 200.
func Document[T any](t testing.TB, g *Gateway, path string, header ...string) (doc T) {
	t.Helper()
	a := Fetch(t, http.DefaultClient, g.Admin+path, header...)
	if err := json.Unmarshal([]byte(a.Body), &doc); err != nil || a.Status != http.StatusOK {
		t.Fatalf("%s: %d %s, %v", path, a.Status, a.Body, err)
	}
	return doc
}

// Send sends a request and reads its answer.
func Send(client *http.Client, req *http.Request) (Answer, error) {
	resp, err := client.Do(req)
	if err != nil {
		return Answer{}, err
	}
	body, err := io.ReadAll(resp.Body)
	return Answer{resp.StatusCode, resp.Header, string(body)}, errors.Join(err, resp.Body.Close())
}

// Do is [Send] that reports an error to t. It is safe for concurrent use.
func Do(t testing.TB, client *http.Client, req *http.Request) Answer {
	t.Helper()
	a, err := Send(client, req)
	if err != nil {
		t.Error(err)
	}
	return a
}

// Fetch gets a URL with header fields: names and values in turn. It is safe for concurrent
// use.
func Fetch(t testing.TB, client *http.Client, url string, header ...string) Answer {
	t.Helper()
	return Do(t, client, Request(t.Context(), t, http.MethodGet, url, nil, header...))
}

// Want is [Fetch] that reports any other status as an error.
func Want(t testing.TB, status int, client *http.Client, url string, header ...string) {
	t.Helper()
	if a := Fetch(t, client, url, header...); a.Status != status {
		t.Errorf("%s %q: got %d %s, want %d", url, header, a.Status, a.Body, status)
	}
}

// Get asks for a path, over kept connections.
func (g *Gateway) Get(t testing.TB, path string, header ...string) Answer {
	t.Helper()
	return Fetch(t, http.DefaultClient, g.URL+path, header...)
}

// Want asks for a path as Get does, and reports another status as an error.
func (g *Gateway) Want(t testing.TB, status int, path string, header ...string) {
	t.Helper()
	Want(t, status, http.DefaultClient, g.URL+path, header...)
}

// WantAll is [Gateway.Want] for several requests, one after the other.
func (g *Gateway) WantAll(t testing.TB, statuses []int, path string, header ...string) {
	t.Helper()
	for _, status := range statuses {
		g.Want(t, status, path, header...)
	}
}

// Ask sends a document to the admin's API.
func (g *Gateway) Ask(t testing.TB, method, path, document string) Answer {
	t.Helper()
	return Do(t, http.DefaultClient, Request(t.Context(), t, method, g.Admin+path, strings.NewReader(document), "Content-Type", "application/json"))
}

// Override sets a key's limit. It retries while the store is not connected yet.
func (g *Gateway) Override(t testing.TB, rule, part, value, limit string) {
	t.Helper()
	var a Answer
	testkit.Until(t, "a store to override in", func() bool {
		a = g.Ask(t, http.MethodPut, "/v1/override", fmt.Sprintf(`{"rule": %q, "parts": {%q: %q}, "limits": [%q], "reason": "x", "author": "eve"}`, rule, part, value, limit))
		return a.Status != http.StatusServiceUnavailable
	})
	if a.Status != http.StatusOK {
		t.Fatalf("override: %d %s", a.Status, a.Body)
	}
}

// Metrics returns the series of the admin's page with their values.
func (g *Gateway) Metrics(t testing.TB) map[string]float64 {
	t.Helper()
	return testkit.Metrics(t, Fetch(t, http.DefaultClient, g.Admin+"/metrics").Body)
}

// Ready returns the answer of /readyz.
func Ready(t testing.TB, g *Gateway) Answer {
	t.Helper()
	return Fetch(t, http.DefaultClient, g.Admin+"/readyz")
}

// Dial connects to the host of a URL, and sends a text. The connection is closed when the
// test ends, if not before.
func Dial(t testing.TB, url, text string) net.Conn {
	t.Helper()
	_, address, ok := strings.Cut(url, "://")
	if !ok {
		address = url
	}
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	testkit.Closed(t, conn)
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	return conn
}
