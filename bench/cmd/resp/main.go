// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Command resp measures CL.THROTTLE of sluice serve beside two peers, in turns, under
// redis-benchmark: a server of tidwall/redcon that decides by one compare-and-swap, and GCRA as
// a script in Redis. It prints what sluice serves in relation to each, and how long commands take
// at half of that load.
//
// Run it in the module's folder:
//
//	go run ./cmd/resp -help
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const keys = 100_000

// gcra answers as CL.THROTTLE does. ARGV: µs per unit, µs of a burst.
const gcra = `local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local full = tonumber(redis.call('GET', KEYS[1]) or 0)
if full < now then full = now end
local next = full + ARGV[1]
local room = ARGV[2] - (next - now)
if room < 0 then return {1, 16, math.floor((ARGV[2] - (full - now)) / ARGV[1]), math.ceil(-room / 1000000), math.ceil((full - now) / 1000000)} end
redis.call('SET', KEYS[1], string.format('%.0f', next), 'PX', math.ceil((next - now) / 1000))
return {0, 16, math.floor(room / ARGV[1]), -1, math.ceil((next - now) / 1000000)}`

// server is a server to be measured.
type server struct {
	name, address string
	command       []string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "resp:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	fs := flag.NewFlagSet("resp", flag.ContinueOnError)
	rounds := fs.Int("rounds", 5, "how often each server has its turn")
	requests := fs.Int("requests", 400_000, "commands in a turn of pipelines; a tenth of it one by one")
	sluice := fs.String("sluice", "", "the program; empty builds it")
	listen := fs.String("redcon", "", "be the server of redcon, at this address")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if *listen != "" {
		return serveRedcon(*listen)
	}
	dir, err := os.MkdirTemp("", "sluice-resp-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if *sluice == "" {
		*sluice = filepath.Join(dir, "sluice")
		cmd := exec.CommandContext(ctx, "go", "build", "-o", *sluice, "./cmd/sluice")
		cmd.Dir = "../server"
		if text, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("building sluice: %w\n%s", err, text)
		}
	}
	servers, stop, err := startAll(ctx, dir, *sluice)
	if err != nil {
		return err
	}
	defer stop()
	for _, depth := range []int{16, 1} {
		n := *requests
		if depth == 1 {
			n /= 10
		}
		rates := make([][]float64, len(servers))
		for range *rounds {
			for i, s := range servers {
				rate, err := s.press(ctx, n, depth)
				if err != nil {
					return fmt.Errorf("%s: %w", s.name, err)
				}
				rates[i] = append(rates[i], rate)
			}
		}
		mine := median(rates[0])
		for i, s := range servers {
			fmt.Fprintf(out, "pipeline %2d  %-7s %9.0f commands/s", depth, s.name, median(rates[i]))
			if i > 0 {
				fmt.Fprintf(out, "  sluice / %s = %.2f", s.name, mine/median(rates[i]))
			}
			fmt.Fprintln(out)
		}
		if depth == 1 {
			took, err := paced(ctx, servers[0].address, mine/2, 5*time.Second)
			if err != nil {
				return err
			}
			fmt.Fprintf(out, "half load    sluice  p50 %v p99 %v of %d commands\n", took[len(took)/2], took[len(took)*99/100], len(took))
		}
	}
	return nil
}

// startAll starts the servers, sluice first, and returns how to stop them.
func startAll(ctx context.Context, dir, sluice string) (all []server, stop func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	ctx, stop = context.WithCancel(ctx) // which kills them
	var addresses []string
	for range 3 {
		var lc net.ListenConfig
		l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, stop, err
		}
		addresses = append(addresses, l.Addr().String())
		if err := l.Close(); err != nil {
			return nil, stop, err
		}
	}
	file := filepath.Join(dir, "sluice.yaml")
	text := fmt.Sprintf("listen: {address: %q, serve: resp}\nadmin: \"off\"\nrules: [{name: all, limits: 1000000/s}]\n", addresses[0])
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, stop, err
	}
	_, port, _ := strings.Cut(addresses[2], ":")
	for i, args := range [][]string{
		{sluice, "serve", "--config", file}, {self, "-redcon", addresses[1]},
		{"redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"},
	} {
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			return nil, stop, err
		}
		if err := ready(ctx, addresses[i]); err != nil {
			return nil, stop, fmt.Errorf("%s: %w", args[0], err)
		}
	}
	sha, err := exec.CommandContext(ctx, "redis-cli", "-p", port, "SCRIPT", "LOAD", gcra).Output()
	if err != nil {
		return nil, stop, err
	}
	throttle := []string{"CL.THROTTLE", "key:__rand_int__", "15", "30", "60"}
	return []server{
		{"sluice", addresses[0], throttle}, {"redcon", addresses[1], throttle},
		{"redis", addresses[2], []string{"EVALSHA", strings.TrimSpace(string(sha)), "1", "key:__rand_int__", "2000000", "32000000"}},
	}, stop, nil
}

// ready waits until something listens at an address.
func ready(ctx context.Context, address string) error {
	var err error
	for range 200 {
		var c net.Conn
		if c, err = new(net.Dialer).DialContext(ctx, "tcp", address); err == nil {
			return c.Close()
		}
		time.Sleep(50 * time.Millisecond)
	}
	return err
}

// press returns the rate of a turn of n commands.
func (s *server) press(ctx context.Context, n, depth int) (float64, error) {
	host, port, _ := strings.Cut(s.address, ":")
	args := append([]string{"-h", host, "-p", port, "-n", strconv.Itoa(n), "-P", strconv.Itoa(depth), "-r", strconv.Itoa(keys), "--csv"}, s.command...)
	text, err := exec.CommandContext(ctx, "redis-benchmark", args...).Output()
	if err != nil {
		return 0, err
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	fields := strings.Split(lines[len(lines)-1], `","`)
	if len(fields) < 2 {
		return 0, fmt.Errorf("redis-benchmark printed %q", text)
	}
	return strconv.ParseFloat(fields[1], 64)
}

// paced sends commands over 8 connections at a rate, and returns how long each took from the
// moment when it was due, sorted.
func paced(ctx context.Context, address string, rate float64, length time.Duration) (all []time.Duration, err error) {
	const connections = 8
	interval := time.Duration(connections * float64(time.Second) / rate)
	begin := time.Now()
	var mu sync.Mutex
	var wait sync.WaitGroup
	for n := range connections {
		wait.Go(func() {
			took, oneErr := one(ctx, address, begin.Add(interval*time.Duration(n)/connections), begin.Add(length), interval)
			mu.Lock()
			defer mu.Unlock()
			all, err = append(all, took...), errors.Join(err, oneErr)
		})
	}
	wait.Wait()
	slices.Sort(all)
	if len(all) == 0 {
		err = errors.Join(err, errors.New("no command was answered"))
	}
	return all, err
}

// one sends the commands of one connection.
func one(ctx context.Context, address string, due, end time.Time, interval time.Duration) (took []time.Duration, err error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	var answer [256]byte
	for i := 0; due.Before(end); due = due.Add(interval) {
		began := due
		if early := time.Until(due); early > 0 {
			time.Sleep(early)
			began = time.Now() // waking up late is this program's own doing
		}
		key := fmt.Sprintf("key:%012d", i%keys)
		i++
		if _, err := fmt.Fprintf(c, "*5\r\n$11\r\nCL.THROTTLE\r\n$%d\r\n%s\r\n$2\r\n15\r\n$2\r\n30\r\n$2\r\n60\r\n", len(key), key); err != nil {
			return took, err
		}
		n, err := c.Read(answer[:])
		if err != nil || !bytes.HasPrefix(answer[:n], []byte("*5\r\n")) {
			return took, fmt.Errorf("answered %q: %w", answer[:n], err)
		}
		took = append(took, time.Since(began))
	}
	return took, nil
}

func median(all []float64) float64 {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}
