// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	nodes = 3
	quota = 1000 // per 60 s, of each user
	limit = "1000/min sliding-log"
)

//go:embed nginx.conf
var anyNode string

//go:embed sticky.conf
var sameNode string

// fleet is nginx in front of nodes.
type fleet struct {
	url     string // of nginx
	dir     string
	store   string // of the nodes; empty: each its own memory
	program [nodes]string
	address [nodes]string
	nodes   [nodes]*process
	nginx   *process
}

// startFleet starts nodes and nginx under the text of a configuration, in
// which it puts free addresses. It is stopped by stop.
func startFleet(ctx context.Context, dir, conf, store string, program [nodes]string) (f *fleet, err error) {
	path, err := exec.LookPath("nginx")
	if err != nil {
		return nil, errors.New("nginx is missing; install it with: apt-get install nginx")
	}
	f = &fleet{dir: dir, store: store, program: program}
	defer func() {
		if err != nil {
			f.stop()
		}
	}()
	for i := range f.nodes {
		if f.address[i], err = freeAddress(ctx); err != nil {
			return nil, err
		}
		if err := f.startNode(ctx, i); err != nil {
			return nil, err
		}
		conf = strings.Replace(conf, fmt.Sprintf("127.0.0.1:%d", 8081+i), f.address[i], 1)
	}
	front, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	conf = strings.Replace(conf, "127.0.0.1:8080", front, 1)
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		return nil, err
	}
	f.nginx, err = startProcess(ctx, front, dir, path, "-p", dir, "-e", "stderr", "-c", file, "-g", "daemon off;")
	f.url = "http://" + front
	return f, err
}

// startNode starts the i-th node, again where it was killed.
func (f *fleet) startNode(ctx context.Context, i int) (err error) {
	args := []string{
		"serve", "--listen", f.address[i], "--admin", "off", "--trust", "127.0.0.1",
		"--limit", limit, "--by", "query.userId", "--failure", "closed",
	}
	if f.store == "" {
		args = args[:len(args)-2]
	} else {
		args = append(args, "--store", f.store)
	}
	f.nodes[i], err = startProcess(ctx, f.address[i], f.dir, f.program[i], args...)
	return err
}

// stop ends everything.
func (f *fleet) stop() {
	if f.nginx != nil {
		f.nginx.end()
	}
	for _, p := range f.nodes {
		if p != nil {
			p.kill()
		}
	}
}

// build compiles sluice into dir and returns the program.
func build(ctx context.Context, dir string, flags ...string) (string, error) {
	path := filepath.Join(dir, "sluice")
	args := append([]string{"build", "-buildvcs=false", "-o", path}, flags...)
	//nolint:gosec // the flags are ours
	if out, err := exec.CommandContext(ctx, "go", append(args, "github.com/sluicegate/sluice/server/cmd/sluice")...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
}
