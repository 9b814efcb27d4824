// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	_ "time/tzdata" // zones of calendar windows

	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/spec"
	"github.com/sluicegate/sluice/internal/testkit"
)

// onServer is a store on a real server; the test sets its clock.
type onServer struct {
	*Store
	micros *atomic.Int64
}

func (s onServer) Set(micros int64) { s.micros.Store(micros) }

// clocked returns a store on a server, under a prefix; the test sets its clock.
func clocked(t testing.TB, server *redistest.Server, prefix string) onServer {
	t.Helper()
	s, err := New(Over(server.Client(t)), Options{Prefix: prefix, Timeout: testkit.Ceiling, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	micros := new(atomic.Int64)
	s.inject = micros.Load
	testkit.Closed(t, s)
	return onServer{s, micros}
}

// numberOf returns a number from the environment, or other if it is not set.
func numberOf(t *testing.T, name string, other int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return other
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// TestSpecification runs random steps on a store on a real server and compares the decisions
// with the executable specification. SLUICE_SPEC_STEPS in the environment sets the number of
// steps, SLUICE_SPEC_SEED the seed.
func TestSpecification(t *testing.T) {
	steps := testkit.Steps(10_000, 100_000)
	server := redistest.Shared(t, redistest.Redis(t))
	var opened atomic.Int64
	open := func(t testing.TB) spec.Store { return clocked(t, server, fmt.Sprint("spec", opened.Add(1))) }
	spec.Random(t, open, numberOf(t, "SLUICE_SPEC_STEPS", steps), uint64(numberOf(t, "SLUICE_SPEC_SEED", 1)))
}
