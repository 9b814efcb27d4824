// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package reload watches a configuration file and puts it in force when it
// changes. A file with faults is not put in force: what was goes on, and why is
// there to be seen.
package reload

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/internal/regular"
)

// Every is how often a [Watcher] looks whether its file has changed.
const Every = time.Second

// Version is a file that is in force.
type Version struct {
	File   string
	Hash   string // 12 hexadecimal digits that change with the file's bytes
	Loaded time.Time
}

// Failure is a file that could not be put in force.
type Failure struct {
	Time time.Time
	Err  error
}

// Options are what a [Watcher] watches and whom it tells. File and Apply are
// required.
type Options struct {
	File string
	// Apply puts a configuration in force, as a whole or not at all. It is
	// called by one goroutine at a time.
	Apply func(*config.Config) error
	// Named, if not nil, returns the files that a configuration names and Apply
	// reads, of which there are few: keys, tokens. Where one of them changes the
	// configuration is put in force once more.
	Named func(*config.Config) []string
	// Around, if not nil, is called with what reads a file and applies it, and
	// calls it: a large file takes a while.
	Around func(func() error) error
	// Pause, if not nil, is called again and again while a file is read, some
	// microseconds apart: it may let others have the processor.
	Pause func()
	// Changed, if not nil, is called after every try to put a file in force,
	// with why it failed, nil if it did not. Reasons that repeat are told once.
	Changed func(Version, error)
}

// Watcher keeps a file in force. It is safe for concurrent use.
type Watcher struct {
	o Options

	apply sync.Mutex // held while a file is read and put in force
	seen  mark       // the file when it was last tried
	named []named    // the files that it names, then

	mu      sync.Mutex
	active  Version
	failure *Failure
}

// mark tells whether a file may have changed: what its folder says of it, and
// what it holds.
type mark struct {
	modified time.Time
	size     int64
	id       os.FileInfo
	sum      [sha256.Size]byte
}

// New returns a Watcher whose file is c, as read at the moment now. Whoever puts
// c in force does it after New, so that a file that it names may change
// meanwhile.
func New(o Options, c *config.Config, now time.Time) *Watcher {
	if o.Around == nil {
		o.Around = func(f func() error) error { return f() }
	}
	if o.Pause == nil {
		o.Pause = func() {}
	}
	w := &Watcher{o: o, active: Version{File: c.File, Hash: c.Version, Loaded: now}}
	w.note(c)
	return w
}

// note remembers the files that a configuration names, as they are before it is
// put in force.
func (w *Watcher) note(c *config.Config) {
	if w.o.Named != nil {
		w.named = look(w.o.Named(c))
	}
}

// Status returns the version in force, and the last failure since it was put in
// force, nil if there was none.
func (w *Watcher) Status() (Version, *Failure) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failure == nil {
		return w.active, nil
	}
	f := *w.failure
	return w.active, &f
}

// Run looks at the file, and at those that it names, every second and reads it
// when one of them has changed, and at once, changed or not, for each value of
// hurry. It ends with ctx.
func (w *Watcher) Run(ctx context.Context, hurry <-chan os.Signal) {
	ticker := time.NewTicker(Every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-hurry:
			w.Reload() //nolint:errcheck // Changed is told
		case <-ticker.C:
			w.look()
		}
	}
}

// Reload reads the file and puts it in force, changed or not.
func (w *Watcher) Reload() error {
	w.apply.Lock()
	defer w.apply.Unlock()
	return w.load(true)
}

// look reads the file if it may have changed.
func (w *Watcher) look() {
	w.apply.Lock()
	defer w.apply.Unlock()
	info, err := os.Stat(w.o.File)
	same := err == nil && w.seen.id != nil && os.SameFile(info, w.seen.id) && info.ModTime().Equal(w.seen.modified) && info.Size() == w.seen.size
	changed := false
	for i := range w.named {
		changed = w.named[i].changed() || changed
	}
	if changed || !same {
		w.load(changed) //nolint:errcheck // Changed is told
	}
}

func (w *Watcher) load(force bool) error {
	data, m, err := read(w.o.File)
	if err != nil {
		w.seen = mark{}
		return w.failed(err)
	}
	// Touched, or written anew as it was, also if it has faults. At the first
	// look it is mostly what is in force from the beginning.
	same := w.seen.id != nil && m.sum == w.seen.sum
	active, failure := w.Status()
	w.seen = m
	if !force && (same || failure == nil && version(m) == active.Hash) {
		return nil
	}
	return w.o.Around(func() error {
		c, err := config.ParsePaced(w.o.File, data, w.o.Pause)
		if err == nil {
			w.note(c)
			err = w.o.Apply(c)
		}
		if err != nil {
			return w.failed(err)
		}
		w.done(Version{File: c.File, Hash: c.Version, Loaded: time.Now()})
		return nil
	})
}

func (w *Watcher) done(active Version) {
	w.mu.Lock()
	w.active, w.failure = active, nil
	w.mu.Unlock()
	w.tell(active, nil)
}

func version(m mark) string { return hex.EncodeToString(m.sum[:6]) }

func (w *Watcher) failed(err error) error {
	w.mu.Lock()
	again := w.failure != nil && w.failure.Err.Error() == err.Error()
	w.failure = &Failure{Time: time.Now(), Err: err}
	active := w.active
	w.mu.Unlock()
	if !again {
		w.tell(active, err)
	}
	return err
}

func (w *Watcher) tell(v Version, err error) {
	if w.o.Changed != nil {
		w.o.Changed(v, err)
	}
}

// read returns a file's content and what to know it by. It reads one byte more
// than config accepts.
func read(name string) (data []byte, m mark, err error) {
	f, info, err := regular.Open(name)
	if err != nil {
		return nil, m, fmt.Errorf("reload: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if data, err = io.ReadAll(io.LimitReader(f, config.MaxBytes+1)); err != nil {
		return nil, m, fmt.Errorf("reload: %w", err)
	}
	return data, mark{modified: info.ModTime(), size: info.Size(), id: info, sum: sha256.Sum256(data)}, nil
}
