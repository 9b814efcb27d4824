// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package servetest

import (
	"errors"
	"fmt"
	"io"
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

// Send sends a request and reads its answer.
func Send(client *http.Client, req *http.Request) (Answer, error) {
	resp, err := client.Do(req)
	if err != nil {
		return Answer{}, err
	}
	body, err := io.ReadAll(resp.Body)
	return Answer{resp.StatusCode, resp.Header, string(body)}, errors.Join(err, resp.Body.Close())
}

// Fetch asks for a URL with header fields: names and values in turn. Many may call it at
// once.
func Fetch(t testing.TB, client *http.Client, url string, header ...string) Answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Error(err)
		return Answer{}
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	a, err := Send(client, req)
	if err != nil {
		t.Error(err)
	}
	return a
}

// Get asks for a path, over kept connections.
func (g *Gateway) Get(t testing.TB, path string, header ...string) Answer {
	t.Helper()
	return Fetch(t, http.DefaultClient, g.URL+path, header...)
}

// Ask sends a document to the admin's API.
func (g *Gateway) Ask(t testing.TB, method, path, document string) Answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, g.Admin+path, strings.NewReader(document))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	a, err := Send(http.DefaultClient, req)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// Override gives a key another limit. It asks again while the store cannot be asked, as it
// is not connected yet.
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

// Ready returns the admin's page of what is ready.
func Ready(t testing.TB, g *Gateway) Answer {
	t.Helper()
	return Fetch(t, http.DefaultClient, g.Admin+"/readyz")
}
