// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package admin

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

// mostOverrides is how many [Overrides] hold, and mostBytes how large their file
// may be.
const (
	mostOverrides = 10_000
	mostBytes     = 64 << 20
)

// StoredOverride gives one key of a rule's level other limits.
type StoredOverride struct {
	Rule    string    `json:"rule"`
	Level   string    `json:"level,omitempty"`
	Key     []string  `json:"key"`    // the values of all parts
	Limits  []string  `json:"limits"` // as texts
	Expires time.Time `json:"expires,omitzero"`
	Reason  string    `json:"reason"`
	Author  string    `json:"author"`
	Added   time.Time `json:"added"`
}

func (o *StoredOverride) same(rule, level string, key []string) bool {
	return o.Rule == rule && o.Level == level && slices.Equal(o.Key, key)
}

func (o *StoredOverride) expired(now time.Time) bool {
	return !o.Expires.IsZero() && !now.Before(o.Expires)
}

// Overrides are those that were made while the program ran: other limits for
// single keys until they expire. They are put over the rules of the file, and
// kept in a file of their own if there is one, so that a restart does not end
// them. They are safe for concurrent use.
type Overrides struct {
	mu   sync.Mutex
	file string // empty: in memory only
	of   []StoredOverride
}

// OpenOverrides returns Overrides that are kept in a file, and reads it if it is
// there. An empty name keeps them in memory only. That the file can be written
// later is found out here.
func OpenOverrides(file string) (*Overrides, error) {
	l := &Overrides{file: file}
	if file == "" {
		return l, nil
	}
	if err := replace.Try(file); err != nil {
		return nil, fmt.Errorf("override: %s cannot be kept: %w; make its folder and let this process write there, or name another file", file, err)
	}
	all, err := ReadOverrides(file)
	if err != nil {
		return nil, err
	}
	l.of = all
	return l, nil
}

// ReadOverrides returns the overrides that a file keeps, none if it is not there.
func ReadOverrides(file string) (all []StoredOverride, err error) {
	data, _, err := regular.Read(file, mostBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("override: %w", err)
	}
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, fmt.Errorf("override: %s cannot be read: %w; correct it, or move it away to start without overrides", file, err)
	}
	return all, nil
}

// All returns the overrides that have not expired.
func (l *Overrides) All(now time.Time) []StoredOverride {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.current(now)
}

// current returns a copy of those that have not expired.
func (l *Overrides) current(now time.Time) []StoredOverride {
	return slices.DeleteFunc(slices.Clone(l.of), func(o StoredOverride) bool { return o.expired(now) })
}

// Apply calls apply with the overrides that have not expired. Nobody changes
// them meanwhile: a change of something else loses none.
func (l *Overrides) Apply(now time.Time, apply func([]StoredOverride) error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return apply(l.current(now))
}

// errNoOverride is what Remove returns if there is no such override.
var errNoOverride = errors.New("override: there is none for this key")

// errNotKept is what Add and Remove return if the file cannot be written. What
// was active before is so again. Where it was written and its folder cannot be
// synced, the next start may read the change all the same.
var errNotKept = errors.New("override: nothing was changed, as it cannot be kept over a restart")

// Add puts o in the place of the one for the same key, if there is one, and
// keeps it. Apply is called before, with all overrides as they would be: if it
// returns an error nothing changes. Expired ones are dropped.
func (l *Overrides) Add(o StoredOverride, now time.Time, apply func([]StoredOverride) error) error {
	return l.change(now, apply, func(all []StoredOverride) ([]StoredOverride, error) {
		all = slices.DeleteFunc(all, func(p StoredOverride) bool { return p.same(o.Rule, o.Level, o.Key) })
		if len(all) >= mostOverrides {
			return nil, fmt.Errorf("override: there are %d already; put lasting ones into the configuration", mostOverrides)
		}
		return append(all, o), nil
	})
}

// Remove ends the override of a key, as Add begins one.
func (l *Overrides) Remove(rule, level string, key []string, now time.Time, apply func([]StoredOverride) error) error {
	return l.change(now, apply, func(all []StoredOverride) ([]StoredOverride, error) {
		n := len(all)
		all = slices.DeleteFunc(all, func(p StoredOverride) bool { return p.same(rule, level, key) })
		if len(all) == n {
			return nil, errNoOverride
		}
		return all, nil
	})
}

func (l *Overrides) change(now time.Time, apply func([]StoredOverride) error, edit func([]StoredOverride) ([]StoredOverride, error)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	next, err := edit(l.current(now))
	if err != nil {
		return err
	}
	if err := apply(next); err != nil {
		return err
	}
	if err := l.save(next); err != nil {
		err = fmt.Errorf("%w: %w", errNotKept, err)
		return errors.Join(err, apply(l.of)) // as if nothing had been
	}
	l.of = next
	return nil
}

// save writes the file, which is there whole or as it was before.
func (l *Overrides) save(all []StoredOverride) error {
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
