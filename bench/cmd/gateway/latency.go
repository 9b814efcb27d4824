// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// client is one connection that sends a request when the one before has been
// answered.
type client struct {
	conn    net.Conn
	r       *bufio.Reader
	request []byte
}

func dial(ctx context.Context, address, path string) (*client, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return &client{conn: conn, r: bufio.NewReader(conn), request: []byte("GET " + path + " HTTP/1.1\r\nHost: " + address + "\r\n\r\n")}, nil
}

const answerTimeout = 10 * time.Second

// do sends one request and returns the status of its answer.
func (c *client) do() (int, error) {
	if err := c.conn.SetDeadline(time.Now().Add(answerTimeout)); err != nil {
		return 0, err
	}
	if _, err := c.conn.Write(c.request); err != nil {
		return 0, err
	}
	resp, err := http.ReadResponse(c.r, nil)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, errors.Join(err, resp.Body.Close())
}

// latencies returns how long requests took of n connections that each send the
// next when the one before has been answered.
func latencies(ctx context.Context, address string, n int, length time.Duration) ([]time.Duration, error) {
	var mu sync.Mutex
	var all []time.Duration
	var faults []error
	var wait sync.WaitGroup
	end := time.Now().Add(length)
	for range n {
		wait.Go(func() {
			took, err := closedLoop(ctx, address, end)
			mu.Lock()
			defer mu.Unlock()
			all, faults = append(all, took...), append(faults, err)
		})
	}
	wait.Wait()
	return all, errors.Join(faults...)
}

// slice is how long one server is asked before the next is: what is compared
// differs by a few µs, and within seconds a shared machine changes by more.
const slice = 250 * time.Millisecond

// inTurns returns the sorted latencies of each server. Each is asked for the
// length in all, in slices, and who is first changes.
func inTurns(ctx context.Context, servers []*process, n int, length time.Duration) ([][]time.Duration, error) {
	all := make([][]time.Duration, len(servers))
	for turn := range int(length / slice) {
		for k := range servers {
			i := (turn + k) % len(servers)
			took, err := latencies(ctx, servers[i].address, n, slice)
			if err != nil {
				return nil, err
			}
			all[i] = append(all[i], took...)
		}
	}
	for _, took := range all {
		slices.Sort(took)
	}
	return all, nil
}

// warmRequests are not counted: in them connections are made.
const warmRequests = 100

func closedLoop(ctx context.Context, address string, end time.Time) (took []time.Duration, err error) {
	c, err := dial(ctx, address, "/")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.conn.Close()) }()
	for i := 0; ctx.Err() == nil; i++ {
		began := time.Now()
		status, err := c.do()
		now := time.Now()
		if err != nil {
			return nil, err
		}
		if status != http.StatusOK {
			return nil, fmt.Errorf("%s answers %d", address, status)
		}
		if i >= warmRequests {
			took = append(took, now.Sub(began))
		}
		if now.After(end) {
			return took, nil
		}
	}
	return nil, ctx.Err()
}

// quantile returns the value below which a share of them lies.
func quantile(sorted []time.Duration, share float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(share*float64(len(sorted))), len(sorted)-1)]
}
