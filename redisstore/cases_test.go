// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/internal/redistest"
)

// TestCasesHold plays the cases of the examples, and of what token buckets can do,
// on a server: they hold there as in memory, to the µs.
func TestCasesHold(t *testing.T) {
	files, err := filepath.Glob("../examples/configs/*.cases.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d examples: %v", len(files), err)
	}
	policies := map[string]string{"../config/testdata/buckets/buckets.cases.yaml": "../config/testdata/buckets/policy.yaml"}
	for _, file := range files {
		policies[file] = strings.TrimSuffix(file, ".cases.yaml") + ".yaml"
	}
	for _, b := range redistest.Binaries(t) {
		server := redistest.Start(t, b)
		for file, policy := range policies {
			t.Run(b.Name+"/"+filepath.Base(file), func(t *testing.T) {
				c, err := config.Load(policy)
				if err != nil {
					t.Fatal(err)
				}
				data, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				cases := 0
				results, err := config.RunCases(t.Context(), c, filepath.Base(file), data, func(now func() time.Time) sluice.Store {
					cases++ // each has keys of its own
					s := clocked(t, server, t.Name()+strconv.Itoa(cases))
					s.inject = func() int64 { return now().UnixMicro() }
					return s.Store
				})
				if err != nil {
					t.Fatal(err)
				}
				var text strings.Builder
				if err := results.WriteText(&text); err != nil || results.Failed() > 0 || cases == 0 {
					t.Errorf("%v\n%s", err, text.String())
				}
			})
		}
	}
}
