// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/internal/testkit"
)

// TestCheckExamples: the scripts of examples/nginx-check and examples/caddy-check print what they
// are documented to print, with the real proxies.
func TestCheckExamples(t *testing.T) {
	for _, proxy := range []string{"nginx", "caddy"} {
		t.Run(proxy, func(t *testing.T) {
			t.Parallel()
			folder := filepath.Join("..", "..", "..", "examples", proxy+"-check")
			var ports []string
			for range 4 {
				ports = append(ports, fmt.Sprint(netip.MustParseAddrPort(testkit.FreeAddress(t)).Port()))
			}
			cmd := exec.CommandContext(t.Context(), "bash", filepath.Join(folder, "run.sh"))
			cmd.Env = append(os.Environ(), "SLUICE="+os.Args[0], "SLUICE_TEST_AS_PROGRAM=1", "PORTS="+strings.Join(ports, " "))
			got, err := cmd.CombinedOutput()
			if want := testkit.ReadFile(t, filepath.Join(folder, "output.txt")); err != nil || string(got) != string(want) {
				t.Errorf("%v, printed\n%swant\n%s", err, got, want)
			}
		})
	}
}
