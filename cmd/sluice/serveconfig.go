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
	"net"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/sluicegate/sluice/algo"
	file "github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/internal/regular"
	"github.com/sluicegate/sluice/server/admin"
	"github.com/sluicegate/sluice/server/metrics"
	"github.com/sluicegate/sluice/server/reload"
)

const (
	defaultListen = "127.0.0.1:8080"
	defaultAdmin  = "127.0.0.1:9090"
)

// siteServer is what serve --config runs.
type siteServer struct {
	siteConfig
	log     *slog.Logger
	first   *file.Config
	metrics *metrics.Metrics
	states  *states
	site    *site
	watcher *reload.Watcher
	audit   *admin.AuditLog
	api     *admin.API
	active  string // the version that was last told
	doors   *doors
}

// serveSite runs what a configuration file says until ctx ends and all requests
// have been answered. Each value of hurry reads the file anew.
func serveSite(ctx context.Context, c siteConfig, hurry <-chan os.Signal, stdout io.Writer, log *slog.Logger) (err error) {
	s := &siteServer{siteConfig: c, log: log, metrics: metrics.New()}
	if s.first, err = file.Load(c.file); err != nil {
		return err
	}
	if err := checkFiles(s.first); err != nil {
		return err
	}
	if err := s.wire(ctx); err != nil {
		return errors.Join(err, s.close())
	}
	if err := s.listen(ctx); err != nil {
		return errors.Join(err, s.doors.close(), s.close())
	}
	s.announce(stdout)
	watching, stop := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		s.watch(watching, hurry)
	}()
	err = errors.Join(s.doors.serve(ctx), s.states.save()) // no request is left
	stop()
	select {
	case <-watched:
	case <-time.After(endTimeout):
		log.Warn("a configuration that is being read is not waited for", slog.String("file", s.file))
	}
	err = errors.Join(err, s.close())
	log.Info("stopped")
	return err
}

// watch reads the file anew when it changes, unless it is one that the program
// was given open: that was read to its end.
func (s *siteServer) watch(ctx context.Context, hurry <-chan os.Signal) {
	if !regular.Given(s.file) {
		s.watcher.Run(ctx, hurry)
		return
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-hurry:
			s.log.Warn("SIGHUP has no effect: a configuration that does not come from a file is read once", slog.String("file", s.file))
		}
	}
}

// wire makes everything but the doors' sockets.
func (s *siteServer) wire(ctx context.Context) error {
	if err := s.adminFiles(); err != nil {
		return err
	}
	overrides, err := admin.OpenOverrides(s.overrides)
	if err != nil {
		return err
	}
	if s.site, err = newSite(s.log, s.metrics, overrides, s.now); err != nil {
		return err
	}
	s.audit = admin.NewAuditLog(os.Stderr)
	if s.siteConfig.audit != "" {
		if s.audit, err = admin.OpenAudit(s.siteConfig.audit); err != nil {
			return err
		}
	}
	s.states, err = openStates(s.first.Store, s.now, s.site, s.metrics, s.log) //nolint:contextcheck // the store has a timeout of its own
	if err != nil {
		return err
	}
	s.site.store, s.site.slots, s.site.report = s.metrics.Wrap(s.states.store), s.states.slots, s.states.report
	s.watcher = reload.New(reload.Options{
		File: s.file, MaxBytes: file.MaxBytes + 1, // one byte more than it accepts
		Load: func(data []byte, named func([]string)) error {
			c, err := file.ParsePaced(s.file, data, pacer())
			if err != nil {
				return err
			}
			named(s.keys(c))
			return s.apply(ctx, c)
		},
		Around: s.load, Changed: s.changed,
	}, reload.Version{File: s.file, Hash: s.first.Version, Loaded: time.Now()}, s.keys(s.first))
	s.active = s.first.Version
	if err := s.site.apply(s.first); err != nil {
		return err
	}
	s.metrics.WatchPolicy(&s.site.tally, func() metrics.Config {
		v, failure := s.watcher.Status()
		return metrics.Config{File: v.File, Hash: v.Hash, Loaded: v.Loaded, Current: failure == nil}
	})
	token, err := readToken(s.first.Admin.TokenFile)
	if err != nil {
		return err
	}
	o := admin.Options{
		Ready: func() bool { return !s.doors.draining.Load() }, Store: s.states.ready,
		Config: s.readyLine, Metrics: s.metrics.Handler(),
		Hosts: adminHosts(s.first.Admin.Address, s.first.Admin.Hosts),
	}
	if token != "" || !s.first.Admin.Public {
		s.api, err = admin.NewAPI(admin.APIOptions{
			Policy: s.site.policyInForce, Store: s.site.store, Slots: s.site.slots, Shared: s.states.shared != nil, Tally: &s.site.tally, Version: s.watcher.Status,
			Overrides: overrides, Apply: s.site.override, Audit: s.audit, Token: token, Now: s.now, Hosts: o.Hosts,
		})
		if err != nil {
			return err
		}
		o.API = s.api
	}
	s.doors = newDoors(ctx, s.site, admin.Handler(o), s.drain, s.log)
	s.doors.tcp = &tcpParts{store: s.site.store, slots: s.site.slots, admits: s.site.admits, exempt: s.site.exempt, metrics: s.metrics}
	s.metrics.WatchTCP(s.doors.stats)
	s.metrics.WatchCertificates(s.doors.certificates)
	return nil
}

func (s *siteServer) close() error {
	var errs []error
	if s.states != nil {
		errs = append(errs, s.states.close())
	}
	if s.audit != nil {
		errs = append(errs, s.audit.Close())
	}
	return errors.Join(errs...)
}

// listen opens all doors, or fails.
func (s *siteServer) listen(ctx context.Context) error {
	listeners := listenersOf(s.first)
	if err := s.doors.listen(ctx, listeners...); err != nil {
		return fmt.Errorf("%s: %w", s.file, err)
	}
	at := cmp.Or(s.first.Admin.Address, defaultAdmin)
	if at == "off" {
		return nil
	}
	if err := s.doors.listenAdmin(ctx, at); err != nil {
		return fmt.Errorf("%w; write another address under admin, or admin: off", err)
	}
	return nil
}

// adminHosts returns the names by which the admin address answers: those that
// are listed, and its own.
func adminHosts(address string, listed []string) []string {
	host, _, _ := net.SplitHostPort(address) // empty if it is off, or the default
	if own, err := file.ParseAdminHost(host); err == nil {
		return append(slices.Clone(listed), own)
	}
	return listed
}

// adminFiles settles where overrides and the audit log are: in the flags or in
// the file.
func (s *siteServer) adminFiles() error {
	var faults []error
	for _, f := range []struct {
		flag, word, inFile string
		into               *string
	}{
		{"overrides", "overrides_file", s.first.Admin.OverridesFile, &s.overrides},
		{"audit", "audit_file", s.first.Admin.AuditFile, &s.siteConfig.audit},
	} {
		if f.inFile != "" && *f.into != "" && f.inFile != *f.into {
			faults = append(faults, fmt.Errorf("--%s %s: %s has %s: %s under admin; keep one of them", f.flag, *f.into, s.file, f.word, f.inFile))
		}
		*f.into = cmp.Or(*f.into, f.inFile)
	}
	return errors.Join(faults...)
}

// keys returns the files of a configuration that hold keys and secrets.
func (s *siteServer) keys(c *file.Config) (names []string) {
	if t := c.Tokens; t != nil {
		names = append(names, cmp.Or(t.JWKS, t.HMAC, t.Key))
	}
	if s.first.Admin.TokenFile != "" { // which is settled at the start
		names = append(names, s.first.Admin.TokenFile)
	}
	return names
}

// listenersOf returns where clients come in.
func listenersOf(c *file.Config) []file.Listener {
	if len(c.Listen) == 0 {
		return []file.Listener{{Address: defaultListen}}
	}
	return c.Listen
}

// apply puts a new file in force, but for what is settled at the start: all of
// it, or nothing.
func (s *siteServer) apply(ctx context.Context, c *file.Config) error {
	token, err := readToken(s.first.Admin.TokenFile)
	if err != nil {
		return err
	}
	change, err := s.doors.prepare(ctx, listenersOf(c))
	if err != nil {
		return fmt.Errorf("%s: %w", s.file, err)
	}
	if err := s.site.apply(c); err != nil {
		return errors.Join(err, change.abandon())
	}
	if s.api != nil {
		s.api.SetToken(token)
	}
	if err := change.commit(); err != nil { //nolint:contextcheck // connections end with their door, not with ctx
		s.log.Error("an address does not serve as it should", slog.Any("error", err))
	}
	for _, part := range []struct {
		name    string
		changed bool
	}{
		{"admin", !reflect.DeepEqual(c.Admin, s.first.Admin)},
		{"store", !reflect.DeepEqual(c.Store, s.first.Store)},
	} {
		if part.changed {
			s.log.Warn("a part of the configuration takes effect at the next start only", slog.String("part", part.name))
		}
	}
	return nil
}

// load calls f, which reads a file and puts it in force, so that requests feel
// little of it.
func (s *siteServer) load(f func() error) error {
	return collectAfter(func() error {
		failed, equal := aside(f)
		if equal != nil {
			s.log.Warn("requests may wait while a configuration is read", slog.Any("error", equal))
		}
		return failed
	})
}

// changed logs what came of a new file.
func (s *siteServer) changed(v reload.Version, err error) {
	if err == nil && v.Hash == s.active {
		s.log.Info("the configuration has been read again, with the files that it names", slog.String("file", v.File), slog.String("hash", v.Hash))
		return
	}
	if err == nil {
		s.active = v.Hash
		s.log.Info("a new configuration is in force", slog.String("file", v.File), slog.String("hash", v.Hash))
		return
	}
	const most = 20 // lines; all of them are at /readyz
	lines := strings.Split(strings.TrimSpace(err.Error()), "\n")
	if n := len(lines) - most; n > 1 {
		lines = append(lines[:most], fmt.Sprintf("and %d faults more; see sluice lint %s", n, s.file))
	}
	for _, line := range lines {
		s.log.Error("the configuration as it is now is not in force; the one before goes on",
			slog.String("hash", v.Hash), slog.String("problem", strings.TrimSpace(line)))
	}
}

// readyLine says which configuration is in force, and which certificate is not.
func (s *siteServer) readyLine() string {
	v, failure := s.watcher.Status()
	line := fmt.Sprintf("config: %s, version %s, in force since %s", v.File, v.Hash, v.Loaded.UTC().Format(time.RFC3339))
	if failure != nil {
		line += "; as it is now it is not in force:\n" + failure.Error()
	}
	return line + s.doors.certificateLines(time.Now())
}

// announce prints what is limited and how.
func (s *siteServer) announce(stdout io.Writer) {
	var b strings.Builder
	urls := make([]string, len(s.first.Upstreams))
	for i, u := range s.first.Upstreams {
		urls[i] = strings.TrimSpace(u.Host + u.Path + " " + u.URL.String())
	}
	for _, o := range s.doors.open {
		fmt.Fprintf(&b, "sluice: %s\n", o.describe(strings.Join(urls, ", ")))
	}
	const most = 20
	p := s.site.policyInForce()
	for i := range min(p.Len(), most) {
		r := p.Rule(i)
		for _, l := range r.Levels {
			for _, limit := range l.Limits {
				fmt.Fprintf(&b, "  rule   %s: %v: %s\n", r.Name, limit, algo.Worst(limit.Limit))
			}
		}
	}
	if p.Len() > most {
		fmt.Fprintf(&b, "  and %d rules more; see sluice lint %s\n", p.Len()-most, s.file)
	}
	if s.doors.adminSocket != nil {
		fmt.Fprintf(&b, "  admin  http://%s/metrics, /healthz, /readyz, /policy; see sluice status\n", s.doors.adminSocket.Addr())
	}
	changes := "changes take effect within a second"
	if regular.Given(s.file) {
		changes = "read once"
	}
	fmt.Fprintf(&b, "  config %s, version %s: %s\n", s.file, s.first.Version, changes)
	if _, err := io.WriteString(stdout, b.String()); err != nil {
		s.log.Warn("standard output cannot be written", slog.Any("error", err)) // which is no reason not to serve
	}
}

// Bytes of the admin's token, and of its file.
const (
	leastToken = 16
	mostToken  = 1 << 20
)

// readToken returns the token that a file holds, empty if there is no file.
func readToken(name string) (string, error) {
	if name == "" {
		return "", nil
	}
	f, _, err := regular.Open(name)
	if err != nil {
		return "", fmt.Errorf("token file: %w", err)
	}
	data, err := io.ReadAll(io.LimitReader(f, mostToken))
	if err := errors.Join(err, f.Close()); err != nil {
		return "", fmt.Errorf("token file: %w", err)
	}
	token := strings.TrimSpace(string(data))
	if len(token) < leastToken {
		return "", fmt.Errorf("token file %s: %d bytes can be guessed; write %d or more, such as those of openssl rand -hex 32", name, len(token), leastToken)
	}
	return token, nil
}
