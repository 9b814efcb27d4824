// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"
)

// The requests of the group fronts: one, and as many as liveKeys in batches before others.
const (
	apiRequest = `{"rule": "all", "headers": {"X-User": ["ada"]}}`
	inBatch    = 100
	liveKeys   = 1_000_000
)

// readJSON is a handler that reads and writes JSON of the size that the API does.
func readJSON(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Rule, Method, Path, Client string
		Headers                    map[string][]string
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{ //nolint:errchkjson // a client that is gone
		"allowed": true, "verdict": "allowed", "limit": in.Rule, "cost": 1, "remaining": 999_999_999, "reset_after_ms": 1, "receipt": "1.holjis1e3t.holjis1e3t.1",
	})
}

// fronts measures the API beside an empty server of JSON: one request at a time and many, and
// the latency with many keys.
func (m *measurer) fronts(ctx context.Context) error {
	batch := `{"requests": [` + strings.Repeat(apiRequest+",", inBatch-1) + apiRequest + "]}"
	if err := m.idle(ctx); err != nil {
		return err
	}
	return m.saturated(ctx, "Fronts", []contender{
		{"json", withBody(role("json"), apiRequest)},
		{"api", withBody(startAPI, apiRequest)},
		{"api.batch", withBody(startAPI, batch)},
		{"api.live", withBody(m.startLive, apiRequest)},
	}, 0)
}

// idleConnections are open at once, each after a request: as many as 20,000 descriptors allow.
const idleConnections = 9_000

// idle measures the memory of connections to the API that wait for another request.
func (m *measurer) idle(ctx context.Context) (err error) {
	address, err := freeAddress(ctx)
	if err != nil {
		return err
	}
	p, err := startAPI(ctx, m.house, address)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	before, err := residentMemory(p.cmd.Process.Pid)
	if err != nil {
		return err
	}
	var dialer net.Dialer
	call := fmt.Sprintf("POST /v1/take HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(apiRequest), apiRequest)
	for n := range idleConnections {
		c, err := dialer.DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		if _, err = io.WriteString(c, call); err != nil {
			return err
		}
		if _, err = c.Read(make([]byte, 4096)); err != nil {
			return fmt.Errorf("connection %d: %w; the API said:\n%s", n, err, p.said)
		}
	}
	after, err := residentMemory(p.cmd.Process.Pid)
	if err != nil {
		return err
	}
	return m.keep(1, "FrontsIdle", "api", idleConnections, (after-before)*1000/idleConnections, "KB/connection")
}

// withBody returns a contender whose requests have a body.
func withBody(of func(context.Context, *house, string) (*process, error), body string) func(context.Context, *house, string) (*process, error) {
	return func(ctx context.Context, h *house, address string) (*process, error) {
		script, err := h.file(fmt.Sprintf("ask-%d.lua", len(body)), fmt.Sprintf("wrk.method, wrk.path, wrk.body = 'POST', '/v1/take', [[%s]]\nwrk.headers['Content-Type'] = 'application/json'\n", body))
		if err != nil {
			return nil, err
		}
		p, err := of(ctx, h, address)
		if err == nil {
			p.script = script
		}
		return p, err
	}
}

func startAPI(ctx context.Context, h *house, address string) (*process, error) {
	name, err := h.file("api.yaml", fmt.Sprintf("listen: {address: %q, serve: api}\nadmin: \"off\"\nstore: {memory: {max_keys: %d}}\nrules:\n  - {name: all, by: header.X-User, limits: %s}\n", address, 2*liveKeys, "1000000/day sliding-counter"))
	if err != nil {
		return nil, err
	}
	p, err := launch(ctx, address, h.sluice, "serve", "--config", name)
	if err != nil {
		return nil, err
	}
	for tries := 0; ; tries++ { // it has nothing at /
		if err = post(ctx, address, strings.NewReader(apiRequest)); err == nil {
			return p, nil
		}
		if tries == 100 {
			return nil, errors.Join(fmt.Errorf("the API: %w; it said:\n%s", err, p.said), p.stop())
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// startLive starts an API, fills it with keys, and measures the latency of single requests for
// random ones.
func (m *measurer) startLive(ctx context.Context, h *house, address string) (p *process, err error) {
	if p, err = startAPI(ctx, h, address); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.stop())
		}
	}()
	one := func(key int) string {
		return strings.Replace(apiRequest, "ada", fmt.Sprint("user-", key), 1)
	}
	for key := 0; key < liveKeys; key += 1000 {
		var b bytes.Buffer
		b.WriteString(`{"requests": [` + one(key))
		for i := 1; i < 1000; i++ {
			b.WriteString("," + one(key+i))
		}
		b.WriteString("]}")
		if err = post(ctx, address, &b); err != nil {
			return p, err
		}
	}
	took := make([]time.Duration, 20_000)
	for i := range took {
		body := strings.NewReader(one(rand.IntN(liveKeys)))
		began := time.Now()
		if err = post(ctx, address, body); err != nil {
			return p, err
		}
		took[i] = time.Since(began)
	}
	slices.Sort(took)
	return p, m.keep(1, "FrontsLatency", "api.live", len(took), micro(quantile(took, 0.5)), "p50-µs", micro(quantile(took, 0.99)), "p99-µs")
}

// post makes a call of the API.
func post(ctx context.Context, address string, body io.Reader) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/v1/take", body)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New("the API answers " + resp.Status)
	}
	return err
}
