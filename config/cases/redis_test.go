// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package cases_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/config/cases"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/redistest/teststore"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/redisstore"
)

// TestCasesOnRedis: the cases of all files have the same results on every server as in memory,
// to the µs.
func TestCasesOnRedis(t *testing.T) {
	files, err := filepath.Glob("../../examples/configs/*.cases.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("there are no cases", err)
	}
	both, err := filepath.Glob("testdata/both/*.cases.yaml")
	if err != nil || len(both) == 0 {
		t.Fatal("there are no cases of both", err)
	}
	files = append(files, both...)
	files = append(files, "testdata/cases/cases.yaml")
	for _, b := range redistest.Binaries(t) {
		t.Run(b.Name, func(t *testing.T) { playCases(t, redistest.Start(t, b), files) })
	}
}

func playCases(t *testing.T, server *redistest.Server, files []string) {
	t.Helper()
	inMemory := func(now func() time.Time) sluice.Store { return memstore.New(memstore.Options{Now: now}) }
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".cases.yaml")
		t.Run(name, func(t *testing.T) {
			of := strings.TrimSuffix(file, ".cases.yaml") + ".yaml"
			if of == file+".yaml" {
				of = filepath.Join(filepath.Dir(file), "policy.yaml")
			}
			c, err := config.Load(of)
			if err != nil {
				t.Fatal(err)
			}
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			stores := 0
			onServer := func(now func() time.Time) sluice.Store {
				stores++
				return teststore.AtTime(t, server.Addr, redisstore.Options{Prefix: name + strconv.Itoa(stores), Timeout: testkit.Ceiling, Logger: slog.New(slog.DiscardHandler)}, now)
			}
			want, got := results(t, c, data, inMemory), results(t, c, data, onServer)
			if got != want {
				t.Errorf("on a server:\n%s\nin memory:\n%s", got, want)
			}
		})
	}
}

// results returns the result of the cases of a file.
func results(t *testing.T, c *config.Config, data []byte, newStore func(func() time.Time) sluice.Store) string {
	t.Helper()
	r, err := cases.Run(t.Context(), c, "cases", data, newStore)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := r.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
