// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/internal/regular"
	"github.com/sluicegate/sluice/server/internal/accesslog"
	"github.com/sluicegate/sluice/server/internal/decisionlog"
	"github.com/sluicegate/sluice/server/internal/front"
	"github.com/sluicegate/sluice/server/internal/logfile"
	"github.com/sluicegate/sluice/server/internal/metrics"
)

// logs are the logs of requests. They outlive configurations.
type logs struct {
	log       *slog.Logger
	node      string
	secret    []byte // of this process; the default
	decisions requestLog
	access    requestLog
	buffers   sync.Pool // of *[]byte
}

// requestLog is a log whose file may change while requests are logged.
type requestLog struct {
	name   string
	counts logfile.Counts
	file   atomic.Pointer[logfile.File] // nil if the log is off
}

func newLogs(log *slog.Logger) *logs {
	node, err := os.Hostname()
	if err != nil {
		log.Warn("this machine has no name for the decision log", slog.Any("error", err))
	}
	l := &logs{log: log, node: node, secret: []byte(rand.Text() + rand.Text())}
	l.decisions.name, l.access.name = "decision log", "access log"
	l.buffers.New = func() any { return new([]byte) }
	return l
}

func (l *logs) all() []*requestLog { return []*requestLog{&l.decisions, &l.access} }

// write writes a line, or drops it.
func (l *requestLog) write(line []byte) {
	if f := l.file.Load(); f != nil {
		f.Write(line)
		return
	}
	l.counts.Dropped.Add(1) // the log has just been turned off
}

// reopen reopens the files of all logs.
func (l *logs) reopen() {
	for _, r := range l.all() {
		if f := r.file.Load(); f != nil {
			f.Reopen()
		}
	}
}

// close writes the buffered lines and closes the logs.
func (l *logs) close() error {
	var errs []error
	for _, r := range l.all() {
		if f := r.file.Swap(nil); f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

// stats returns how many lines were written and dropped.
func (l *logs) stats() (decisions, access metrics.LogLines) {
	of := func(r *requestLog) metrics.LogLines {
		return metrics.LogLines{Written: r.counts.Written.Load(), Dropped: r.counts.Dropped.Load()}
	}
	return of(&l.decisions), of(&l.access)
}

// logChange is a prepared change of a log's file.
type logChange struct {
	of   *requestLog
	next *logfile.File // nil turns the log off
}

// logChanges are the changes of one configuration.
type logChanges []logChange

// prepare opens the log files of a configuration that are not open yet. If one cannot be
// opened, none is. The caller must call commit or abandon next.
func (l *logs) prepare(c *config.Config) (changes logChanges, err error) {
	paths := []string{c.DecisionLog.File, c.AccessLog.File}
	for i, r := range l.all() {
		change := logChange{of: r}
		switch old := r.file.Load(); {
		case old == nil && paths[i] == "" || old != nil && old.Path() == paths[i]:
			continue
		case paths[i] != "":
			if change.next, err = logfile.Open(paths[i], logfile.Options{Counts: &r.counts, Log: l.log, Name: r.name}); err != nil {
				return nil, errors.Join(fmt.Errorf("%s: %w", c.File, err), changes.abandon())
			}
		}
		changes = append(changes, change)
	}
	return changes, nil
}

// abandon closes the files opened by prepare.
func (c logChanges) abandon() error {
	var errs []error
	for _, change := range c {
		if change.next != nil {
			errs = append(errs, change.next.Close())
		}
	}
	return errors.Join(errs...)
}

// commit replaces the files and closes the previous ones.
func (c logChanges) commit() error {
	var errs []error
	for _, change := range c {
		if old := change.of.file.Swap(change.next); old != nil {
			errs = append(errs, old.Close())
		}
	}
	return errors.Join(errs...)
}

// sink returns the sink that logs requests under a configuration. The encoder is nil if no
// decisions are logged.
func (l *logs) sink(c *config.Config, decisions *decisionlog.Encoder) front.Sink {
	access := c.AccessLog.File != ""
	return front.SinkFunc(func(_ context.Context, r *front.Record) {
		if !r.Ended || decisions == nil && !access {
			return
		}
		buffer := l.buffers.Get().(*[]byte) //nolint:forcetypeassert // nothing else is ever stored
		line := (*buffer)[:0]
		if decisions != nil && decisions.Wants(r) {
			line = decisions.Append(line, r)
			l.decisions.write(line)
		}
		if access && r.HTTP() {
			line = accesslog.Append(line[:0], r)
			l.access.write(line)
		}
		*buffer = line
		l.buffers.Put(buffer)
	})
}

var logged = map[string]decisionlog.Requests{"": decisionlog.All, "all": decisionlog.All, "denied": decisionlog.Denied, "sample": decisionlog.Sample}

// encoder returns the encoder of a configuration's decision log, or nil if that is off.
func (l *logs) encoder(c *config.Config) (*decisionlog.Encoder, error) {
	d := &c.DecisionLog
	if d.File == "" {
		return nil, nil //nolint:nilnil // there is none, which is no error
	}
	o := decisionlog.Options{
		Node: l.node, Config: c.Version, Requests: logged[d.Requests], Every: uint64(d.Every), By: d.By,
		Plain: d.Plain, Secret: l.secret,
	}
	if d.SecretFile != "" {
		secret, err := readSecret("secret file", d.SecretFile)
		if err != nil {
			return nil, fmt.Errorf("%s: decision_log: %w", c.File, err)
		}
		o.Secret = []byte(secret)
	}
	return decisionlog.New(o), nil
}

// logSecret logs that the hashes of keys differ from those of other processes.
func (l *logs) logSecret(c *config.Config) {
	if d := &c.DecisionLog; d.File != "" && !d.Plain && d.SecretFile == "" {
		l.log.Info("keys in the decision log are hashed with a secret of this process: the next start, and other nodes, have other hashes; name a secret_file for the same ones")
	}
}

// checkLog returns why a log's file cannot be opened, or nil if name is empty.
func checkLog(name string) error {
	if name = logfile.Stream(name); name == "" || regular.Given(name) {
		return nil
	}
	info, err := os.Stat(name)
	if errors.Is(err, os.ErrNotExist) {
		return checkFolder(name)
	}
	if err != nil {
		return err
	}
	return regular.CheckStream(name, info)
}
