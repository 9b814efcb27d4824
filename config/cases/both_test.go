// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package cases_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/config/cases"
)

// The cases of testdata/both hold. A test of package redisstore runs them, too.
func TestCasesOfBothStores(t *testing.T) {
	files, err := filepath.Glob("testdata/both/*.cases.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(file, ".cases.yaml")
		t.Run(filepath.Base(name), func(t *testing.T) {
			c, err := config.Load(name + ".yaml")
			if err != nil {
				t.Fatal(err)
			}
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			results, err := cases.Run(t.Context(), c, file, data, newStore)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range results.Cases {
				for _, f := range r.Failures {
					t.Errorf("%s: %v", r.Name, &f)
				}
			}
		})
	}
}
