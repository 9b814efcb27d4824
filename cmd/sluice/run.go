// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// run is the program: it returns its exit code. It ends when ctx does.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		say(stderr, usage)
		return exitUsage
	}
	switch args[0] {
	case "serve":
		return runServe(ctx, args[1:], stdout, stderr)
	case "lint":
		return runLint(ctx, args[1:], stdout, stderr)
	case "convert":
		return runConvert(args[1:], os.Stdin, stdout, stderr)
	case "status":
		return runStatus(ctx, args[1:], stdout, stderr)
	case "key":
		return runKey(ctx, args[1:], stdout, stderr)
	case "version", "--version", "-version":
		say(stdout, version()+"\n")
		return exitOK
	case "help", "--help", "-help", "-h":
		say(stdout, usage)
		return exitOK
	default:
		say(stderr, fmt.Sprintf("sluice: there is no command %q; write serve, lint, convert, status, key or version, or see sluice --help\n", args[0]))
		return exitUsage
	}
}

func runServe(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	room := newHeapRoom()
	defer runtime.KeepAlive(room)
	if namesFile(args) {
		return runSite(ctx, args, stdout, stderr)
	}
	c, err := parseServe(args)
	switch {
	case errors.Is(err, errHelp):
		say(stdout, serveUsage)
		return exitOK
	case err != nil:
		for line := range strings.Lines(err.Error() + "\n") {
			say(stderr, "sluice serve: "+line)
		}
		return exitUsage
	}
	log := slog.New(slog.NewTextHandler(stderr, nil))
	takeStandardLog(log)
	if err := serve(ctx, c, stdout, log); err != nil {
		say(stderr, fmt.Sprintf("sluice serve: %v\n", err))
		return exitFailed
	}
	return exitOK
}

// runSite serves what a configuration file says.
func runSite(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c, err := parseSite(args)
	if errors.Is(err, errHelp) {
		say(stdout, serveUsage)
		return exitOK
	}
	if err != nil {
		for line := range strings.Lines(err.Error() + "\n") {
			say(stderr, "sluice serve: "+line)
		}
		return exitUsage
	}
	hurry := make(chan os.Signal, 1)
	signal.Notify(hurry, syscall.SIGHUP)
	defer signal.Stop(hurry)
	log := slog.New(slog.NewTextHandler(stderr, nil))
	takeStandardLog(log)
	if err := serveSite(ctx, c, hurry, stdout, log); err != nil {
		say(stderr, fmt.Sprintf("sluice serve: %v\n", err))
		return exitFailed
	}
	return exitOK
}

// say writes text. If that fails there is nowhere left to say so.
func say(w io.Writer, text string) { _, _ = io.WriteString(w, text) }

// version returns what the program was built from.
func version() string {
	v := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		v = info.Main.Version
	}
	return fmt.Sprintf("sluice %s %s %s/%s", v, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
