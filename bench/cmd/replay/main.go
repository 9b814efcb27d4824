// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Command replay measures how many lines of an access log sluice replay decides in a second,
// beside a program that only counts them.
//
// Run it in the module's folder:
//
//	go run ./cmd/replay -help
package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/sluicegate/sluice/bench/cputime"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "replay:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("replay", flag.ContinueOnError)
	lines := flags.Int("lines", 2_000_000, "lines of the log")
	rounds := flags.Int("rounds", 3, "of which the fastest of each counts")
	if err := flags.Parse(args); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "replay")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	sluice, plain, packed := filepath.Join(dir, "sluice"), filepath.Join(dir, "access.log"), filepath.Join(dir, "access.log.gz")
	build := exec.CommandContext(ctx, "go", "build", "-o", sluice, "./cmd/sluice")
	build.Dir = "../server"
	if said, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building sluice: %w\n%s", err, said)
	}
	if err := writeLogs(plain, packed, *lines); err != nil {
		return err
	}
	replay := func(cores, file string) func() (time.Duration, error) {
		return func() (time.Duration, error) {
			cmd := exec.CommandContext(ctx, sluice, "replay", "--limit", "100/min", "--by", "ip", "--json", file)
			cmd.Env = append(os.Environ(), "GOMAXPROCS="+cores)
			if said, err := cmd.CombinedOutput(); err != nil {
				return 0, fmt.Errorf("%v: %w\n%s", cmd, err, said)
			}
			return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), nil
		}
	}
	var table strings.Builder
	fmt.Fprintf(&table, "%d lines of the combined format, the best of %d rounds\n\n| | lines a second | CPU per line |\n|---|---|---|\n", *lines, *rounds)
	for _, c := range []struct {
		name string
		do   func() (time.Duration, error)
	}{
		{"lines counted", counted(plain, false)},
		{"replay, one core", replay("1", plain)},
		{"replay, two cores", replay("2", plain)},
		{"gzip read, lines counted", counted(packed, true)},
		{"replay of gzip, two cores", replay("2", packed)},
	} {
		var best, cpu time.Duration
		for range *rounds {
			start := time.Now()
			used, err := c.do()
			if err != nil {
				return err
			}
			if took := time.Since(start); best == 0 || took < best {
				best = took
			}
			if cpu == 0 || used < cpu {
				cpu = used
			}
		}
		fmt.Fprintf(&table, "| %s | %.0f | %v |\n", c.name, float64(*lines)/best.Seconds(), cpu/time.Duration(*lines))
	}
	_, err = io.WriteString(out, table.String())
	return err
}

// counted counts the lines of a file.
func counted(name string, packed bool) func() (time.Duration, error) {
	return func() (time.Duration, error) {
		before, err := cputime.Process()
		if err != nil {
			return 0, err
		}
		f, err := os.Open(name)
		if err != nil {
			return 0, err
		}
		var r io.Reader = f
		if packed {
			if r, err = gzip.NewReader(bufio.NewReaderSize(f, 64<<10)); err != nil {
				return 0, err
			}
		}
		buf, n := make([]byte, 256<<10), 0
		for err == nil {
			var read int
			read, err = r.Read(buf)
			n += bytes.Count(buf[:read], []byte("\n"))
		}
		if !errors.Is(err, io.EOF) || n == 0 {
			return 0, fmt.Errorf("%s: %d lines, %w", name, n, err)
		}
		after, err := cputime.Process()
		return after - before, errors.Join(err, f.Close())
	}
}

// writeLogs writes a log of 50,000 clients, of which few send most requests, 700 a second.
func writeLogs(plain, packed string, lines int) error {
	f, err := os.Create(plain)
	if err != nil {
		return err
	}
	g, err := os.Create(packed)
	if err != nil {
		return err
	}
	pack := gzip.NewWriter(g)
	w := bufio.NewWriterSize(io.MultiWriter(f, pack), 1<<20)
	random := rand.New(rand.NewPCG(1, 2))
	clients := rand.NewZipf(random, 1.1, 50, 49_999)
	paths := []string{"/", "/api/v1/items?page=%d", "/static/app.js?v=%d", "/login", "/api/v1/users/%d/orders"}
	agents := []string{"curl/8.5.0", "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Safari/537.36"}
	for i := range lines {
		client := clients.Uint64() * 2654435761 % (1 << 24)
		at := time.Unix(1_709_256_600+int64(i/700), 0).UTC().Format("02/Jan/2006:15:04:05 -0700")
		path := paths[i%len(paths)]
		if i%len(paths)%3 != 0 {
			path = fmt.Sprintf(path, random.IntN(10_000))
		}
		if _, err := fmt.Fprintf(w, "10.%d.%d.%d - - [%s] \"GET %s HTTP/1.1\" 200 %d \"https://example.com/%d\" \"%s\"\n",
			client>>16, client>>8&255, client&255, at, path, random.IntN(50_000), random.IntN(1000), agents[random.IntN(len(agents))]); err != nil {
			return err
		}
	}
	return errors.Join(w.Flush(), pack.Close(), f.Close(), g.Close())
}
