// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/internal/redistest"
)

// warning returns the first line of the log that says a text, once it is there.
func (r *running) warning(t *testing.T, text string) (found string) {
	t.Helper()
	until(t, "the log to say "+text, func() bool {
		for line := range strings.Lines(r.logs.String()) {
			if strings.Contains(line, text) {
				found = line
				return true
			}
		}
		return false
	})
	return found
}

// giveUp asks until the store is given up, which requests find out.
func (r *running) giveUp(t *testing.T) {
	t.Helper()
	until(t, "the store to be given up", func() bool {
		r.get(t, "/?userId=u")
		return r.metrics(t)["sluice_store_up"] == 0
	})
}

// What the log says of requests in an outage is what the rules say, at the start
// and later.
func TestSiteOutageLog(t *testing.T) {
	const want = `meanwhile="each rule goes on as its failure says"`
	server := redistest.Start(t, redistest.Redis(t))
	yaml := fmt.Sprintf("store: {redis: {url: \"redis://%s\"}}\nrules: [{name: a, limits: 1000/min, failure: closed}]\n", server.Addr)
	s := startSite(t, yaml)
	server.Kill(t)
	s.giveUp(t)
	if got := s.warning(t, "the store is away"); !strings.Contains(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := startSite(t, yaml).warning(t, "the store cannot be reached"); !strings.Contains(got, want) {
		t.Errorf("at the start: got %q, want %q", got, want)
	}
}
