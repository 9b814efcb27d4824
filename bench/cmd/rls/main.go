// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Command rls measures the Rate Limit Service of sluice serve, in turns with two peers: a server
// of grpc-go that answers OK to everything, and envoyproxy/ratelimit on Redis. It prints the rate
// of each, the CPU time of a request, how long requests take at half of the load, and the
// commands that a request of ten descriptors sends to Redis.
//
// Run it in the module's folder:
//
//	go run ./cmd/rls -help
//
// The files, in the order in which to read them:
//
//   - main.go: the turns and what is printed of them
//   - servers.go: the servers
//   - load.go: the client
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"
)

// measured is what the turns of a server have measured.
type measured struct {
	rates []float64 // requests/s
	own   []float64 // CPU time of the server, in µs for each request
	all   []float64 // with that of Redis
	p50   []float64 // at half load, in ms
	p99   []float64
}

// options are the flags.
type options struct {
	rounds    int
	length    time.Duration
	sluice    string
	reference string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "rls:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	fs := flag.NewFlagSet("rls", flag.ContinueOnError)
	var o options
	fs.IntVar(&o.rounds, "rounds", 5, "how often each server has its turn")
	fs.DurationVar(&o.length, "length", 2*time.Second, "how long a turn takes")
	fs.StringVar(&o.sluice, "sluice", "", "the program; empty builds it")
	fs.StringVar(&o.reference, "reference", "", `the program of envoyproxy/ratelimit; empty builds it, "none" leaves it out`)
	empty := fs.String("empty", "", "be the empty server, at this address")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if *empty != "" {
		return serveEmpty(ctx, *empty)
	}
	dir, err := os.MkdirTemp("", "sluice-rls-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := o.build(ctx, dir); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop() // the servers, which have ended when their pipes are closed
	servers, err := startAll(ctx, dir, o)
	if err != nil {
		return err
	}
	results := make([]measured, len(servers))
	for _, turn := range []func(context.Context, *server, *measured, []measured) error{o.full, o.half} {
		for range o.rounds {
			for i := range servers {
				if err := turn(ctx, &servers[i], &results[i], results); err != nil {
					return fmt.Errorf("%s: %w", servers[i].name, err)
				}
			}
		}
	}
	for i := range servers {
		report(out, &servers[i], &results[i], results)
	}
	for i := range servers {
		if servers[i].redis != nil {
			if err := countCommands(ctx, out, &servers[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// full is a turn under as much load as the server takes.
func (o *options) full(ctx context.Context, s *server, m *measured, _ []measured) error {
	if _, err := press(ctx, s.address, 0, o.length/4); err != nil { // warms it up
		return err
	}
	own, redis, err := s.cpu()
	if err != nil {
		return err
	}
	began := time.Now()
	took, err := press(ctx, s.address, 0, o.length)
	if err != nil {
		return err
	}
	n, length := float64(len(took)), time.Since(began)
	own2, redis2, err := s.cpu()
	if err != nil {
		return err
	}
	m.rates = append(m.rates, n/length.Seconds())
	m.own = append(m.own, (own2-own).Seconds()*1e6/n)
	m.all = append(m.all, (own2-own+redis2-redis).Seconds()*1e6/n)
	return nil
}

// half is a turn at half of the rate that the slowest server of its store has had.
func (o *options) half(ctx context.Context, s *server, m *measured, all []measured) error {
	rate := median(m.rates)
	for _, i := range s.besides {
		rate = min(rate, median(all[i].rates))
	}
	took, err := press(ctx, s.address, rate/2, o.length)
	if err != nil {
		return err
	}
	slices.Sort(took)
	m.p50 = append(m.p50, took[len(took)/2].Seconds()*1e3)
	m.p99 = append(m.p99, took[len(took)*99/100].Seconds()*1e3)
	return nil
}

// report prints what was measured of a server, and in relation to the server that it is compared
// with. Beside medians of the turns it prints the least, as other programs disturb some turns only.
func report(out io.Writer, s *server, m *measured, all []measured) {
	say(out, "%-21s %7.0f requests/s  CPU %5.1f µs, with Redis %5.1f (least %.1f)  at half load p50 %.2f ms, p99 %.1f ms (least %.1f)\n", s.name,
		median(m.rates), median(m.own), median(m.all), slices.Min(m.all), median(m.p50), median(m.p99), slices.Min(m.p99))
	if s.peer == "" {
		return
	}
	peer := &all[s.besides[0]]
	var rates, cpu []float64
	for i := range m.rates {
		rates, cpu = append(rates, m.rates[i]/peer.rates[i]), append(cpu, m.all[i]/peer.all[i])
	}
	say(out, "%21s of %s: rate %.2f, CPU %.2f\n", "", s.peer, median(rates), median(cpu))
}

func say(out io.Writer, format string, args ...any) {
	_, _ = fmt.Fprintf(out, format, args...) // nobody may read it
}

func median(all []float64) float64 {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}
