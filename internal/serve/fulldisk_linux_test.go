// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// askOverride asks for an override of 9/min for this machine.
func askOverride(t *testing.T, admin string) answer {
	t.Helper()
	body := `{"parts":{"ip":"127.0.0.1"},"rule":"a","limits":["9/min"],"reason":"x","author":"eve"}`
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, admin+"/v1/override", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return answer{status: resp.StatusCode, body: string(text)}
}

// notOverridden checks that an override was not made, and why.
func notOverridden(t *testing.T, admin, folder string, got answer, status int, why string) {
	t.Helper()
	if got.status != status || !strings.Contains(got.body, why) || !strings.Contains(got.body, "nothing was changed") {
		t.Errorf("got %d %s, want %d and %q", got.status, got.body, status, why)
	}
	shown := fetch(t, http.DefaultClient, admin+"/v1/key?ip=127.0.0.1").body
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

// TestOverridesOnAFullDisk: an override that cannot be kept is not made, and the
// fault is not the caller's.
func TestOverridesOnAFullDisk(t *testing.T) {
	folder := smallDisk(t)
	yaml := fmt.Sprintf("admin: {address: 127.0.0.1:0, overrides_file: %q}\nrules: [{name: a, by: ip, limits: 5/min}]\n", filepath.Join(folder, "overrides.json"))
	s := start(t, yaml)
	filler := fill(t, folder)
	notOverridden(t, s.admin, folder, askOverride(t, s.admin), http.StatusInsufficientStorage, "no space left on device")
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if got := askOverride(t, s.admin); got.status != http.StatusOK || !strings.Contains(got.body, "9/min") {
		t.Errorf("with room: got %d %s", got.status, got.body)
	}
}

// TestAuditOnAFullDisk: a change that cannot be written down is not made.
func TestAuditOnAFullDisk(t *testing.T) {
	folder := smallDisk(t)
	s := start(t, "rules: [{name: a, by: ip, limits: 5/min}]\n", func(o *Options) { o.Audit = filepath.Join(folder, "audit.jsonl") })
	fill(t, folder)
	notOverridden(t, s.admin, folder, askOverride(t, s.admin), http.StatusInsufficientStorage, "no space left on device")
}

// TestOverridesWithoutAFolder: where room is not what lacks, the answer is
// another one.
func TestOverridesWithoutAFolder(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "folder")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	yaml := fmt.Sprintf("admin: {address: 127.0.0.1:0, overrides_file: %q}\nrules: [{name: a, by: ip, limits: 5/min}]\n", filepath.Join(folder, "overrides.json"))
	s := start(t, yaml)
	if err := os.Remove(folder); err != nil {
		t.Fatal(err)
	}
	got := askOverride(t, s.admin)
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	notOverridden(t, s.admin, folder, got, http.StatusInternalServerError, "no such file or directory")
}
