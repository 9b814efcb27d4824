// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/internal/regular"
	"github.com/sluicegate/sluice/server/internal/front/rls"
	"github.com/sluicegate/sluice/server/internal/lint"
	"github.com/sluicegate/sluice/server/internal/reload"
)

// newWatcher returns the watcher that reloads the configuration's file.
func (s *server) newWatcher(ctx context.Context) *reload.Watcher {
	c, file := s.Config, s.Config.File // Load must not keep the first configuration
	return reload.New(reload.Options{
		File: file, MaxBytes: bounds.MaxFileBytes + 1, // one byte more than it accepts
		Load: func(data []byte, named func([]string)) error {
			return inBackground(s.Log, func() error {
				next, err := config.Parse(file, data)
				if err != nil {
					return err
				}
				named(s.keys(next))
				if err := s.apply(ctx, next); err != nil {
					return err
				}
				logWarnings(s.Log, next, s.runtime.now())
				return nil
			})
		},
		Hurried: s.reopen, Around: s.Around, Changed: s.changed, Every: s.Intervals.File,
	}, reload.Version{File: c.File, Hash: c.Version, Loaded: time.Now()}, s.keys(c))
}

// rereads reports whether the configuration is read again. A file descriptor passed to the
// program is not: it was read to its end.
func (s *server) rereads() bool { return s.Watch && !regular.Given(s.Config.File) }

// watch reloads the file when it changes, until ctx ends.
func (s *server) watch(ctx context.Context) {
	if s.rereads() {
		s.watcher.Run(ctx, s.Again)
		return
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.Again:
			s.reopen()
			s.Log.Warn("SIGHUP opens logs again and nothing else: a configuration that does not come from a file is read once", slog.String("file", s.Config.File))
		}
	}
}

// reopen reopens the files of all logs, as they may have been moved away.
func (s *server) reopen() {
	s.runtime.logs.reopen()
	if err := s.audit.Reopen(); err != nil {
		s.Log.Error("the audit log cannot be opened again; the previous file stays open", slog.Any("error", err))
	}
}

// keys returns the files that hold keys, secrets and Envoy's limits, and the folders of these.
func (s *server) keys(c *config.Config) (names []string) {
	if t := c.Tokens; t != nil {
		names = append(names, cmp.Or(t.JWKS, t.HMAC, t.Key))
	}
	for i := range c.Listen {
		paths, _ := rls.Paths(c.Listen[i].RLS.Files) // its error is that of the front
		names = append(names, paths...)
		for _, name := range c.Listen[i].RLS.Files {
			if !slices.Contains(paths, name) {
				names = append(names, name)
			}
		}
	}
	if c.DecisionLog.SecretFile != "" {
		names = append(names, c.DecisionLog.SecretFile)
	}
	for i := range c.Listen {
		if file := c.Listen[i].TokensFile; file != "" {
			names = append(names, file)
		}
	}
	if s.Config.Admin.TokenFile != "" { // the path is fixed at the start
		names = append(names, s.Config.Admin.TokenFile)
	}
	return names
}

// apply activates a new configuration except for the settings fixed at the start: all of it or
// nothing.
func (s *server) apply(ctx context.Context, c *config.Config) error {
	token, err := ReadToken(s.Config.Admin.TokenFile)
	if err != nil {
		return err
	}
	logs, err := s.runtime.logs.prepare(c)
	if err != nil {
		return err
	}
	g, err := s.runtime.prepare(c)
	if err != nil {
		return errors.Join(err, logs.abandon())
	}
	change, err := s.listeners.prepare(ctx, g, listenersOf(c))
	if err != nil {
		return errors.Join(fmt.Errorf("%s: %w", c.File, err), logs.abandon())
	}
	s.runtime.activate(g, change.use)
	if err := logs.commit(); err != nil {
		s.Log.Error("a log could not be closed", slog.Any("error", err))
	}
	if len(logs) > 0 {
		s.runtime.logs.logSecret(c)
	}
	if s.api != nil {
		s.api.SetToken(token)
		s.api.Restart()
	}
	if err := change.commit(); err != nil { //nolint:contextcheck // connections end with their listener, not with ctx
		s.Log.Error("an address could not be changed", slog.Any("error", err))
	}
	for _, part := range []struct {
		name    string
		changed bool
	}{
		{"admin", !reflect.DeepEqual(c.Admin, s.Config.Admin)},
		{"store", !reflect.DeepEqual(c.Store, s.Config.Store)},
	} {
		if part.changed {
			s.Log.Warn("a part of the configuration takes effect at the next start only", slog.String("part", part.name))
		}
	}
	return nil
}

// changed logs the result of a reload.
func (s *server) changed(v reload.Version, err error) {
	if err == nil && v.Hash == s.active {
		s.Log.Info("the configuration has been read again, with the files that it names", slog.String("file", v.File), slog.String("hash", v.Hash))
		return
	}
	if err == nil {
		s.active = v.Hash
		s.Log.Info("a new configuration is active", slog.String("file", v.File), slog.String("hash", v.Hash))
		return
	}
	logFaults(context.Background(), s.Log, "configuration reload failed; the previous one stays active", v, err)
}

// mostFaults is the most faults logged at once; /readyz has all of them.
const mostFaults = 20

// logFaults logs the faults of a configuration, a line for each, with its place if it has one.
func logFaults(ctx context.Context, log *slog.Logger, message string, v reload.Version, err error) {
	all, ok := errors.AsType[config.Faults](err)
	if !ok {
		for line := range strings.SplitSeq(strings.TrimSpace(err.Error()), "\n") {
			all = append(all, config.Fault{File: v.File, Problem: strings.TrimSpace(line)})
		}
	}
	more := 0
	if n := len(all) - mostFaults; n > 1 {
		all, more = all[:mostFaults], n
	}
	for _, f := range all {
		attrs := []slog.Attr{slog.String("file", f.File)}
		if v.Hash != "" {
			attrs = append(attrs, slog.String("hash", v.Hash))
		}
		if f.Line > 0 {
			attrs = append(attrs, slog.Int("line", f.Line), slog.Int("column", f.Column))
		}
		log.LogAttrs(ctx, slog.LevelError, message, append(attrs, slog.String("problem", f.Problem))...) //nolint:sloglint // each caller has one text
	}
	if more > 0 {
		log.Error("the configuration has more faults; see sluice lint", slog.String("file", v.File), slog.Int("faults", more))
	}
}

// logWarnings logs the warnings about an active configuration and its files, a line for each.
func logWarnings(log *slog.Logger, c *config.Config, now time.Time) {
	all := append(lint.Warnings(c, now), FileWarnings(c)...)
	for i, w := range all {
		if i == mostFaults && len(all) > mostFaults+1 {
			log.Warn("the configuration has more warnings; see sluice lint", slog.String("file", c.File), slog.Int("warnings", len(all)-i))
			return
		}
		var of slog.Attr // an empty one is left out
		switch {
		case w.Rule != "":
			of = slog.String("rule", w.Rule)
		case w.Listener != "":
			of = slog.String("listener", w.Listener)
		case w.Column > 0:
			of = slog.Int("column", w.Column)
		}
		log.Warn("the configuration is active and has a warning", slog.String("file", w.File), slog.Int("line", w.Line), of, slog.String("problem", w.Problem))
	}
}

// LogFaults logs why a program does not start: the faults of its configuration, a line for
// each.
func LogFaults(ctx context.Context, log *slog.Logger, file string, err error) {
	logFaults(ctx, log, "sluice does not start", reload.Version{File: file}, err)
}
