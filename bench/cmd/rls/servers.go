// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/sluicegate/sluice/bench/cputime"
	"github.com/sluicegate/sluice/bench/port"
)

// limits are those of all servers. Nothing is denied, as the empty server denies nothing.
const limits = `domain: bench
descriptors:
  - {key: user, rate_limit: {unit: hour, requests_per_unit: 1000000}}
`

// server is a server to be measured.
type server struct {
	name, address string
	pid           int
	redis         *redis // nil: none
	peer          string // the server that it is compared with; empty: none
	besides       []int  // the servers that have the same load at half load
}

// build builds the programs that the flags do not name.
func (o *options) build(ctx context.Context, dir string) error {
	if o.sluice == "" {
		o.sluice = filepath.Join(dir, "sluice")
		if _, err := command(ctx, "../server", "go", "build", "-o", o.sluice, "./cmd/sluice"); err != nil {
			return err
		}
	}
	if o.reference != "" {
		return nil
	}
	// The reference is built in a module of its own, with the dependencies that it names.
	const module = "github.com/envoyproxy/ratelimit"
	version, err := command(ctx, "../server/internal/front/rls/oracle", "go", "list", "-m", "-f", "{{.Version}}", module)
	if err != nil {
		return err
	}
	o.reference = filepath.Join(dir, "ratelimit")
	for _, args := range [][]string{
		{"mod", "init", "reference"},
		{"get", module + "/src/service_cmd@" + strings.TrimSpace(version)},
		{"build", "-o", o.reference, module + "/src/service_cmd"},
	} {
		if _, err := command(ctx, dir, "go", args...); err != nil {
			return err
		}
	}
	return nil
}

// command runs a program and returns what it prints.
func command(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	text, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, exit.Stderr)
	}
	return string(text), err
}

// startAll starts the servers. They end with ctx.
func startAll(ctx context.Context, dir string, o options) ([]server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var ports [6]int
	for i := range ports {
		if ports[i], err = port.Free(ctx); err != nil {
			return nil, err
		}
	}
	folder := filepath.Join(dir, "runtime", "config")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(folder, "limits.yaml"), []byte(limits), 0o600); err != nil {
		return nil, err
	}
	r := &redis{port: strconv.Itoa(ports[0])}
	if r.pid, err = start(ctx, nil, "redis-server", "--port", r.port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"); err != nil {
		return nil, err
	}
	config := func(port int, store string) (string, error) {
		file := filepath.Join(dir, fmt.Sprintf("sluice-%d.yaml", port))
		text := fmt.Sprintf("listen: {address: \"127.0.0.1:%d\", serve: rls, rls: {files: %q}}\nadmin: \"off\"\nstore: %s\nrules: []\n", port, folder, store)
		return file, os.WriteFile(file, []byte(text), 0o600)
	}
	inMemory, err := config(ports[2], "memory")
	if err != nil {
		return nil, err
	}
	onRedis, err := config(ports[3], fmt.Sprintf("{redis: {url: \"redis://127.0.0.1:%s?timeout=1s\"}}", r.port)) // the reference waits longer
	if err != nil {
		return nil, err
	}
	var servers []server
	add := func(s server, port int, env []string, name string, args ...string) {
		if err != nil {
			return
		}
		s.address = fmt.Sprintf("127.0.0.1:%d", port)
		if s.pid, err = start(ctx, env, name, args...); err == nil {
			err = ready(ctx, s.address)
		}
		servers = append(servers, s)
	}
	add(server{name: "empty grpc-go", besides: []int{1}}, ports[1], nil, self, "-empty", fmt.Sprintf("127.0.0.1:%d", ports[1]))
	add(server{name: "sluice in memory", besides: []int{0}, peer: "empty grpc-go"}, ports[2], nil, o.sluice, "serve", "--config", inMemory)
	if o.reference == "none" {
		add(server{name: "sluice on Redis", redis: r}, ports[3], nil, o.sluice, "serve", "--config", onRedis)
		return servers, err
	}
	add(server{name: "sluice on Redis", redis: r, besides: []int{3}, peer: "envoyproxy/ratelimit"}, ports[3], nil, o.sluice, "serve", "--config", onRedis)
	add(server{name: "envoyproxy/ratelimit", redis: r, besides: []int{2}}, ports[4], []string{ // without statistics it is fastest
		"USE_STATSD=false", "DISABLE_STATS=true", "LOG_LEVEL=error", "RUNTIME_ROOT=" + filepath.Join(dir, "runtime"), "RUNTIME_WATCH_ROOT=false",
		"REDIS_SOCKET_TYPE=tcp", "REDIS_URL=127.0.0.1:" + r.port, "BACKEND_TYPE=redis",
		"HOST=127.0.0.1", "GRPC_HOST=127.0.0.1", "DEBUG_HOST=127.0.0.1", "PORT=0", "DEBUG_PORT=0", fmt.Sprintf("GRPC_PORT=%d", ports[4]),
	}, o.reference)
	return servers, err
}

// start starts a program, which ends with ctx.
func start(ctx context.Context, env []string, name string, args ...string) (pid int, err error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	go func() { _ = cmd.Wait() }() // it is killed
	return cmd.Process.Pid, nil
}

// ready waits until a server answers OK.
func ready(ctx context.Context, address string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	c, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	r, err := pb.NewRateLimitServiceClient(c).ShouldRateLimit(ctx, question(0, 1), grpc.WaitForReady(true))
	if err == nil && r.GetOverallCode() != pb.RateLimitResponse_OK {
		err = fmt.Errorf("%s answered %v", address, r)
	}
	return err
}

// cpu returns the CPU time that the server has used, and that of its Redis, in steps of 10 ms.
func (s *server) cpu() (own, redis time.Duration, err error) {
	if own, err = cputime.Of(s.pid); err == nil && s.redis != nil {
		redis, err = cputime.Of(s.redis.pid)
	}
	return own, redis, err
}

// redis is a server of Redis.
type redis struct {
	port string
	pid  int
}

func (r *redis) do(ctx context.Context, args ...string) (string, error) {
	return command(ctx, "", "redis-cli", append([]string{"-e", "-p", r.port}, args...)...)
}

// countCommands prints the commands that Redis runs for a request of ten descriptors.
func countCommands(ctx context.Context, out io.Writer, s *server) error {
	const requests, descriptors = 1000, 10
	c, err := grpc.NewClient(s.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if _, err := s.redis.do(ctx, "CONFIG", "RESETSTAT"); err != nil {
		return err
	}
	for i := range requests {
		if _, err := pb.NewRateLimitServiceClient(c).ShouldRateLimit(ctx, question(i, descriptors)); err != nil {
			return err
		}
	}
	stats, err := s.redis.do(ctx, "INFO", "commandstats")
	if err != nil {
		return err
	}
	say(out, "%-21s commands of Redis for each request of %d descriptors:", s.name, descriptors)
	for line := range strings.Lines(stats) {
		name, rest, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		calls, _, _ := strings.Cut(rest, ",")
		if n, err := strconv.Atoi(calls); ok && err == nil && n >= requests/2 { // others are not those of requests
			say(out, " %s %.1f", name, float64(n)/requests)
		}
	}
	say(out, "\n")
	return nil
}

// serveEmpty serves the service at an address until ctx ends, and answers OK to everything.
func serveEmpty(ctx context.Context, address string) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	s := grpc.NewServer()
	pb.RegisterRateLimitServiceServer(s, yes{})
	context.AfterFunc(ctx, s.Stop)
	return s.Serve(l)
}

// yes answers OK.
type yes struct {
	pb.UnimplementedRateLimitServiceServer
}

func (yes) ShouldRateLimit(_ context.Context, q *pb.RateLimitRequest) (*pb.RateLimitResponse, error) {
	r := &pb.RateLimitResponse{OverallCode: pb.RateLimitResponse_OK}
	for range q.GetDescriptors() {
		r.Statuses = append(r.Statuses, &pb.RateLimitResponse_DescriptorStatus{Code: pb.RateLimitResponse_OK})
	}
	return r, nil
}
