// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package reload watches a file and the files that it names, and activates it when one of them
// changes. A file with faults is not activated: the previous version stays active, and the
// failure is kept in the status.
package reload

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/sluicegate/sluice/internal/regular"
)

// Every is the default interval at which a [Watcher] checks its file.
const Every = time.Second

// Version is an active file.
type Version struct {
	File   string    `json:"file"`
	Hash   string    `json:"hash"` // 12 hexadecimal digits that change with the file's bytes
	Loaded time.Time `json:"loaded"`
}

// Options are the options of a [Watcher]. File, MaxBytes and Load are required.
type Options struct {
	File string
	// MaxBytes bounds the bytes read of the file.
	MaxBytes int64
	// Load reads the content of the file and activates it, as a whole or not at all. Before
	// that it calls named with the few files that it names and reads, such as keys and tokens,
	// and the folders whose files it reads. A change of one of them loads the file again, and so
	// does another name in a folder, unless it begins with a dot. One goroutine at a time calls it.
	Load func(data []byte, named func(files []string)) error
	// Hurried, if not nil, is called for each value of hurry, before the file is read.
	Hurried func()
	// Around, if not nil, is called with the function that loads a file, and must call it: a
	// large file takes a while.
	Around func(func() error) error
	// Changed, if not nil, is called after every attempt to activate a file, with the failure
	// or nil. A repeated failure is reported once.
	Changed func(Version, error)
	// Every is the interval of the checks; 0 means [Every].
	Every time.Duration
}

// Watcher keeps a file active. It is safe for concurrent use.
type Watcher struct {
	o Options

	apply sync.Mutex // held while a file is read and activated
	seen  mark       // the file at the last attempt
	named []named    // the files that it named then

	mu      sync.Mutex
	active  Version
	failure error
}

// New returns a Watcher with an active version that names files. The caller activates that
// version after New, so that a change of a named file in between is noticed.
func New(o Options, active Version, files []string) *Watcher {
	if o.Around == nil {
		o.Around = func(f func() error) error { return f() }
	}
	w := &Watcher{o: o, active: active}
	w.note(files)
	return w
}

// note records the named files, as they are before the file is activated.
func (w *Watcher) note(files []string) {
	w.named = make([]named, len(files))
	for i, name := range files {
		w.named[i].name = name
		w.named[i].changed()
	}
}

// Status returns the active version, and the failure of the last attempt or nil.
func (w *Watcher) Status() (active Version, failure error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.active, w.failure
}

// Run checks the file and those that it names at intervals of Options.Every and reloads it
// when one of them has changed. For each value of hurry it reloads at once, changed or not. It
// returns when ctx ends.
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
			w.Reload() //nolint:errcheck // Changed has the error
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

// look reloads the file if it may have changed.
func (w *Watcher) look() {
	w.apply.Lock()
	defer w.apply.Unlock()
	same, changed := w.seen.holds(w.o.File), false
	for i := range w.named {
		changed = w.named[i].changed() || changed
	}
	if changed || !same {
		w.load(changed) //nolint:errcheck // Changed has the error
	}
}

func (w *Watcher) load(force bool) error {
	data, m, err := read(w.o.File, w.o.MaxBytes)
	if err != nil {
		w.seen = mark{}
		return w.failed(err)
	}
	// The content is unchanged, faults included. At the first check it is mostly that of the
	// initial version.
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

// mark identifies a content of a file, by its metadata and a hash. A mark without info is of a
// file that could not be read.
type mark struct {
	info os.FileInfo
	sum  [sha256.Size]byte
}

// holds reports whether the file's metadata is unchanged.
func (m *mark) holds(name string) bool {
	info, err := os.Stat(name)
	return err == nil && m.info != nil && os.SameFile(info, m.info) && info.ModTime().Equal(m.info.ModTime()) && info.Size() == m.info.Size()
}

// read returns the content of a file, up to most bytes, and its mark.
func read(name string, most int64) (data []byte, m mark, err error) {
	data, info, err := regular.Read(name, most)
	if err != nil {
		return nil, m, fmt.Errorf("reload: %w", err)
	}
	return data, mark{info: info, sum: sha256.Sum256(data)}, nil
}

// mostNamed is the largest part read of a named file: more than any of them may have.
const mostNamed = 32 << 20 // bytes

// named is a file or folder named by another one, as last read.
type named struct {
	name string
	mark
}

// changed reports whether the file's content, or the names in the folder, have changed since the
// last call.
func (n *named) changed() bool {
	before := n.mark
	if info, _ := os.Stat(n.name); info != nil && info.IsDir() {
		n.mark = mark{info: info, sum: sumOf(n.name)}
	} else if n.holds(n.name) {
		return false
	} else {
		_, n.mark, _ = read(n.name, mostNamed)
	}
	return (before.info == nil) != (n.info == nil) || before.sum != n.sum
}

// sumOf returns a hash of the names in a folder that do not begin with a dot, of all that can be
// read.
func sumOf(folder string) (sum [sha256.Size]byte) {
	entries, _ := os.ReadDir(folder) // Load returns why it cannot be read
	var names strings.Builder
	for _, e := range entries { // sorted
		if !strings.HasPrefix(e.Name(), ".") {
			names.WriteString(e.Name() + "\n")
		}
	}
	return sha256.Sum256([]byte(names.String()))
}
