// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/internal/serve"
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
	case "profiles":
		return runProfiles(args[1:], stdout, stderr)
	case "status":
		return runStatus(ctx, args[1:], stdout, stderr)
	case "key":
		return runKey(ctx, args[1:], stdout, stderr)
	case "explain":
		return runExplain(ctx, args[1:], stdout, stderr)
	case "version", "--version", "-version":
		say(stdout, version()+"\n")
		return exitOK
	case "help", "--help", "-help", "-h":
		say(stdout, usage)
		return exitOK
	default:
		say(stderr, fmt.Sprintf("sluice: there is no command %q; write serve, lint, convert, profiles, status, key, explain or version, or see sluice --help\n", args[0]))
		return exitUsage
	}
}

func runServe(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	f, c, err := parseServe(args)
	switch {
	case errors.Is(err, errHelp):
		say(stdout, serveUsage)
		return exitOK
	case err != nil:
		for line := range strings.Lines(err.Error() + "\n") {
			say(stderr, "sluice serve: "+line)
		}
		return exitUsage
	case f.given("print-config"):
		say(stdout, f.file)
		return exitOK
	}
	log := f.logger(stderr)
	serve.TakeStandardLog(log)
	signal.Ignore(syscall.SIGPIPE) // a reader of standard output or error that leaves ends nothing
	if err := f.serve(ctx, serve.Options{Config: c, Drain: f.drain, Out: stdout, Log: log}); err != nil {
		if f.json() {
			serve.LogFaults(ctx, log, cmp.Or(f.one("config"), fromFlags), err)
			return exitFailed
		}
		say(stderr, fmt.Sprintf("sluice serve: %v\n", err))
		return exitFailed
	}
	return exitOK
}

// serve runs what the flags say, or the file that they name, which a hang-up
// signal has read again. The signal has logs opened again, too.
func (f *serveFlags) serve(ctx context.Context, o serve.Options) (err error) {
	if f.given("config") {
		if err := f.load(&o); err != nil {
			return err
		}
	}
	if slices.ContainsFunc([]string{"config", "decision-log", "access-log", "audit"}, f.given) {
		again := make(chan os.Signal, 1)
		signal.Notify(again, syscall.SIGHUP)
		defer signal.Stop(again)
		o.Again = again
	}
	return serve.Run(ctx, o)
}

// load reads the file of --config. Beside it stand a few flags.
func (f *serveFlags) load(o *serve.Options) (err error) {
	if o.Config, err = config.Load(f.one("config")); err != nil {
		return err
	}
	o.Watch, o.Overrides, o.Audit = true, f.one("overrides"), f.one("audit")
	faults := []error{serve.CheckFiles(o.Config)}
	for _, name := range []struct{ flag, inFile string }{{"overrides", o.Config.Admin.OverridesFile}, {"audit", o.Config.Admin.AuditFile}} {
		if given := f.one(name.flag); given != "" && name.inFile != "" && name.inFile != given {
			faults = append(faults, fmt.Errorf("--%s %s: %s has %s_file: %s under admin; keep one of them", name.flag, given, o.Config.File, name.flag, name.inFile))
		}
	}
	return errors.Join(faults...)
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
