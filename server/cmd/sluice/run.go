// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
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

// run runs the program until it is done or ctx ends, and returns its exit code.
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

// serve runs the configuration of the flags, or of the file that they name. On SIGHUP it reads
// the file and opens the logs again.
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
	m := &memory{room: newHeapRoom()}
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

// started schedules the return of the start's memory to the system. Call it before around. The
// return collects garbage once more, as only then the memory of all replaced rules is free.
func (m *memory) started() { m.giveBack = time.AfterFunc(returnAfter, debug.FreeOSMemory) }

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

var (
	logFormats = []string{"text", "json"}
	logLevels  = map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}
)

// logger returns the logger of the program's own log.
func (f *serveFlags) logger(w io.Writer) *slog.Logger {
	o := &slog.HandlerOptions{Level: f.level}
	if f.json() {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

// json reports whether the log is in JSON.
func (f *serveFlags) json() bool { return f.One("log-format") == "json" }

// serveFlags are the flags of serve.
type serveFlags struct {
	cli.Values
	drain  time.Duration
	level  slog.Level // the lowest level that is logged
	file   string     // text of the file made of the flags, without --config
	faults []error
}

func (f *serveFlags) fault(format string, args ...any) {
	f.faults = append(f.faults, fmt.Errorf(format, args...))
}

// parseServe reads the flags of serve; err holds the faults found before. Without
// --config it returns their configuration. The error joins all faults, one a line.
func parseServe(values cli.Values, rest []string, err error) (*serveFlags, *config.Config, error) {
	f := &serveFlags{Values: values, drain: 30 * time.Second}
	if err != nil {
		f.faults = append(f.faults, err)
	}
	for _, word := range rest {
		f.fault("unexpected %q; every value has its flag before it, in quotes if it has spaces", word)
	}
	if f.Given("drain") {
		d, err := time.ParseDuration(f.One("drain"))
		if err != nil || d < 0 || d > 24*time.Hour {
			f.fault("--drain %q: is not a duration from 0s to 24h; use for example 30s", f.One("drain"))
		}
		f.drain = d
	}
	if f.Given("log-format") && !slices.Contains(logFormats, f.One("log-format")) {
		f.fault("--log-format %q: expected text or json", f.One("log-format"))
	}
	if f.Given("log-level") {
		level, ok := logLevels[f.One("log-level")]
		if !ok {
			f.fault("--log-level %q: expected debug, info, warn or error", f.One("log-level"))
		}
		f.level = level
	}
	var c *config.Config
	if f.Given("config") {
		f.checkBesideFile()
	} else {
		c = f.parse()
	}
	return f, c, errors.Join(f.faults...)
}

// checkBesideFile finds the flags that --config excludes.
func (f *serveFlags) checkBesideFile() {
	if f.One("config") == "" {
		f.fault("--config: expected a file, such as sluice.yaml")
	}
	for _, flag := range append(flagsOfLimits(), otherFlags...) {
		if name := flag.Name; f.Given(name) {
			f.fault("--%s: does not go with --config: write it into the file; only --overrides, --audit, --drain, --log-format and --log-level do", name)
		}
	}
}

const serveDoc = `Limits:

    100/min                          token bucket: 100 at once, then 100 a minute
    10/s burst 20                    token bucket: 20 at once, then 10 a second
    100/min sliding-log              never more than 100 in any minute, exactly
    1000000/h sliding-histogram      the same in little memory, for large quotas
    100/min sliding-counter          about that, in least memory
    5/min fixed-window               5 in each minute of the clock
    1000/day calendar Asia/Seoul     1000 in each day there
    1/3s leaky-bucket                one every 3 s
    100MB/min                        bytes of the responses' bodies

Examples:

    sluice serve
    sluice serve --upstream http://127.0.0.1:3000 --limit 100/min --by ip
    sluice serve --upstream http://127.0.0.1:3000 --limit 10/s --limit "1000/day calendar UTC" --by header.X-Api-Key
    sluice serve --upstream http://127.0.0.1:3000 --like shopify-rest --by header.X-Shop
    sluice serve --upstream http://127.0.0.1:3000 --limit 100/min --store redis://127.0.0.1:6379 --failure local
`

// serveFlagTable returns the flags of serve.
func serveFlagTable() []cli.Flag { return slices.Concat(fileFlags, flagsOfLimits(), otherFlags) }

// fileFlags are the flags that may stand beside --config.
var fileFlags = []cli.Flag{
	{Name: "config", Value: "FILE", Group: "With a configuration file:", Doc: "read listeners, upstreams and rules from FILE (docs/configuration.md); it is read again when it changes, or on SIGHUP; a file with errors has no effect"},
	{Name: "drain", Value: "DURATION", Doc: "how long requests may take to end after a signal to stop (default 30s); a second signal ends them at once"},
	{Name: "overrides", Value: "FILE", Doc: `keep the overrides of "sluice key override" over a restart`},
	{Name: "audit", Value: "FILE", Doc: "append every change to FILE (default: standard error)"},
	{Name: "log-format", Value: "FORMAT", Words: logFormats, Doc: "format of the program's own log, on standard error: text or json (default text)"},
	{Name: "log-level", Value: "LEVEL", Words: []string{"debug", "info", "warn", "error"}, Doc: "lowest level of the program's own log: debug, info, warn or error (default info)"},
}

// flagsOfLimits returns the flags that name the clients to limit, and the limits.
func flagsOfLimits() []cli.Flag {
	return []cli.Flag{
		{Name: "upstream", Value: "URL", Group: "Without a configuration file:", Doc: "the service, such as http://127.0.0.1:3000, https://, or h2c:// for gRPC without TLS; without it a built-in sample app answers"},
		{Name: "limit", Value: "TEXT", Repeat: true, Doc: `a limit; of several limits all must have room (default without --upstream: "10/min sliding-log")`},
		{Name: "block", Value: "TEXT", Repeat: true, Doc: `deny a key for a while after many denials: "10min after 20 denials/min"`},
		{Name: "like", Value: "NAME", Words: platformNames(), Doc: `limit as a platform does, instead of --limit: shopify-rest, github, nginx and so on; see "sluice profiles"`},
		{Name: "by", Value: "PART", Repeat: true, Words: []string{"ip", "host", "method", "header.", "cookie.", "query.", "path.1", "ip/24/48"}, Doc: "the key of a request; several make one key of each combination: ip, host, header.NAME, cookie.NAME, query.NAME, method, path.N (the N-th part of the path, from 1), ip/24/48 (networks of IPv4 and IPv6) (default ip; without --upstream query.userId)"},
		{Name: "name", Value: "NAME", Doc: "name the rules NAME, and NAME.bytes for limits of bytes: services that share a store need a name each, or they share the limits (default gateway)"},
		{Name: "trust", Value: "NETWORK", Repeat: true, Doc: "trust X-Forwarded-For of the proxies in NETWORK, such as 10.0.0.0/8 (default: none)"},
	}
}

var otherFlags = []cli.Flag{
	{Name: "listen", Value: "ADDRESS", Doc: "accept clients here (default 127.0.0.1:8080)"},
	{Name: "admin", Value: "ADDRESS", Doc: `serve the page, /healthz, /readyz, /metrics and the API of "sluice status", "sluice key" and "sluice explain" here, or "off" (default 127.0.0.1:9090)`},
	{Name: "admin-public", Doc: "let --admin be an address that other machines can reach: it serves neither page nor API there"},
	{Name: "admin-host", Value: "NAME", Repeat: true, Doc: "a name in the Host of requests to --admin, beside its IP address and localhost"},
	{Name: "fields", Value: "LIST", Words: []string{"draft-11", "x-ratelimit", "x-ratelimit-epoch", "none"}, Doc: "header fields of the answers, separated by commas: draft-11, x-ratelimit, x-ratelimit-epoch, or none (default draft-11; without --upstream draft-11,x-ratelimit)"},
	{Name: "state", Value: "FILE", Doc: "keep the state of all keys over a restart: read FILE at the start, write it at a clean stop"},
	{Name: "store", Value: "URL", Doc: "share counters with all that name the same store: redis://HOST, redis-sentinel://HOST,HOST/MASTER or redis-cluster://HOST,HOST; rediss:// and so on with TLS. A user may be in it; the password is read from the variable SLUICE_STORE_PASSWORD or from ?password_file=FILE. More parameters: ca_file, cert_file, key_file, prefix, timeout. env:REDIS_URL reads the URL from that variable, where a password may be in it"},
	{Name: "failure", Value: "POLICY", Words: []string{"open", "local", "closed"}, Doc: "while the store is unavailable: open allows requests, local gives each node its share of the limits, closed refuses them (default open)"},
	{Name: "decision-log", Value: "PATH", Doc: "write a line of JSON for each request to PATH, stdout or stderr (docs/decision-log.md); SIGHUP opens it again"},
	{Name: "access-log", Value: "PATH", Doc: "write a line in the combined format of nginx and Apache"},
	{Name: "upstream-host", Doc: "send the upstream's own name in Host, not the client's"},
	{Name: "print-config", Doc: "do not serve: print a configuration file with the same effect as the flags"},
}
