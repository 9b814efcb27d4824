// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/cli"
)

// TestOverridesThatMayNotGrow: an override is not made if it cannot be kept, because the
// process may not write to any file.
func TestOverridesThatMayNotGrow(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	at := testkit.FreeAddress(t)
	config := filepath.Join(folder, "sluice.yaml")
	yaml := fmt.Sprintf("listen: 127.0.0.1:0\nadmin: {address: %q, overrides_file: %q}\nrules: [{name: a, by: ip, limits: 5/min}]\n", at, filepath.Join(folder, "overrides.json"))
	testkit.WriteFile(t, config, yaml)
	p := startProgramBy(t, func(p *exec.Cmd) {
		p.Args = append([]string{"sh", "-c", `ulimit -f 0; exec "$@"`, "sh"}, p.Args...)
		p.Path = "/bin/sh"
	}, "--config", config)
	_, stderr := command(t, cli.Failed, "key", "override", "ip=127.0.0.1", "--rule=a", "--limit=9/min", "--reason=x", "--admin="+at)
	if !strings.Contains(stderr, "file too large") || !strings.Contains(stderr, "nothing was changed") {
		t.Errorf("got %q", stderr)
	}
	if shown, _ := command(t, cli.OK, "key", "show", "ip=127.0.0.1", "--admin="+at); !strings.Contains(shown, "5/min") || strings.Contains(shown, "of its own") {
		t.Errorf("active all the same: %s", shown)
	}
	p.signal(t, syscall.SIGTERM)
	if err := p.Wait(); err != nil {
		t.Errorf("ended with %v; logged %s", err, p.logs)
	}
}
