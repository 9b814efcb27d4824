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
	"runtime/metrics"
	"syscall"
	"time"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/internal/regular"
	"github.com/sluicegate/sluice/server/internal/cli"
	"github.com/sluicegate/sluice/server/internal/httpserver"
	"github.com/sluicegate/sluice/server/internal/reload"
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

const standardInput = "standard input"

// mostRead is one byte more than a configuration may have, so that the reader refuses it.
const mostRead = bounds.MaxFileBytes + 1

// readFile reads a file, or standard input, and returns its name.
func readFile(c *cli.Call, name string) (string, []byte, error) {
	if name == "-" {
		data, err := io.ReadAll(io.LimitReader(c.Stdin, mostRead))
		return standardInput, data, err
	}
	data, err := regular.ReadGiven(name, mostRead)
	return name, data, err
}

// loadFile reads a configuration file, or one passed to the program, such as /dev/stdin. Any
// other pipe is an error: it might never be written to.
func loadFile(name string) (*config.Config, error) {
	data, err := regular.ReadGiven(name, mostRead)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	return config.Parse(name, data)
}

// memory manages the memory of this process so that a change of the configuration delays
// requests little: see also server/internal/serve/background_linux.go.
type memory struct {
	room     []byte
	giveBack *time.Timer // returns unused memory to the system; nil before the start is over
}

func newMemory() *memory { return &memory{room: newHeapRoom()} }

// started plans the return of the memory of the start to the system. Call it before around.
func (m *memory) started() { m.giveBack = newReturn() }

// around calls f, which reads a configuration and activates it.
func (m *memory) around(f func() error) error {
	m.giveBack.Stop()
	defer m.giveBack.Reset(returnAfter)
	return collectAfter(f)
}

func (m *memory) stop() {
	if m.giveBack != nil {
		m.giveBack.Stop()
	}
	runtime.KeepAlive(m.room)
}

// heapRoom is the least garbage that starts a collection. By default the collector runs
// after 4 MB of garbage while the program keeps little, which is a hundred times a second
// under load.
const heapRoom = 32 << 20 // bytes

// newHeapRoom returns memory that is never touched, so that it takes no pages, but
// counts for the collector while it is kept. It returns nil if the operator has set the
// collector up.
func newHeapRoom() []byte {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return nil
	}
	return make([]byte, heapRoom)
}

// heapBurst is the most garbage that a change of the configuration makes before a
// collection.
const heapBurst = 256 << 20 // bytes

// collectAfter calls f, which makes much garbage at once, and collects it afterwards. A
// collection during f would slow requests down: each allocation would have to help with
// the garbage of f.
func collectAfter(f func() error) error {
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(samples)
	used := samples[0].Value.Uint64() - samples[1].Value.Uint64()
	limit := debug.SetMemoryLimit(-1)
	if most := int64(used) + heapBurst; most < limit {
		debug.SetMemoryLimit(most)
		defer debug.SetMemoryLimit(limit)
	}
	percent := debug.SetGCPercent(-1)
	defer debug.SetGCPercent(percent)
	err := f()
	runtime.GC()
	return err
}

// returnAfter is the time after a start or a change of the configuration at which its memory
// goes back to the system. The runtime alone keeps most of it: with 20,000 rules a process
// takes 90 MB, and took 200 to 360 MB after it had read them again. But one change often
// follows another, and returning memory and getting it again is a third of the cost of a
// change. So the memory is kept until the next check of the file.
const returnAfter = reload.Every + 500*time.Millisecond

// newReturn returns a timer that returns unused memory when it ends. That collects garbage
// once more, and only then frees all memory of rules that requests have used.
func newReturn() *time.Timer { return time.AfterFunc(returnAfter, debug.FreeOSMemory) }
