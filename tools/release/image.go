// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// user is the number of the user and the group in the container.
const user = 65532

// image returns the image of a program for Linux, as Docker has it, whose health checks others do not have. It has
// the static program, a folder for what it writes, and nothing else: time zones are in the program. The same program
// makes the same image.
func image(program []byte, version, arch string) (v1.Image, error) {
	var files bytes.Buffer
	w := tar.NewWriter(&files)
	for _, h := range []*tar.Header{
		{Name: "sluice", Mode: 0o555, Size: int64(len(program)), Typeflag: tar.TypeReg},
		{Name: "var/", Mode: 0o755, Typeflag: tar.TypeDir},
		{Name: "var/lib/", Mode: 0o755, Typeflag: tar.TypeDir},
		// Overrides, the audit log and saved states: sluice writes nowhere else.
		{Name: "var/lib/sluice/", Mode: 0o755, Typeflag: tar.TypeDir, Uid: user, Gid: user},
	} {
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := w.Write(program); err != nil {
				return nil, err
			}
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files.Bytes())), nil })
	if err != nil {
		return nil, err
	}
	made, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{OS: "linux", Architecture: arch, Config: v1.Config{
		Entrypoint:   []string{"/sluice"},
		Cmd:          []string{"serve", "--config", "/etc/sluice/sluice.yaml"},
		User:         fmt.Sprintf("%d:%d", user, user),
		WorkingDir:   "/var/lib/sluice",
		ExposedPorts: map[string]struct{}{"8080/tcp": {}, "9090/tcp": {}},
		Healthcheck: &v1.HealthConfig{
			Test:     []string{"CMD", "/sluice", "healthz"},
			Interval: 10 * time.Second, Timeout: 3 * time.Second, StartPeriod: 5 * time.Second, Retries: 3,
		},
		Labels: map[string]string{
			"org.opencontainers.image.title":       "sluice",
			"org.opencontainers.image.description": "rate limiter: gateway and decision server",
			"org.opencontainers.image.source":      "https://" + root,
			"org.opencontainers.image.licenses":    "Apache-2.0",
			"org.opencontainers.image.version":     version,
		},
	}})
	if err != nil {
		return nil, err
	}
	return mutate.AppendLayers(made, layer)
}

// writeImage writes the image of a program into a file that docker load and podman load read.
func writeImage(file, tag, version, arch, program string) error {
	at, err := name.NewTag(tag)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	made, err := image(data, version, arch)
	if err != nil {
		return err
	}
	return tarball.WriteToFile(file, at, made)
}

// writeImages writes the image for each kind of machine, of the programs by these, into one file: an OCI archive,
// which skopeo copies to a registry.
func (r *release) writeImages(ctx context.Context) error {
	all := mutate.IndexMediaType(empty.Index, types.DockerManifestList)
	for _, p := range platforms {
		arch, program := archOf(p), r.programs[p]
		if arch == "" {
			continue
		}
		data, err := os.ReadFile(program)
		if err != nil {
			return err
		}
		made, err := image(data, r.version, arch)
		if err != nil {
			return err
		}
		all = mutate.AppendManifests(all, mutate.IndexAddendum{Add: made, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}}})
	}
	dir := filepath.Join(r.work, "image")
	at, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	if err := at.AppendIndex(all); err != nil {
		return err
	}
	_, err = output(ctx, dir, nil, "tar", "--owner=0", "--group=0", "--mtime=@0", "--sort=name", "-cf", r.artefact("image.tar"), ".")
	return err
}
