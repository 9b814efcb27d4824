// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// TestImage: what is loaded into an engine has the program, a folder that its user may write, and a health check;
// the archive of a release has the same for each kind of machine.
func TestImage(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	if err := os.WriteFile(program, []byte("a program"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "image.tar")
	if err := run(t.Context(), []string{"-image", file, "example.org/sluice:v1", "v1", "arm64", program}); err != nil {
		t.Fatal(err)
	}
	made, err := tarball.ImageFromPath(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := made.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if c := config.Config; config.Architecture != "arm64" || config.OS != "linux" || c.User != "65532:65532" || c.Labels["org.opencontainers.image.version"] != "v1" ||
		!reflect.DeepEqual(c.Healthcheck.Test, []string{"CMD", "/sluice", "healthz"}) || c.Healthcheck.Interval != 10*time.Second {
		t.Errorf("got %+v", config)
	}

	r := &release{version: "v1.2.3", work: dir, dist: dir, programs: map[string]string{"linux/amd64": program, "linux/arm64": program, "windows/amd64": "nowhere"}}
	if err := r.writeImages(t.Context()); err != nil {
		t.Fatal(err)
	}
	layers, files := filepath.Join(dir, "layers"), filepath.Join(dir, "files")
	for _, d := range []string{layers, files} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := output(t.Context(), layers, nil, "tar", "-xf", r.artefact("image.tar")); err != nil {
		t.Fatal(err)
	}
	of, err := unpackImage(layers, files)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(append(of.Entrypoint, of.Cmd...), []string{"/sluice", "serve", "--config", "/etc/sluice/sluice.yaml"}) {
		t.Errorf("it runs %q %q", of.Entrypoint, of.Cmd)
	}
	if got := read(t, filepath.Join(files, "sluice")); got != "a program" {
		t.Errorf("the program is %q", got)
	}
	if at, err := os.Stat(filepath.Join(files, "var/lib/sluice")); err != nil || !at.IsDir() || runtime.GOOS == "linux" && at.Mode().Perm() != 0o755 {
		t.Errorf("%v, %v", at, err)
	}
}
