// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sluice

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluicegate/sluice/internal/bounds"
)

// SlotLimit caps the units in use at once for each key: requests in flight, connections,
// jobs. A slot is a lease: it is free when its holder releases it or, if the holder dies,
// a TTL after it was acquired or renewed.
type SlotLimit struct {
	Name string        `json:"name,omitempty"` // as a Limit's; empty means "slots"
	Cap  int64         `json:"cap"`            // units held at once; 1 to 65536
	TTL  time.Duration `json:"ttl_ns"`         // whole µs, 1 ms to MaxWindow
}

// Validate returns nil or every fault of l joined, each a [*LimitError].
func (l SlotLimit) Validate() error {
	var faults []error
	if l.Name != "" && !bounds.ValidName(l.Name) {
		faults = append(faults, &LimitError{"Name", fmt.Sprintf("%q must be 1 to 64 of a-z, 0-9, '.', '_' and '-'", l.Name)})
	}
	if l.Cap < 1 || l.Cap > bounds.MaxSlots {
		faults = append(faults, &LimitError{"Cap", fmt.Sprintf("%d must be 1 to %d", l.Cap, bounds.MaxSlots)})
	}
	if l.TTL < time.Millisecond || l.TTL > MaxWindow || l.TTL%time.Microsecond != 0 {
		faults = append(faults, &LimitError{"TTL", fmt.Sprintf("%v must be 1ms to %v in whole microseconds", l.TTL, MaxWindow)})
	}
	return errors.Join(faults...)
}

// SlotOp is the operation of a [SlotRequest].
type SlotOp uint8

// The slot operations.
const (
	SlotAcquire SlotOp = iota // hold Cost units as Owner, if they are free
	SlotRenew                 // extend the lease by a TTL
	SlotRelease               // give back all units of Owner
	// SlotPeek answers as SlotAcquire would and changes nothing. An empty Owner is one
	// without a slot.
	SlotPeek
)

// SlotRequest is a request to a [SlotStore].
type SlotRequest struct {
	Op    SlotOp
	Scope string
	Limit SlotLimit // validated, with a Name
	Key   string
	Owner string // the holder: unique among the key's holders
	Cost  int64  // units to acquire, 1 to Cap
}

// SlotDecision is the result of a [SlotRequest].
type SlotDecision struct {
	// Allowed says that Owner has its units now; after a release, that it had any; after a
	// peek, that it would get them.
	Allowed bool `json:"allowed"`
	// TooLarge says that an acquire or peek asks for more units than the Cap: no wait
	// helps. RetryAfter is [MaxRetryAfter] then.
	TooLarge bool `json:"too_large,omitempty"`
	// Degraded says that the store could not be asked and a failure policy
	// decided in its place. Stores leave it false.
	Degraded bool  `json:"degraded,omitempty"`
	Held     int64 `json:"held"` // units held by all owners
	Free     int64 `json:"free"` // units left
	// RetryAfter is, of a denied acquire or peek, the time until enough leases expire;
	// releases may come sooner. 0 if allowed.
	RetryAfter time.Duration `json:"retry_after_ns,omitempty"`
}

// Slot is a slot that a [Request] acquires with its units in one call. The slot is decided
// first. If it is denied, the units are neither spent nor counted as denied: the request's
// decision has the slot's RetryAfter and the instant in At and Due, and everything else in
// it and in Outcomes is zero. If the units are denied, the slot is neither acquired nor
// renewed, and Decision is zero. After an error Decision means nothing.
type Slot struct {
	SlotRequest              // its Op is SlotAcquire, of an OpPeek SlotPeek
	Decision    SlotDecision // written by the call, so a Slot is in one call at a time
}

// SlotStore is a [Store] that keeps the holders of slots. Acquiring again as the same owner
// renews and does not count twice. Its Take decides the Slot of a [Request], too.
type SlotStore interface {
	Store
	// Slot decides a SlotRequest and carries it out.
	Slot(ctx context.Context, req SlotRequest) (SlotDecision, error)
}

// ErrNoSlots is the error of a [Store] that is no [SlotStore].
var ErrNoSlots = errors.New("sluice: the store keeps no slots; use or wrap one that does")

// Slots is a [SlotLimit] on a [SlotStore]. It is safe for concurrent use. Most programs
// need [Slots.Wait] alone; each other method does one of its steps, for an owner that the
// caller names and a lease that the caller renews. An error is the Store's, that of ctx, or
// a [*RequestError]; the state of the slot is not known then.
type Slots struct {
	store SlotStore
	scope string
	limit SlotLimit
}

// NewSlots returns the slots of one scope. The store must be a [SlotStore]; the error is
// an [errors.ErrUnsupported] if it is none.
func NewSlots(store Store, scope string, limit SlotLimit) (*Slots, error) {
	if store == nil {
		return nil, errors.New("sluice: new slots: store is nil")
	}
	slots, ok := store.(SlotStore)
	if !ok {
		return nil, fmt.Errorf("sluice: new slots %q: %w: %T keeps no slots; use or wrap a SlotStore", scope, errors.ErrUnsupported, store)
	}
	if scope == "" || len(scope) > bounds.MaxScopeBytes {
		return nil, fmt.Errorf("sluice: new slots: scope of %d bytes: must have 1 to %d", len(scope), bounds.MaxScopeBytes)
	}
	if err := limit.Validate(); err != nil {
		return nil, fmt.Errorf("sluice: new slots %q: %w", scope, err)
	}
	limit.Name = orDefault(limit.Name, "slots")
	return &Slots{store: slots, scope: scope, limit: limit}, nil
}

// Acquire takes cost units of key for owner until they are released or the TTL
// has passed.
func (s *Slots) Acquire(ctx context.Context, key, owner string, cost int64) (SlotDecision, error) {
	return s.ask(ctx, SlotAcquire, key, owner, cost)
}

// Renew extends owner's lease by another TTL. It is denied if the lease has
// expired: the owner must stop, for another may hold its place.
func (s *Slots) Renew(ctx context.Context, key, owner string) (SlotDecision, error) {
	return s.ask(ctx, SlotRenew, key, owner, 1)
}

// Release gives back the units of owner. It is not an error if there are none.
func (s *Slots) Release(ctx context.Context, key, owner string) (SlotDecision, error) {
	return s.ask(ctx, SlotRelease, key, owner, 1)
}

// Peek returns how many units of key are held, and whether a new owner would get cost units.
// It changes nothing.
func (s *Slots) Peek(ctx context.Context, key string, cost int64) (SlotDecision, error) {
	return s.ask(ctx, SlotPeek, key, "", cost)
}

func (s *Slots) ask(ctx context.Context, op SlotOp, key, owner string, cost int64) (SlotDecision, error) {
	return s.store.Slot(ctx, SlotRequest{Op: op, Scope: s.scope, Limit: s.limit, Key: key, Owner: owner, Cost: cost})
}

// Validate returns nil or a [*RequestError]. Every SlotStore calls it.
func (r *SlotRequest) Validate() error {
	switch {
	case r.Op > SlotPeek:
		return &RequestError{"Op", fmt.Sprintf("%d is not a slot operation", r.Op)}
	case r.Owner == "" && r.Op != SlotPeek || len(r.Owner) > MaxKeyBytes:
		return &RequestError{"Owner", fmt.Sprintf("%d bytes; an owner has 1 to %d", len(r.Owner), MaxKeyBytes)}
	case len(r.Key) > MaxKeyBytes:
		return &RequestError{"Key", fmt.Sprintf("%d bytes; a key has at most %d", len(r.Key), MaxKeyBytes)}
	case r.Cost < 1:
		return &RequestError{"Cost", fmt.Sprintf("%d: a slot is at least 1 unit", r.Cost)}
	case r.Scope == "" || len(r.Scope) > bounds.MaxScopeBytes:
		return &RequestError{"Scope", fmt.Sprintf("%d bytes; a scope has 1 to %d", len(r.Scope), bounds.MaxScopeBytes)}
	case r.Limit.Name == "":
		return &RequestError{"Limit", "has no name; NewSlots gives one"}
	}
	if err := r.Limit.Validate(); err != nil {
		return &RequestError{"Limit", err.Error()}
	}
	return nil
}
