// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// others are the requests of another client.
type others struct {
	took   []time.Duration // sorted; of those not served, until that was known
	failed int             // not served
}

// pacedOther is a client that sends requests at a steady rate over 8 connections.
// One that is due while its connection still waits is late, and its time counts
// from when it was due. It connects again where its connection is closed.
func pacedOther(ctx context.Context, address string, length time.Duration, rate int) (all others) {
	const connections = 8
	interval := connections * time.Second / time.Duration(rate)
	begin := time.Now()
	var mu sync.Mutex
	var wait sync.WaitGroup
	for n := range connections {
		wait.Go(func() {
			own := oneOther(ctx, address, begin.Add(interval*time.Duration(n)/connections), begin.Add(length), interval)
			mu.Lock()
			defer mu.Unlock()
			all.took, all.failed = append(all.took, own.took...), all.failed+own.failed
		})
	}
	wait.Wait()
	slices.Sort(all.took)
	return all
}

func oneOther(ctx context.Context, address string, due, end time.Time, interval time.Duration) (own others) {
	var c *client
	for ; ctx.Err() == nil && due.Before(end); due = due.Add(interval) {
		began := due
		if early := time.Until(due); early > 0 {
			pause(ctx, early)
			began = time.Now() // waking up late is this program's own doing
		}
		served := false
		if c == nil {
			c, _ = dial(ctx, address, "/other") // nil if nobody answers
		}
		if c != nil {
			status, err := c.do()
			served = err == nil && status == http.StatusOK
			if err != nil {
				_ = c.conn.Close() // it has failed
				c = nil
			}
		}
		own.took = append(own.took, time.Since(began))
		if !served {
			own.failed++
		}
	}
	if c != nil {
		_ = c.conn.Close() // its requests were answered
	}
	return own
}

// peak returns how much memory the process has had at most, in bytes.
func (p *process) peak() (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, after, ok := bytes.Cut(text, []byte("VmHWM:"))
	words := strings.Fields(string(after))
	if !ok || len(words) == 0 {
		return 0, fmt.Errorf("no VmHWM of process %d", p.cmd.Process.Pid)
	}
	n, err := strconv.ParseInt(words[0], 10, 64)
	return n << 10, err
}
