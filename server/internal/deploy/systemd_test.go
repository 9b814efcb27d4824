// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestUnit: the memory that Go aims at is below what systemd allows, and systemd finds
// no fault in the unit.
func TestUnit(t *testing.T) {
	text := string(read(t, "systemd/sluice.service"))
	settings := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(name, "#") {
			settings[name] = value
		}
	}
	for name, want := range map[string]string{
		"Type": "notify", "ExecReload": "/bin/kill -HUP $MAINPID", "StateDirectory": "sluice", "User": "sluice", "NoNewPrivileges": "yes", "ProtectSystem": "strict",
	} {
		if settings[name] != want {
			t.Errorf("%s is %q, want %q", name, settings[name], want)
		}
	}
	aim, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(settings["Environment"], "GOMEMLIMIT="), "MiB"))
	if err != nil || settings["MemoryMax"] != "1G" || aim >= 1<<10 {
		t.Errorf("%s under a MemoryMax of %s: %v", settings["Environment"], settings["MemoryMax"], err)
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd is not on this machine, so that it does not verify the unit")
	}
	// It looks for the program, too.
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	unit := filepath.Join(t.TempDir(), "sluice.service")
	if err := os.WriteFile(unit, []byte(strings.ReplaceAll(text, "/usr/bin/sluice", program)), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), analyze, "verify", "--man=no", unit).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v: %s", err, out)
	}
}
