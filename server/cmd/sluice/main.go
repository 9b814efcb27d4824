// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Command sluice limits the rate of HTTP requests in front of a service, which
// needs no change. See "sluice --help".
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // calendar limits, on machines without zone files

	"github.com/sluicegate/sluice/server/internal/cli"
)

func main() {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		cancel() // begins a graceful stop
		second := <-signals
		code := cli.Failed
		if s, ok := second.(syscall.Signal); ok {
			code = 128 + int(s) // as in a shell
		}
		os.Exit(code)
	}()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}
