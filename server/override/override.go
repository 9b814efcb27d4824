// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package override keeps the overrides that were made while the program ran:
// other limits for single keys until they expire. They are put over the rules
// of the file, and kept in a file of their own if there is one, so that a
// restart does not end them.
package override

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync"
	"time"

	"github.com/sluicegate/sluice/internal/regular"
	"github.com/sluicegate/sluice/internal/replace"
)

// Most is how many overrides a [List] holds, and MostBytes how large its file
// may be.
const (
	Most      = 10_000
	mostBytes = 64 << 20
)

// Override gives one key of a rule's level other limits.
type Override struct {
	Rule    string    `json:"rule"`
	Level   string    `json:"level,omitempty"`
	Key     []string  `json:"key"`    // the values of all parts
	Limits  []string  `json:"limits"` // as texts
	Expires time.Time `json:"expires,omitzero"`
	Reason  string    `json:"reason"`
	Author  string    `json:"author"`
	Added   time.Time `json:"added"`
}

func (o *Override) same(rule, level string, key []string) bool {
	return o.Rule == rule && o.Level == level && slices.Equal(o.Key, key)
}

func (o *Override) expired(now time.Time) bool { return !o.Expires.IsZero() && !now.Before(o.Expires) }

// List is overrides in force. It is safe for concurrent use.
type List struct {
	mu   sync.Mutex
	file string // empty: in memory only
	of   []Override
}

// Open returns a List that is kept in a file, and reads it if it is there. An
// empty name keeps it in memory only. That the file can be written later is found
// out here.
func Open(file string) (*List, error) {
	l := &List{file: file}
	if file == "" {
		return l, nil
	}
	if err := replace.Try(file); err != nil {
		return nil, fmt.Errorf("override: %s cannot be kept: %w; make its folder and let this process write there, or name another file", file, err)
	}
	all, err := Read(file)
	if err != nil {
		return nil, err
	}
	l.of = all
	return l, nil
}

// Read returns the overrides that a file keeps, none if it is not there.
func Read(file string) (all []Override, err error) {
	f, _, err := regular.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("override: %w", err)
	}
	data, err := io.ReadAll(io.LimitReader(f, mostBytes))
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("override: %w", err)
	}
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, fmt.Errorf("override: %s cannot be read: %w; correct it, or move it away to start without overrides", file, err)
	}
	return all, nil
}

// All returns the overrides that have not expired.
func (l *List) All(now time.Time) []Override {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(l.of), func(o Override) bool { return o.expired(now) })
}

// Apply calls apply with the overrides that have not expired. Nobody changes
// them meanwhile: whoever puts something else in force beside them loses none.
func (l *List) Apply(now time.Time, apply func([]Override) error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return apply(slices.DeleteFunc(slices.Clone(l.of), func(o Override) bool { return o.expired(now) }))
}

// ErrNone is what Remove returns if there is no such override.
var ErrNone = errors.New("override: there is none for this key")

// ErrNotKept is what Add and Remove return if the file cannot be written. What
// was in force before is so again. Where it was written and its folder cannot be
// synced, the next start may read the change all the same.
var ErrNotKept = errors.New("override: nothing was changed, as it cannot be kept over a restart")

// Add puts o in the place of the one for the same key, if there is one, and
// keeps it. Apply is called before, with all overrides as they would be: if it
// returns an error nothing changes. Expired ones are dropped.
func (l *List) Add(o Override, now time.Time, apply func([]Override) error) error {
	return l.change(now, apply, func(all []Override) ([]Override, error) {
		all = slices.DeleteFunc(all, func(p Override) bool { return p.same(o.Rule, o.Level, o.Key) })
		if len(all) >= Most {
			return nil, fmt.Errorf("override: there are %d already; write lasting ones into the configuration", Most)
		}
		return append(all, o), nil
	})
}

// Remove ends the override of a key, as Add begins one.
func (l *List) Remove(rule, level string, key []string, now time.Time, apply func([]Override) error) error {
	return l.change(now, apply, func(all []Override) ([]Override, error) {
		n := len(all)
		all = slices.DeleteFunc(all, func(p Override) bool { return p.same(rule, level, key) })
		if len(all) == n {
			return nil, ErrNone
		}
		return all, nil
	})
}

func (l *List) change(now time.Time, apply func([]Override) error, edit func([]Override) ([]Override, error)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := slices.DeleteFunc(slices.Clone(l.of), func(o Override) bool { return o.expired(now) })
	next, err := edit(next)
	if err != nil {
		return err
	}
	if err := apply(next); err != nil {
		return err
	}
	if err := l.save(next); err != nil {
		err = fmt.Errorf("%w: %w", ErrNotKept, err)
		return errors.Join(err, apply(l.of)) // as if nothing had been
	}
	l.of = next
	return nil
}

// save writes the file, which is there whole or as it was before.
func (l *List) save(all []Override) error {
	if l.file == "" {
		return nil
	}
	data, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	return replace.File(l.file, func(w io.Writer) error {
		_, err := w.Write(append(data, '\n'))
		return err
	})
}
