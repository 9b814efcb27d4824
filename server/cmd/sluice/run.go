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
	"syscall"

	"github.com/sluicegate/sluice/server/internal/cli"
	"github.com/sluicegate/sluice/server/internal/httpserver"
	"github.com/sluicegate/sluice/server/internal/serve"
)

// run is the program: it returns its exit code. It ends when ctx does.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 && (args[0] == "--version" || args[0] == "-version") {
		args = []string{"version"}
	}
	return newProgram().Run(ctx, args, os.Stdin, stdout, stderr)
}

func runServe(ctx context.Context, call *cli.Call) error {
	f, c, err := parseServe(call.Values, call.Args, call.Faults)
	switch {
	case err != nil:
		return &cli.UsageError{Err: err}
	case f.Given("print-config"):
		return call.Print(f.file)
	}
	log := f.logger(call.Stderr)
	httpserver.TakeStandardLog(log)
	signal.Ignore(syscall.SIGPIPE) // go on if a reader of standard output or error leaves
	err = f.serve(ctx, serve.Options{Config: c, Drain: f.drain, Out: call.Stdout, Log: log})
	if err != nil && f.json() {
		serve.LogFaults(ctx, log, cmp.Or(f.One("config"), fromFlags), err)
		return cli.ErrFailed
	}
	return err
}

// serve runs the configuration of the flags, or of the file that they name. A hang-up
// signal makes it read the file and open the logs again, and ends nothing.
func (f *serveFlags) serve(ctx context.Context, o serve.Options) (err error) {
	if f.Given("config") {
		if err := f.load(&o); err != nil {
			return err
		}
	}
	again := make(chan os.Signal, 1)
	signal.Notify(again, syscall.SIGHUP)
	defer signal.Stop(again)
	o.Again = again
	m := newMemory()
	defer m.stop()
	o.Started, o.Around = m.started, m.around
	return serve.Run(ctx, o)
}

// load reads the file of --config, and the few flags beside it.
func (f *serveFlags) load(o *serve.Options) (err error) {
	if o.Config, err = loadFile(f.One("config")); err != nil {
		return err
	}
	o.Watch, o.Overrides, o.Audit = true, f.One("overrides"), f.One("audit")
	faults := []error{serve.CheckFiles(o.Config)}
	for _, name := range []struct{ flag, inFile string }{{"overrides", o.Config.Admin.OverridesFile}, {"audit", o.Config.Admin.AuditFile}} {
		if given := f.One(name.flag); given != "" && name.inFile != "" && name.inFile != given {
			faults = append(faults, fmt.Errorf("--%s %s: %s has %s_file: %s under admin; keep one of them", name.flag, given, o.Config.File, name.flag, name.inFile))
		}
	}
	return errors.Join(faults...)
}
