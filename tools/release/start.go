// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// start starts what was made, as a newcomer does who has no other file of the repository.
func (r *release) start(ctx context.Context) error {
	if runtime.GOOS != "linux" || !slices.Contains(platforms, runtime.GOOS+"/"+runtime.GOARCH) {
		return errors.New("only Linux on amd64 or arm64 can start what was made")
	}
	at := filepath.Join(r.work, "unpacked")
	if err := os.Mkdir(at, 0o755); err != nil { //nolint:gosec // the user of the container reads it
		return err
	}
	for _, of := range []struct {
		name string
		do   func(ctx context.Context, dir string) error
	}{
		{"archive", r.startArchive},
		{"Debian package", r.startDeb},
		{"image", r.startImage},
		{"chart and Compose", r.startDeployed},
	} {
		if err := of.do(ctx, at); err != nil {
			return fmt.Errorf("%s: %w", of.name, err)
		}
		fmt.Println("   started:", of.name)
	}
	return nil
}

// startArchive runs the first command of the README: a sample app with 10 requests a minute for each user.
func (r *release) startArchive(ctx context.Context, dir string) error {
	if _, err := output(ctx, dir, nil, "tar", "-xzf", r.artefact("linux-"+runtime.GOARCH+".tar.gz")); err != nil {
		return err
	}
	program := filepath.Join(dir, "sluice-"+r.version+"-linux-"+runtime.GOARCH, "sluice")
	if err := r.knows(ctx, program); err != nil {
		return err
	}
	listen, admin, err := addresses(ctx)
	if err != nil {
		return err
	}
	return serve(command(ctx, dir, nil, program, "serve", "--listen", listen, "--admin", admin), admin, func() error {
		return limited(ctx, "http://"+listen+"/?userId=u1", 10)
	})
}

// startDeb starts the program of the package with the configuration of the package, in front of a service.
func (r *release) startDeb(ctx context.Context, dir string) error {
	dir = filepath.Join(dir, "deb")
	if _, err := output(ctx, r.work, nil, "dpkg-deb", "--extract", r.debFile(runtime.GOARCH), dir); err != nil {
		return err
	}
	for _, name := range []string{"usr/lib/systemd/system/sluice.service", "usr/lib/sysusers.d/sluice.conf", "usr/share/man/man1/sluice.1", "usr/share/bash-completion/completions/sluice"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	listen, admin, err := addresses(ctx)
	if err != nil {
		return err
	}
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "app") }))
	defer app.Close()
	file := filepath.Join(dir, "etc/sluice/sluice.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	// A package is installed once on a machine: here are other ports and folders. The rule counts at first, and
	// denies when "mode" is removed.
	enforced := strings.NewReplacer("127.0.0.1:8080", listen, "127.0.0.1:9090", admin, "http://127.0.0.1:3000", app.URL, "/var/lib/sluice", dir, "mode: shadow", "", "10/s burst 50", "50/h").Replace(string(text))
	if err := os.WriteFile(file, []byte(enforced), 0o600); err != nil {
		return err
	}
	return serve(command(ctx, dir, nil, filepath.Join(dir, "usr/bin/sluice"), "serve", "--config", file), admin, func() error {
		return limited(ctx, "http://"+listen+"/", 50)
	})
}

// startImage starts the command of the image among its files alone, if root runs this.
func (r *release) startImage(ctx context.Context, dir string) error {
	dir = filepath.Join(dir, "image")
	layers := filepath.Join(r.work, "layers")
	for _, d := range []string{dir, layers} {
		if err := os.Mkdir(d, 0o755); err != nil { //nolint:gosec // as above
			return err
		}
	}
	if _, err := output(ctx, layers, nil, "tar", "-xf", r.artefact("image.tar")); err != nil {
		return err
	}
	config, err := unpackImage(layers, dir)
	if err != nil {
		return err
	}
	listen, admin, err := addresses(ctx)
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "etc/sluice/sluice.yaml")
	if err := write(file, fmt.Appendf(nil, "listen: %s\nadmin: %s\nstore: {memory: {state: /var/lib/sluice/state}}\nrules: [{name: api, by: ip, limits: 3/h}]\n", listen, admin), false); err != nil {
		return err
	}
	if os.Getuid() != 0 {
		fmt.Println("   not root: the program of the image is not started among its files")
		return r.knows(ctx, filepath.Join(dir, config.Entrypoint[0]))
	}
	args := append(slices.Clone(config.Entrypoint), config.Cmd...)
	c := command(ctx, "/", nil, args[0], args[1:]...)
	c.Dir, c.Env = config.WorkingDir, config.Env
	c.SysProcAttr = &syscall.SysProcAttr{Chroot: dir, Credential: &syscall.Credential{Uid: user, Gid: user}}
	return serve(c, admin, func() error { return limited(ctx, "http://"+listen+"/?userId=u1", 3) })
}

// unpackImage writes the files of the image for this machine out of an OCI layout, and returns its configuration.
func unpackImage(from, dir string) (config v1.Config, err error) {
	index, err := layout.ImageIndexFromPath(from)
	if err != nil {
		return config, err
	}
	top, err := index.IndexManifest()
	if err != nil {
		return config, err
	}
	if len(top.Manifests) != 1 {
		return config, fmt.Errorf("the layout has %d entries, want the index alone", len(top.Manifests))
	}
	all, err := index.ImageIndex(top.Manifests[0].Digest)
	if err != nil {
		return config, err
	}
	manifest, err := all.IndexManifest()
	if err != nil {
		return config, err
	}
	i := slices.IndexFunc(manifest.Manifests, func(d v1.Descriptor) bool { return d.Platform.Architecture == runtime.GOARCH })
	if i < 0 {
		return config, fmt.Errorf("no image is for %s", runtime.GOARCH)
	}
	made, err := all.Image(manifest.Manifests[i].Digest)
	if err != nil {
		return config, err
	}
	described, err := made.ConfigFile()
	if err != nil {
		return config, err
	}
	files := mutate.Extract(made)
	defer files.Close() //nolint:errcheck // all is read
	for r := tar.NewReader(files); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return described.Config, nil
		}
		if err != nil {
			return config, err
		}
		name := filepath.Join(dir, filepath.Clean("/"+h.Name)) //nolint:gosec // it stays below dir
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(name, h.FileInfo().Mode())
		} else {
			var data []byte
			if data, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(name, data, h.FileInfo().Mode())
			}
		}
		if err == nil && os.Getuid() == 0 {
			err = os.Chown(name, h.Uid, h.Gid)
		}
		if err != nil {
			return config, err
		}
	}
}

// startDeployed runs the tests of chart and Compose file with the program of the archive and the packed chart.
func (r *release) startDeployed(ctx context.Context, dir string) error {
	main := filepath.Join(r.work, "main") // where the modules replace each other
	if _, err := output(ctx, r.source, nil, "git", "worktree", "add", "--quiet", "--detach", main, r.version); err != nil {
		return err
	}
	env := []string{
		"SLUICE_PROGRAM=" + filepath.Join(dir, "sluice-"+r.version+"-linux-"+runtime.GOARCH, "sluice"), "SLUICE_CHART=" + r.artefact("chart.tgz"),
	}
	said, err := output(ctx, filepath.Join(main, "deploy"), env, "go", "test", "-count=1", "-vet=off", "-v", "-run", "^Test(Helm|Compose)Starts$", "./check")
	if passed := regexp.MustCompile(`(?m)^--- PASS: Test(Helm|Compose)Starts`).FindAllString(said, -1); err == nil && len(passed) != 2 {
		err = errors.New("the tests did not run")
	}
	if err != nil {
		fmt.Println(said)
	}
	return err
}

// addresses returns two at which nothing listens.
func addresses(ctx context.Context) (listen, admin string, err error) {
	var found [2]string
	for i := range found {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return "", "", err
		}
		defer l.Close() //nolint:errcheck // nobody has connected
		found[i] = l.Addr().String()
	}
	return found[0], found[1], nil
}

// serve runs a gateway while f runs, which begins when the gateway is ready.
func serve(c *exec.Cmd, admin string, f func() error) error {
	var log strings.Builder
	c.Stderr = &log
	if err := c.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	err := ready(admin, ended)
	if err == nil {
		err = f()
	}
	_ = c.Process.Signal(syscall.SIGTERM)
	if stopped := <-ended; err == nil {
		err = stopped
	}
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(c.Args, " "), err, log.String())
	}
	return nil
}

// ready waits until a gateway is ready, or has ended.
func ready(admin string, ended chan error) error {
	for range 600 {
		select {
		case err := <-ended:
			ended <- err
			return fmt.Errorf("it has ended: %w", err)
		case <-time.After(100 * time.Millisecond):
		}
		answer, err := http.Get("http://" + admin + "/readyz") //nolint:noctx // as long as it takes
		if err == nil && answer.Body.Close() == nil && answer.StatusCode == http.StatusOK {
			return nil
		}
	}
	return errors.New("it is not ready after a minute")
}

// limited checks that as many requests as a limit has pass, and that the next is denied.
func limited(ctx context.Context, url string, quota int) error {
	for n := range quota + 1 {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		answer, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		if err := answer.Body.Close(); err != nil {
			return err
		}
		want := http.StatusOK
		if n == quota {
			want = http.StatusTooManyRequests
		}
		if answer.StatusCode != want {
			return fmt.Errorf("request %d of a quota of %d is answered %d", n+1, quota, answer.StatusCode)
		}
	}
	return nil
}
