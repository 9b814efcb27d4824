// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
)

// connections is over how many connections requests are sent.
const connections = 32

// tally is the outcomes of requests.
type tally struct {
	passed, denied, failed int
	by                     map[string]int // who let requests pass
}

// ask sends n requests of a user over many connections. Anything that is
// neither passed nor denied has failed.
func ask(ctx context.Context, url, user string, n int) (tally, error) {
	return askSeen(ctx, url, user, n, func() {})
}

// askSeen is ask, and calls seen after each answer.
func askSeen(ctx context.Context, url, user string, n int, seen func()) (tally, error) {
	transport := &http.Transport{MaxIdleConnsPerHost: connections}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	sum := tally{by: make(map[string]int)}
	var (
		left  atomic.Int64
		mu    sync.Mutex
		group sync.WaitGroup
		fault error
	)
	left.Store(int64(n))
	for range connections {
		group.Go(func() {
			for left.Add(-1) >= 0 {
				status, who, err := askOnce(ctx, client, url+"/?userId="+user)
				mu.Lock()
				switch status {
				case http.StatusOK:
					sum.passed++
				case http.StatusTooManyRequests:
					sum.denied++
				default:
					sum.failed++
				}
				if who != "" {
					sum.by[who]++
				}
				fault = errors.Join(fault, err)
				mu.Unlock()
				seen()
			}
		})
	}
	group.Wait()
	return sum, fault
}

// askOnce sends one request and returns the answer's status, and the node that let it pass.
func askOnce(ctx context.Context, client *http.Client, url string) (status int, who string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	if err != nil {
		return resp.StatusCode, "", err
	}
	var answer struct {
		Process string `json:"processName"`
	}
	_ = json.Unmarshal(body, &answer) // a denial names no process
	return resp.StatusCode, answer.Process, nil
}

func (t tally) plus(u tally) tally {
	sum := tally{t.passed + u.passed, t.denied + u.denied, t.failed + u.failed, make(map[string]int)}
	for _, of := range []tally{t, u} {
		for who, n := range of.by {
			sum.by[who] += n
		}
	}
	return sum
}
