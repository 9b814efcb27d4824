// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// platforms are those that a release has a program for.
var platforms = []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64", "windows/amd64"}

// generator makes the software bill of materials.
const generator = "github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0"

// artefact returns the name of a file of the release.
func (r *release) artefact(what string) string {
	return filepath.Join(r.dist, "sluice-"+r.version+"-"+what)
}

// archOf returns the architecture of a platform of Linux, or nothing.
func archOf(platform string) string {
	arch, ok := strings.CutPrefix(platform, "linux/")
	if !ok {
		return ""
	}
	return arch
}

// build makes an archive for each platform, Debian packages, and the chart.
func (r *release) build(ctx context.Context) error {
	if err := os.RemoveAll(r.dist); err != nil {
		return err
	}
	if err := os.Mkdir(r.dist, 0o755); err != nil { //nolint:gosec // what is published
		return err
	}
	r.programs = make(map[string]string)
	for _, p := range platforms {
		program, err := r.compile(ctx, p)
		if err != nil {
			return err
		}
		r.programs[p] = program
		name := strings.ReplaceAll(p, "/", "-")
		if err := r.lay(filepath.Join(r.work, "sluice-"+r.version+"-"+name), map[string]string{
			filepath.Base(program): program, "LICENSE": "LICENSE", "README.md": "README.md", "sluice.yaml": "deploy/systemd/sluice.yaml",
		}); err != nil {
			return err
		}
		if err := r.pack(ctx, r.work, "sluice-"+r.version+"-"+name, r.artefact(name+".tar.gz")); err != nil {
			return err
		}
		if arch := archOf(p); arch != "" {
			if err := r.deb(ctx, program, arch); err != nil {
				return err
			}
		}
	}
	return r.pack(ctx, filepath.Join(r.source, "deploy", "helm"), "sluice", r.artefact("chart.tgz"))
}

// pack writes an archive of a folder of a folder.
func (r *release) pack(ctx context.Context, dir, name, file string) error {
	_, err := output(ctx, dir, nil, "tar", "--owner=0", "--group=0", "--mtime=@0", "--sort=name", "-czf", file, name)
	return err
}

// compile installs the program of the version, which so knows it, and returns its file.
func (r *release) compile(ctx context.Context, platform string) (string, error) {
	env, err := r.fromTags(ctx)
	if err != nil {
		return "", err
	}
	goos, goarch, _ := strings.Cut(platform, "/")
	at := filepath.Join(r.work, "programs")
	env = append(env, "GOPATH="+at, "GOBIN=", "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0")
	if _, err := output(ctx, r.work, env, "go", "install", "-trimpath", "-ldflags=-s -w", root+"/server/cmd/sluice@"+r.version); err != nil {
		return "", err
	}
	program := filepath.Join(at, "bin", goos+"_"+goarch, "sluice")
	if platform == runtime.GOOS+"/"+runtime.GOARCH {
		program = filepath.Join(at, "bin", "sluice")
	}
	if goos == "windows" {
		program += ".exe"
	}
	return program, nil
}

// lay copies files of the repository, or of anywhere, into a folder. Programs may be run.
func (r *release) lay(dir string, files map[string]string) error {
	for to, from := range files {
		if !filepath.IsAbs(from) {
			from = filepath.Join(r.source, filepath.FromSlash(from))
		}
		data, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		if err := write(filepath.Join(dir, filepath.FromSlash(to)), data, strings.HasPrefix(filepath.Base(to), "sluice") && filepath.Ext(to) != ".yaml" && !strings.Contains(to, "/lib/")); err != nil {
			return err
		}
	}
	return nil
}

func write(name string, data []byte, program bool) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil { //nolint:gosec // of a package
		return err
	}
	mode := os.FileMode(0o644)
	if program {
		mode = 0o755
	}
	return os.WriteFile(name, data, mode)
}

const control = `Package: sluice
Version: %s
Architecture: %s
Maintainer: The sluice authors <sluice@example.org>
Section: net
Priority: optional
Homepage: https://github.com/sluicegate/sluice
Description: rate limiter, a gateway in front of an HTTP service
 sluice limits requests by client, user or any part of a request, in memory or on a
 Redis that several nodes share.
`

// postinst is run when the files are there.
const postinst = `#!/bin/sh
set -e
if [ "$1" = configure ]; then
    if command -v systemd-sysusers >/dev/null; then
        systemd-sysusers sluice.conf
        chown root:sluice /etc/sluice
        chmod 0750 /etc/sluice
    fi
    if [ -d /run/systemd/system ]; then
        systemctl daemon-reload
        systemctl try-restart sluice.service
    fi
fi
`

// deb makes a Debian package: program, unit, account, configuration, manual, completion.
func (r *release) deb(ctx context.Context, program, arch string) error {
	dir := filepath.Join(r.work, "deb-"+arch)
	if err := r.lay(dir, map[string]string{
		"usr/bin/sluice":                           program,
		"usr/lib/systemd/system/sluice.service":    "deploy/systemd/sluice.service",
		"usr/lib/sysusers.d/sluice.conf":           "deploy/systemd/sysusers.conf",
		"etc/sluice/sluice.yaml":                   "deploy/systemd/sluice.yaml",
		"usr/share/doc/sluice/copyright":           "LICENSE",
		"usr/share/doc/sluice/examples/alerts.yml": "deploy/alerts.yml",
		"usr/share/doc/sluice/examples/board.json": "deploy/board.json",
	}); err != nil {
		return err
	}
	here := filepath.Join(r.work, "bin", "sluice") // that of this machine
	for to, args := range map[string][]string{
		"usr/share/man/man1/sluice.1":                     {"man"},
		"usr/share/bash-completion/completions/sluice":    {"completion", "bash"},
		"usr/share/zsh/vendor-completions/_sluice":        {"completion", "zsh"},
		"usr/share/fish/vendor_completions.d/sluice.fish": {"completion", "fish"},
	} {
		text, err := command(ctx, r.work, nil, here, args...).Output()
		if err != nil {
			return err
		}
		if err := write(filepath.Join(dir, to), text, false); err != nil {
			return err
		}
	}
	for name, text := range map[string]string{
		"control": fmt.Sprintf(control, r.debVersion(), arch), "conffiles": "/etc/sluice/sluice.yaml\n", "postinst": postinst,
	} {
		if err := write(filepath.Join(dir, "DEBIAN", name), []byte(text), name == "postinst"); err != nil {
			return err
		}
	}
	_, err := output(ctx, r.work, nil, "dpkg-deb", "--build", "--root-owner-group", dir, r.debFile(arch))
	return err
}

// debVersion returns the version of the packages. Debian sorts a tilde before the end: a pre-release is older than
// the release.
func (r *release) debVersion() string {
	return strings.Replace(strings.TrimPrefix(r.version, "v"), "-", "~", 1)
}

func (r *release) debFile(arch string) string {
	return filepath.Join(r.dist, "sluice_"+r.debVersion()+"_"+arch+".deb")
}

// sbom writes the modules that the program is compiled of, with their licences.
func (r *release) sbom(ctx context.Context) error {
	env, err := r.fromTags(ctx)
	if err != nil {
		return err
	}
	file := r.artefact("modules.cdx.json")
	if _, err := output(ctx, r.work, env, "go", "run", generator, "bin", "-json", "-licenses", "-output", file, r.programs["linux/amd64"]); err != nil {
		return err
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var list struct {
		Metadata struct {
			Component struct{ Name, Version string }
		}
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return err
	}
	if c := list.Metadata.Component; c.Name != root+"/server" || c.Version != r.version {
		return fmt.Errorf("it is about %s %s, want the version %s", c.Name, c.Version, r.version)
	}
	return nil
}

// checksums writes SHA256SUMS, which sha256sum -c reads.
func (r *release) checksums(ctx context.Context) error {
	files, err := os.ReadDir(r.dist)
	if err != nil {
		return err
	}
	var sums bytes.Buffer
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(r.dist, f.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(data), f.Name())
	}
	fmt.Print(sums.String())
	if err := os.WriteFile(filepath.Join(r.dist, "SHA256SUMS"), sums.Bytes(), 0o644); err != nil { //nolint:gosec // what is published
		return err
	}
	_, err = output(ctx, r.dist, nil, "sha256sum", "--check", "--quiet", "SHA256SUMS")
	return err
}
