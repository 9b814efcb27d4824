// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package examples_test

import (
	"os"
	"os/exec"
	"regexp"
	"testing"

	"github.com/sluicegate/sluice/internal/redistest"
)

// TestPrograms runs those that end by themselves. A slow machine may print other times.
func TestPrograms(t *testing.T) {
	redis := redistest.Start(t, redistest.Redis(t))
	t.Run("programs", func(t *testing.T) { // which end before Redis does
		for name, want := range map[string]string{
			"logins":    `^(try \d: wait 0s\n){5}try 6: wait ([1-9]|1[0-2])s\n$`,
			"worker":    `^(\d+\.\d s: job \d+\n){20}([2-9]|\d\d+)\.\d s: job \d+\n$`,
			"bytes":     `^60 MB: wait 0s\n30 MB: wait 0s\n20 MB: wait [1-6]s\n10 MB: wait 0s\n$`,
			"client":    `^reads: 100, requests: 1\n$`,
			"slots":     `^(\d+\.\d s: export \d\n){2}([1-9]\d*\.\d s: export \d\n){2}$`,
			"redis":     `^mail 1: true\nmail 2: true\nmail 3: true\nmail 4: false\n$`,
			"observe":   `^\S+ \S+ INFO denied scope=login retry_after=(30s|[12]?\d\.\d+s)\n$`,
			"gameskill": `^press 1: cast!\n(press [2-5]: (cast!|not ready, [0-2]\.\d s to go)\n){4}$`,
			"cardfraud": `^(suspicious attempt [12]: blocked false\n){2}(suspicious attempt [34]: blocked true\n){2}$`,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				cmd := exec.CommandContext(t.Context(), "go", "run", "./"+name)
				cmd.Env = append(os.Environ(), "REDIS_URL="+redis.URL())
				out, err := cmd.CombinedOutput()
				if err != nil || !regexp.MustCompile(want).Match(out) {
					t.Errorf("printed, %v:\n%s\nwant %s", err, out, want)
				}
			})
		}
	})
}
