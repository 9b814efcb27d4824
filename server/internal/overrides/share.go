// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package overrides

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/server/internal/audit"
	"github.com/sluicegate/sluice/server/internal/fleet"
)

// Sharing holds the functions by which nodes share a [List].
type Sharing struct {
	Conn *fleet.Conn
	Log  *slog.Logger
	// Heard gets the entries of other nodes' changes. Missed is called if some of them
	// cannot be read any more.
	Heard  func(fleet.Entry)
	Missed func()
}

const (
	// MaxLimits is the most limits of an override.
	MaxLimits = 64
	mostText  = 4096 // bytes of a text in one
)

// Share shares the overrides among the nodes of a store. It is called before the Conn runs,
// and before anything else uses the overrides.
func (l *List) Share(s Sharing) *fleet.Records {
	l.log = s.Log
	l.records = fleet.NewRecords(s.Conn, fleet.Copy{
		NameOf: nameOf, Get: l.record, Versions: l.versions, Learn: l.learn, Drop: l.drop, Expired: l.expired,
		Heard: s.Heard, Missed: s.Missed,
		PutBack: func(n int) []byte {
			node := s.Conn.Node()
			return audit.Text(node, audit.Entry{
				Time: time.Now().UTC(), Action: "put-back", Author: "sluice", Reason: "the store had lost what nodes share, or had none",
				Detail: map[string]any{"records": n},
			})
		},
	})
	return l.records
}

// Shared reports whether other nodes have the overrides, too.
func (l *List) Shared() bool { return l.records != nil }

// HasOwn reports whether this node has an override of its own for the key of o.
func (l *List) HasOwn(o *Stored) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.own[o.ID()] != nil
}

// HasShared reports whether all nodes have an override for the key of o.
func (l *List) HasShared(o *Stored, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.shared[o.ID()]
	return k != nil && k.active(now)
}

// nameOf returns the ID of an override that another node has written, or an error if it
// cannot be used.
func nameOf(body []byte) (string, error) {
	var o Stored
	if err := json.Unmarshal(body, &o); err != nil {
		var known struct {
			Rule   string `json:"rule"`
			Limits []string
		}
		if json.Unmarshal(body, &known) == nil && known.Rule != "" { // its limits have a form that this release does not know
			return "", fmt.Errorf("override of rule %.100q: %w (%w)", known.Rule, err, fleet.ErrLater)
		}
		return "", fmt.Errorf("override: it cannot be read: %w", err)
	}
	switch {
	case o.Rule == "" || len(o.Rule) > mostText || len(o.Level) > mostText || len(o.Key) > bounds.MaxParts || o.Added.IsZero():
		return "", errors.New("override: it names no key, or no time")
	case o.Author == "" || len(o.Author) > mostText || o.Reason == "" || len(o.Reason) > mostText:
		return "", errors.New("override: it lacks a reason or an author")
	case o.Removed || len(o.Limits) == 0 || len(o.Limits) > MaxLimits:
		return "", errors.New("override: it has no limits, or too many")
	}
	return o.ID(), nil
}

// body returns the text of an override in the store.
func (o *Stored) body() ([]byte, error) {
	kept := *o
	kept.Version, kept.Parts, kept.ThisNodeOnly, kept.Unused = "", nil, false, ""
	return json.Marshal(kept)
}

// Sharable returns an error if nodes cannot share an override and the entry of its change.
func Sharable(node fleet.Node, o *Stored, e audit.Entry) error {
	body, err := o.body()
	if err != nil {
		return fmt.Errorf("override: %w", err)
	}
	e.Remote, e.Time = strings.Repeat("x", 64), o.Added // as long as they can be
	if n := max(len(body), len(audit.Text(node, e))); n > audit.MaxEntry {
		return fmt.Errorf("override: with its key and reason it takes %d bytes; nodes share at most %d: write a shorter reason, or make it for each node (--this-node, or this_node in the document)", n, audit.MaxEntry)
	}
	return nil
}

// record returns the record of an override in the store, the zero value if there is none.
func (l *List) record(id string) (r fleet.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k := l.shared[id]; k != nil {
		if body, err := k.body(); err == nil { // JSON can write it: it was read from JSON
			r = fleet.Record{Name: id, Version: k.version, Body: body}
		}
	}
	return r
}

// versions returns the versions of the shared overrides, by their IDs.
func (l *List) versions() map[string]fleet.Version {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make(map[string]fleet.Version, len(l.shared))
	for id, k := range l.shared {
		all[id] = k.version
	}
	return all
}

// learn activates the overrides that other nodes have made, and keeps them. Each ends this
// node's own override of the key.
func (l *List) learn(records []fleet.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	var changed []Stored
	size, left := l.size(), 0
	for i := range records {
		r := &records[i]
		if k := l.shared[r.Name]; k != nil && k.version >= r.Version {
			continue
		}
		var o Stored
		if err := json.Unmarshal(r.Body, &o); err != nil {
			continue // cannot be: [nameOf] has read it
		}
		grows := (&kept{Stored: o}).size() - l.shared[r.Name].size() - l.own[r.Name].size()
		if size += grows; grows > 0 && size > mostLearned {
			size, left = size-grows, left+1
			continue
		}
		l.put(&o, r.Version)
		delete(l.own, r.Name)
		changed = append(changed, l.changed(l.shared[r.Name], now)...)
	}
	if left > 0 {
		l.log.Error("overrides that other nodes have are not active here: there is no room", slog.Int("overrides", left), slog.Int("most_bytes", mostLearned))
	}
	l.settle(changed)
}

// settle activates changes that the store has, and keeps them. A failure at this node does not
// undo them in the store.
func (l *List) settle(changed []Stored) {
	if len(changed) == 0 {
		return
	}
	l.activate(changed, l.now())
	if err := l.save(); err != nil {
		l.log.Error("overrides cannot be kept in their file; the store has them", slog.Any("error", err))
	}
}

// drop takes out overrides that were removed or have expired. A removal also ends this node's
// own override of the key.
func (l *List) drop(ids []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var changed []Stored
	now := l.now()
	for _, id := range ids {
		k := l.shared[id]
		if k == nil {
			continue
		}
		delete(l.shared, id)
		if !k.expired(now) {
			delete(l.own, id)
		}
		changed = append(changed, l.changed(k, now)...)
	}
	l.settle(changed)
}

// expired returns the IDs of the shared overrides that have expired. It takes out this
// node's own expired overrides: the shared override of the key is active again.
func (l *List) expired(now time.Time) (ids []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var changed []Stored
	for id, k := range l.own {
		if l.shared[id] != nil && k.expired(now) {
			delete(l.own, id)
			changed = append(changed, l.changed(k, now)...)
		}
	}
	l.settle(changed)
	for id, k := range l.shared {
		if k.expired(now) {
			ids = append(ids, id)
		}
	}
	return ids
}

// Drift returns how far the shared store's clock is ahead of this process's. Overrides
// expire by the store's clock.
func (l *List) Drift() time.Duration {
	if l.records == nil {
		return 0
	}
	return l.records.Drift()
}

func (l *List) now() time.Time { return time.Now().Add(l.Drift()) }

// ErrUnavailable is the error of a change for all nodes that was not made.
var ErrUnavailable = errors.New("the store cannot be reached, so that no other node would learn of it; try again when it can, or make it for this node only (--this-node, or this_node in the document)")

// OtherChangeError is the error if another caller has changed an override meanwhile.
type OtherChangeError struct {
	Now *Stored // nil: there is none
}

// Error describes the other change.
func (e *OtherChangeError) Error() string {
	o := e.Now
	switch {
	case o == nil:
		return "override: nothing was changed, as the override no longer exists; look at the key, and repeat the change if it is still right"
	case o.Removed:
		return fmt.Sprintf("override: nothing was changed, as %s ended this key's override at %s (%s); repeat it if it is still right", o.Author, o.Added.UTC().Format(time.RFC3339), o.Reason)
	}
	return fmt.Sprintf("override: nothing was changed, as %s gave this key %v at %s (%s), version %s; repeat it if it is still right",
		o.Author, o.Limits, o.Added.UTC().Format(time.RFC3339), o.Reason, o.Version)
}

// Set replaces the override of a key on all nodes. With Removed it ends the override. seen
// is the version that the caller has seen, by default that of this node. The log gets the
// entry together with the change.
func (l *List) Set(ctx context.Context, o *Stored, seen string, entry []byte) (version string, replaced *Stored, err error) {
	id := o.ID()
	l.mu.Lock()
	now := l.now()
	was, before := l.inForce(id, now), l.shared[id]
	large := !o.Removed && !l.room(o, before, mostKept)
	full := (before == nil || !before.active(now)) && !o.Removed && l.count(now) >= mostOverrides
	l.mu.Unlock()
	expected := fleet.Version(0)
	if before != nil {
		expected = before.version
	}
	switch {
	case full:
		return "", nil, errTooMany
	case large:
		return "", nil, errTooMuch
	case o.Removed && was == nil:
		return "", nil, ErrNone
	case seen != "":
		if expected, err = fleet.ParseVersion(seen); err != nil {
			return "", nil, fmt.Errorf("version: %w", err)
		}
	}
	if was != nil {
		replaced = &was.Stored
	}
	var body []byte // nil removes it
	if !o.Removed {
		if body, err = o.body(); err != nil {
			return "", nil, fmt.Errorf("override: %w", err)
		}
	}
	v, err := l.records.Change(ctx, id, expected, body, entry)
	return v.String(), replaced, changeError(err)
}

// changeError turns the error of a change into one that says what an operator can do.
func changeError(err error) error {
	if err == nil || errors.Is(err, fleet.ErrFull) {
		return err
	}
	if c, ok := errors.AsType[*fleet.ConflictError](err); ok {
		e := &OtherChangeError{Now: removedBy(c.Removal)}
		if c.Now != nil {
			e.Now = new(Stored)
			if err := json.Unmarshal(c.Now.Body, e.Now); err != nil {
				return fmt.Errorf("override: %w", err)
			}
			e.Now.Version = c.Now.Version.String()
		}
		return e
	}
	if errors.Is(err, fleet.ErrLater) {
		return fmt.Errorf("override: nothing was changed: %w", err)
	}
	if errors.Is(err, fleet.ErrNotSent) {
		return fmt.Errorf("override: %w: %w", ErrUnavailable, err)
	}
	return fmt.Errorf("override: %w: %w", audit.ErrUnknown, err)
}

// removedBy returns the removed override in an entry of the log, nil if it has none.
func removedBy(entry []byte) *Stored {
	var e struct {
		Detail struct{ Override *Stored }
	}
	if err := json.Unmarshal(entry, &e); err != nil || e.Detail.Override == nil || !e.Detail.Override.Removed {
		return nil
	}
	return e.Detail.Override
}
