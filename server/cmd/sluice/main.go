// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Command sluice limits the rate of HTTP requests in front of a service, which
// needs no change. See "sluice --help".
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
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

var versionCommand = cli.Command{
	Name: "version", Summary: "show the version of the program", Flags: []cli.Flag{jsonFlag}, Run: runVersion,
}

// build describes the build of a program.
type build struct {
	Version  string `json:"version"`            // of the module
	Revision string `json:"revision,omitempty"` // of its repository, if it was built in one
	Time     string `json:"time,omitempty"`     // of the revision
	Modified bool   `json:"modified,omitempty"` // the source had uncommitted changes
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func thisBuild() build {
	b := build{Version: "unknown", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	b.Version = info.Main.Version
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.time":
			b.Time = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

// String returns the build in a line.
func (b build) String() string {
	text := fmt.Sprintf("sluice %s %s %s", b.Version, b.Go, b.Platform)
	if b.Revision != "" {
		text += fmt.Sprintf(", revision %.12s of %s", b.Revision, b.Time)
	}
	if b.Modified {
		text += ", modified"
	}
	return text
}

func runVersion(_ context.Context, c *cli.Call) error {
	if len(c.Args) > 0 {
		return cli.Usagef("expected no argument, got %q", c.Args[0])
	}
	return c.Show(thisBuild(), thisBuild().String()+"\n")
}
