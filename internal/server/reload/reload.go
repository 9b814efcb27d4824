// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package reload watches a file, and those that it names, and activates it
// when one of them changes. A file with faults is not activated: what was goes
// on, and why is there to be seen.
package reload

import (
	"cmp"
	"context"
	"encoding/hex"
	"os"
	"sync"
	"time"
)

// Every is how often a [Watcher] looks whether its file has changed.
const Every = time.Second

// Version is a file that is active.
type Version struct {
	File   string    `json:"file"`
	Hash   string    `json:"hash"` // 12 hexadecimal digits that change with the file's bytes
	Loaded time.Time `json:"loaded"`
}

// Options are what a [Watcher] watches and whom it reports. File, MaxBytes and Load
// are required.
type Options struct {
	File string
	// MaxBytes is how much of the file is read at most.
	MaxBytes int64
	// Load reads what the file holds and activates it, as a whole or not at
	// all. Before it activates it it calls named with the files that it names
	// and reads, of which there are few: keys, tokens. Where one of them changes
	// the file is loaded once more. It is called by one goroutine at a time.
	Load func(data []byte, named func(files []string)) error
	// Hurried, if not nil, is called for each value of hurry, before the file is read.
	Hurried func()
	// Around, if not nil, is called with what loads a file, and calls it: a large
	// file takes a while.
	Around func(func() error) error
	// Changed, if not nil, is called after every try to activate a file,
	// with why it failed, nil if it did not. Reasons that repeat are reported once.
	Changed func(Version, error)
	// Every is the time between two looks at the files; 0 means [Every].
	Every time.Duration
}

// Watcher keeps a file active. It is safe for concurrent use.
type Watcher struct {
	o Options

	apply sync.Mutex // held while a file is read and activated
	seen  mark       // the file when it was last tried
	named []named    // the files that it names, then

	mu      sync.Mutex
	active  Version
	failure error
}

// New returns a Watcher whose file is active as an active version that names
// files. The caller activates it after New, so that a file that it names
// may change meanwhile.
func New(o Options, active Version, files []string) *Watcher {
	if o.Around == nil {
		o.Around = func(f func() error) error { return f() }
	}
	w := &Watcher{o: o, active: active}
	w.note(files)
	return w
}

// note remembers the files that a file names, as they are before it is put in
// force.
func (w *Watcher) note(files []string) {
	w.named = make([]named, len(files))
	for i, name := range files {
		w.named[i].name = name
		w.named[i].changed()
	}
}

// Status returns the active version, and why the file as it was last tried is
// not, nil if it is.
func (w *Watcher) Status() (active Version, failure error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.active, w.failure
}

// Run looks at the file, and at those that it names, within Options.Every and reads it
// when one of them has changed, and at once, changed or not, for each value of
// hurry. It ends with ctx.
func (w *Watcher) Run(ctx context.Context, hurry <-chan os.Signal) {
	ticker := time.NewTicker(cmp.Or(w.o.Every, Every))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-hurry:
			if w.o.Hurried != nil {
				w.o.Hurried()
			}
			w.Reload() //nolint:errcheck // Changed is reported
		case <-ticker.C:
			w.look()
		}
	}
}

// Reload reads the file and activates it, changed or not.
func (w *Watcher) Reload() error {
	w.apply.Lock()
	defer w.apply.Unlock()
	return w.load(true)
}

// look reads the file if it may have changed.
func (w *Watcher) look() {
	w.apply.Lock()
	defer w.apply.Unlock()
	same, changed := w.seen.holds(w.o.File), false
	for i := range w.named {
		changed = w.named[i].changed() || changed
	}
	if changed || !same {
		w.load(changed) //nolint:errcheck // Changed is reported
	}
}

func (w *Watcher) load(force bool) error {
	data, m, err := read(w.o.File, w.o.MaxBytes)
	if err != nil {
		w.seen = mark{}
		return w.failed(err)
	}
	// Touched, or written anew as it was, also if it has faults. At the first
	// look it is mostly what is active from the beginning.
	same := w.seen.info != nil && m.sum == w.seen.sum
	active, failure := w.Status()
	w.seen = m
	if !force && (same || failure == nil && version(m) == active.Hash) {
		return nil
	}
	return w.o.Around(func() error {
		if err := w.o.Load(data, w.note); err != nil {
			return w.failed(err)
		}
		w.done(Version{File: w.o.File, Hash: version(m), Loaded: time.Now()})
		return nil
	})
}

func (w *Watcher) done(active Version) {
	w.mu.Lock()
	w.active, w.failure = active, nil
	w.mu.Unlock()
	w.report(active, nil)
}

func version(m mark) string { return hex.EncodeToString(m.sum[:6]) }

func (w *Watcher) failed(err error) error {
	w.mu.Lock()
	again := w.failure != nil && w.failure.Error() == err.Error()
	w.failure = err
	active := w.active
	w.mu.Unlock()
	if !again {
		w.report(active, err)
	}
	return err
}

func (w *Watcher) report(v Version, err error) {
	if w.o.Changed != nil {
		w.o.Changed(v, err)
	}
}
