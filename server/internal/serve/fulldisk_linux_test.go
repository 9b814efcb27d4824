// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/sluicegate/sluice/server/internal/serve"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// askOverride asks for an override of 9/min for this machine.
func askOverride(t *testing.T, s *servetest.Gateway) servetest.Answer {
	t.Helper()
	return s.Ask(t, http.MethodPut, "/v1/override", `{"parts":{"ip":"127.0.0.1"},"rule":"a","limits":["9/min"],"reason":"x","author":"eve"}`)
}

// notOverridden checks that an override was refused, and the reason.
func notOverridden(t *testing.T, admin, folder string, got servetest.Answer, status int, why string) {
	t.Helper()
	if got.Status != status || !strings.Contains(got.Body, why) || !strings.Contains(got.Body, "nothing was changed") {
		t.Errorf("got %d %s, want %d and %q", got.Status, got.Body, status, why)
	}
	shown := servetest.Fetch(t, http.DefaultClient, admin+"/v1/key?ip=127.0.0.1").Body
	if strings.Contains(shown, `"override"`) || !strings.Contains(shown, "5/min") {
		t.Errorf("active all the same: %s", shown)
	}
	files, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(files, func(f os.DirEntry) bool { return strings.HasSuffix(f.Name(), ".tmp") }) {
		t.Errorf("left in the folder: %v", files)
	}
}

// smallDisk returns the folder of a disk that can be filled.
func smallDisk(t *testing.T) (folder string) {
	t.Helper()
	folder = t.TempDir()
	if err := syscall.Mount("sluice-test", folder, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("a disk that can be filled needs to be mounted: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(folder, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return folder
}

// fill leaves no room on a small disk.
func fill(t *testing.T, folder string) (filler string) {
	t.Helper()
	filler = filepath.Join(folder, "filler")
	if err := os.WriteFile(filler, make([]byte, 1<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("got %v, want a full disk", err)
	}
	return filler
}

// TestOverridesOnAFullDisk: an override that cannot be stored is refused, with a status that
// does not blame the caller.
func TestOverridesOnAFullDisk(t *testing.T) {
	t.Parallel()
	folder := smallDisk(t)
	yaml := fmt.Sprintf("admin: {address: 127.0.0.1:0, overrides_file: %q}\nrules: [{name: a, by: ip, limits: 5/min}]\n", filepath.Join(folder, "overrides.json"))
	s := servetest.Start(t, yaml)
	filler := fill(t, folder)
	notOverridden(t, s.Admin, folder, askOverride(t, s), http.StatusInsufficientStorage, "no space left on device")
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if got := askOverride(t, s); got.Status != http.StatusOK || !strings.Contains(got.Body, "9/min") {
		t.Errorf("with room: got %d %s", got.Status, got.Body)
	}
}

// TestAuditOnAFullDisk: a change that cannot be audited is refused.
func TestAuditOnAFullDisk(t *testing.T) {
	t.Parallel()
	folder := smallDisk(t)
	s := servetest.Start(t, "rules: [{name: a, by: ip, limits: 5/min}]\n", func(o *serve.Options) { o.Audit = filepath.Join(folder, "audit.jsonl") })
	fill(t, folder)
	notOverridden(t, s.Admin, folder, askOverride(t, s), http.StatusInsufficientStorage, "no space left on device")
}

// TestOverridesWithoutAFolder: a failure other than a full disk has another answer.
func TestOverridesWithoutAFolder(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "folder")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	yaml := fmt.Sprintf("admin: {address: 127.0.0.1:0, overrides_file: %q}\nrules: [{name: a, by: ip, limits: 5/min}]\n", filepath.Join(folder, "overrides.json"))
	s := servetest.Start(t, yaml)
	if err := os.Remove(folder); err != nil {
		t.Fatal(err)
	}
	got := askOverride(t, s)
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	notOverridden(t, s.Admin, folder, got, http.StatusInternalServerError, "no such file or directory")
}
