// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/profile"
)

// TestConformanceWithPlatforms plays what platforms document of their own limits
// on real servers, by a clock that is set.
func TestConformanceWithPlatforms(t *testing.T) {
	for _, b := range redistest.Binaries(t) {
		server := redistest.Start(t, b)
		for _, p := range profile.All() {
			for _, v := range p.Vectors {
				t.Run(b.Name+"/"+p.Name+"/"+v.Name, func(t *testing.T) {
					s := clocked(t, server, v.Name)
					if err := v.Play(t.Context(), s, func(now time.Time) { s.Set(now.UnixMicro()) }); err != nil {
						t.Error(err)
					}
				})
			}
		}
	}
}

// TestConformanceWithExamples runs the cases of examples/configs on a real server,
// by their clock.
func TestConformanceWithExamples(t *testing.T) {
	server := redistest.Start(t, redistest.Redis(t))
	files, err := filepath.Glob("../examples/configs/*.cases.yaml")
	if err != nil || len(files) < 6 {
		t.Fatalf("%d files of cases: %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".cases.yaml"), func(t *testing.T) {
			c, err := config.Load(strings.TrimSuffix(file, ".cases.yaml") + ".yaml")
			if err != nil {
				t.Fatal(err)
			}
			data, err := config.Read(file)
			if err != nil {
				t.Fatal(err)
			}
			stores := 0
			results, err := config.RunCases(t.Context(), c, file, data, func(now func() time.Time) sluice.Store {
				stores++
				s := clocked(t, server, fmt.Sprint(file, stores))
				s.inject = func() int64 { return now().UnixMicro() }
				return s
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range results.Cases {
				for _, f := range r.Failures {
					t.Errorf("%s: %v", r.Name, f)
				}
			}
			if stores != len(results.Cases) || stores == 0 {
				t.Errorf("%d stores for %d cases", stores, len(results.Cases))
			}
		})
	}
}
