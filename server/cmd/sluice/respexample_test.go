// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/sluicegate/sluice/internal/testkit"
)

// TestRESPExample: the script of examples/resp prints what it is documented to print, with
// go-redis, redis-py and node-redis.
func TestRESPExample(t *testing.T) {
	t.Parallel()
	folder := filepath.Join("..", "..", "..", "examples", "resp")
	cmd := exec.CommandContext(t.Context(), "bash", filepath.Join(folder, "run.sh"))
	port := netip.MustParseAddrPort(testkit.FreeAddress(t)).Port()
	cmd.Env = append(os.Environ(), "SLUICE="+os.Args[0], "SLUICE_TEST_AS_PROGRAM=1", fmt.Sprintf("PORT=%d", port))
	got, err := cmd.CombinedOutput()
	if want := testkit.ReadFile(t, filepath.Join(folder, "output.txt")); err != nil || string(got) != string(want) {
		t.Errorf("%v, printed\n%swant\n%s", err, got, want)
	}
}
