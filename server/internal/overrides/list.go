// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package overrides

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
	"github.com/sluicegate/sluice/server/internal/fleet"
	"github.com/sluicegate/sluice/server/internal/replace"
)

// mostOverrides is the most overrides that a [List] holds.
const mostOverrides = 10_000

// Stored gives one key of a rule's level other limits.
type Stored struct {
	Rule  string `json:"rule"`
	Level string `json:"level,omitempty"`
	policy.Override
	Added time.Time `json:"added"`
	// Version is the version in the store. It is empty for an override of this node only.
	Version string `json:"version,omitempty"`
	// Removed reports whether Author has ended it. Such an override is not kept.
	Removed bool `json:"removed,omitempty"`
	// Parts are the values by the names of the rule's parts, if the rule has such a key.
	// ThisNodeOnly reports whether it is for one node of several. Unused is the reason why it
	// does not match the rules, if it does not. None of these three is kept.
	Parts        map[string]string `json:"parts,omitempty"`
	ThisNodeOnly bool              `json:"this_node_only,omitempty"`
	Unused       string            `json:"unused,omitempty"`
}

// ID returns a text that is different for each key.
func (o *Stored) ID() string {
	return fmt.Sprintf("%q", append([]string{o.Rule, o.Level}, o.Key...))
}

func (o *Stored) expired(now time.Time) bool {
	return !o.Expires.IsZero() && !now.Before(o.Expires)
}

// active reports whether the override is neither removed nor expired.
func (o *Stored) active(now time.Time) bool { return !o.Removed && !o.expired(now) }

// List is the overrides that operators make while the program runs: other limits for
// single keys until they expire. They replace those of the configuration for the same
// keys. A file of their own, if there is one, keeps them over a restart. The nodes of a
// shared store share overrides, and each node may also have its own. A List is safe for
// concurrent use.
type List struct {
	mu     sync.Mutex
	file   string // empty: in memory only
	own    map[string]*kept
	shared map[string]*kept
	last   int // number of the last override

	policy   *policy.Policy // nil: none is active yet
	active   evaluate.Overrides
	compiled map[string]policy.CompiledOverride // the active overrides, by ID
	problems map[string]string                  // why others are not active
	onLost   func([]Lost)

	records *fleet.Records // nil: the store is in this process
	log     *slog.Logger
}

// kept is an override with its version and its line in the file.
type kept struct {
	Stored
	version fleet.Version // zero for this node's own
	at      int
	line    []byte // of the file
}

// Open returns a List that is kept in a file, and reads the file if it exists. It fails if the
// file cannot be written. An empty name keeps the List in memory only.
func Open(file string) (*List, error) {
	l := &List{
		file: file, own: make(map[string]*kept), shared: make(map[string]*kept), log: slog.Default(),
		compiled: make(map[string]policy.CompiledOverride), problems: make(map[string]string),
	}
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
	for i := range all {
		v, err := fleet.ParseVersion(all[i].Version)
		if err != nil {
			return nil, fmt.Errorf("override: %s: %w", file, err)
		}
		l.put(&all[i], v)
	}
	return l, nil
}

// Alone turns the shared overrides of the file into this node's own, because its store is
// in this process now.
func (l *List) Alone() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, k := range l.shared {
		if delete(l.shared, id); l.own[id] == nil {
			k.version, k.Version, k.line = 0, "", nil
			l.own[id] = k
		}
	}
}

// put keeps an override.
func (l *List) put(o *Stored, v fleet.Version) {
	to := l.own
	if v != 0 {
		to = l.shared
	}
	l.last++
	k := &kept{Stored: *o, version: v, at: l.last}
	k.Version, k.Parts, k.ThisNodeOnly, k.Unused = v.String(), nil, false, ""
	to[o.ID()] = k
}

// inForce returns the active override of a key: this node's own, or else the shared one.
func (l *List) inForce(id string, now time.Time) *kept {
	for _, of := range []map[string]*kept{l.own, l.shared} {
		if k := of[id]; k != nil && k.active(now) {
			return k
		}
	}
	return nil
}

// All returns the overrides that have not expired.
func (l *List) All(now time.Time) []Stored {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.current(now)
}

// current returns a copy of the active overrides, the oldest first.
func (l *List) current(now time.Time) []Stored {
	var list []*kept
	for _, k := range l.own {
		if k.active(now) {
			list = append(list, k)
		}
	}
	for id, k := range l.shared {
		if l.inForce(id, now) == k {
			list = append(list, k)
		}
	}
	slices.SortFunc(list, func(a, b *kept) int { return cmp.Compare(a.at, b.at) })
	all := make([]Stored, len(list))
	for i, k := range list {
		all[i] = k.Stored
	}
	return all
}

// ErrNone is the error of a removal if the key has no override.
var ErrNone = errors.New("override: there is none for this key")

// ErrNotKept is the error of Add and Remove if the file cannot be written. Then the earlier
// overrides are active again. If the file was written and its folder cannot be synced,
// the next start may still read the change.
var ErrNotKept = errors.New("override: nothing was changed, as it cannot be kept over a restart")

// Add replaces the override of a key on this node only, and keeps it. If it cannot be kept,
// nothing changes.
func (l *List) Add(o *Stored, now time.Time) (replaced *Stored, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	id := o.ID()
	if l.own[id] == nil && l.count(now) >= mostOverrides {
		return nil, errTooMany
	}
	if !l.room(o, l.own[id], mostKept) {
		return nil, errTooMuch
	}
	return l.change(id, now, func() { l.put(o, 0) })
}

var errTooMany = fmt.Errorf("override: there are %d already; put lasting ones into the configuration", mostOverrides)

// room reports whether there is room for an override that replaces before, which may be nil.
func (l *List) room(o *Stored, before *kept, most int) bool {
	next := kept{Stored: *o}
	return l.size()-before.size()+next.size() <= most
}

// count returns the number of active overrides.
func (l *List) count(now time.Time) (n int) {
	for _, of := range []map[string]*kept{l.own, l.shared} {
		for _, k := range of {
			if k.active(now) {
				n++
			}
		}
	}
	return n
}

// Remove ends this node's own override of a key.
func (l *List) Remove(o *Stored, now time.Time) (replaced *Stored, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	id := o.ID()
	if k := l.own[id]; k == nil || !k.active(now) {
		return nil, ErrNone
	}
	return l.change(id, now, func() { delete(l.own, id) })
}

// change changes this node's own override of a key, all or nothing.
func (l *List) change(id string, now time.Time, edit func()) (replaced *Stored, err error) {
	before := maps.Clone(l.own)
	was := l.inForce(id, now)
	var ended []Stored
	for other, k := range l.own {
		if !k.active(now) {
			delete(l.own, other)
			if other != id {
				ended = append(ended, l.changed(k, now)...) // the shared override of its key comes back
			}
		}
	}
	o := l.own[id]
	edit()
	if o == nil {
		o = l.own[id]
	}
	l.activate(append(ended, l.changed(o, now)...), now)
	if err := l.save(); err != nil {
		l.own = before
		l.activate(l.changed(o, now), now) // undo
		return nil, fmt.Errorf("%w: %w", ErrNotKept, err)
	}
	if was != nil {
		replaced = &was.Stored
	}
	return replaced, nil
}

// changed returns the active override of o's key, or o as Removed if there is none.
func (l *List) changed(o *kept, now time.Time) []Stored {
	if k := l.inForce(o.ID(), now); k != nil {
		return []Stored{k.Stored}
	}
	gone := o.Stored
	gone.Removed = true
	return []Stored{gone}
}
