// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sluice

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice/internal/bounds"
)

// The shortest and the longest TTL of a hold.
const (
	MinHold = time.Second
	MaxHold = 24 * time.Hour
)

// Hold names a hold: units that a take spends now, and that are settled under an id once the
// real cost is known. A hold that is not settled ends by itself and gives its units back, as a
// refund does: also if the process that opened it has crashed. A request that repeats an id
// spends nothing twice. An id belongs to its key and scope.
type Hold struct {
	ID string // any bytes, 1 to 256
	// TTL is the time after which an open hold ends: [MinHold] to [MaxHold]. The id of a hold
	// that has ended is kept for the TTL, at least a minute. So is the id of an OpSettle
	// without a hold, whose TTL may be 0.
	TTL time.Duration
	// Settled says that the units of a take stay spent: only the id is kept, so that the
	// take can be repeated. On an OpSettle it says that an open hold is forgotten with its
	// units, as if it had been denied: the id may be used again.
	Settled bool
	// Retry says that this OpSettle may have been carried out before. It then charges
	// nothing if the hold is not known.
	Retry bool
}

// HoldState is the state of a hold after a [Request]. The zero value means no hold.
type HoldState uint8

// The states.
const (
	HoldOpen    HoldState = iota + 1 // its units are held
	HoldSettled                      // it was settled; a settle of another number had no effect
	HoldExpired                      // it had ended, or was never opened: the settle has charged the whole cost
	HoldUnknown                      // it is not known, and nothing was charged: it may have been settled long ago
	HoldsFull                        // denied, as the key or the store has too many holds
	HoldDiffers                      // denied, as the id is that of a hold of another cost
)

// ErrNoHolds is the error of a [Store] that keeps no holds.
var ErrNoHolds = errors.New("sluice: the store keeps no holds; use or wrap one that does")

// HoldOptions are the options of [Limiter.Hold].
type HoldOptions struct {
	ID  string        // empty: a random one
	TTL time.Duration // required: see [Hold]
}

// Held is a hold that [Limiter.Hold] has opened. A denied Held and the zero Held do nothing.
// It is safe for concurrent use, and so are its copies. Its methods block as the Store does.
// They return a [*RequestError] for an invalid cost, and the Store's error if there is no
// decision.
type Held struct {
	limiter *Limiter
	key     string
	units   int64
	hold    Hold
	at      Instant      // of a decision without the store, for package remote
	tried   *atomic.Bool // whether a settle was sent
}

// Hold spends units of key as Take does, until they are settled or the TTL has passed. The
// Decision is no receipt: only the Held gives units back. After an error the hold may be open;
// Hold may be called again with the same ID, or Cancel of the Held.
//
// A key has at most 1,024 open holds. Above that Hold is denied, and Decision.Hold is
// [HoldsFull]; Take still works.
func (l *Limiter) Hold(ctx context.Context, key string, units int64, o HoldOptions) (Held, Decision, error) {
	if o.ID == "" {
		o.ID = rand.Text()
	}
	h := Held{limiter: l, key: key, units: units, hold: Hold{ID: o.ID, TTL: o.TTL}, tried: new(atomic.Bool)}
	d, err := h.ask(ctx, OpTake, units, false)
	if h.at = d.At; err == nil && !d.Allowed {
		h.hold.ID = "" // nothing is open
	}
	return h, d, err
}

// Settle ends the hold with the units that were really used: it gives back the rest, or
// charges the missing units, up to full and the limit's Debt. The first call counts, also one
// whose answer was lost: later calls have no effect. A call after the end charges all units.
// The Decision's Spent is the number of units that count, and its Hold is the state in which
// the hold was found.
func (h *Held) Settle(ctx context.Context, actual int64) (Decision, error) {
	return h.ask(ctx, OpSettle, actual, h.tried.Swap(true))
}

// Cancel settles the hold with no units.
func (h *Held) Cancel(ctx context.Context) error {
	_, err := h.Settle(ctx, 0)
	return err
}

// Extend makes the hold end no sooner than its TTL from now. The Decision is denied if it has
// ended or was settled: nothing is charged then.
func (h *Held) Extend(ctx context.Context) (Decision, error) {
	return h.ask(ctx, OpExtend, 0, false)
}

func (h *Held) ask(ctx context.Context, op Op, cost int64, retry bool) (Decision, error) {
	if h.hold.ID == "" {
		return Decision{}, nil
	}
	hold := h.hold
	hold.Retry = retry
	req := Request{Op: op, Charge: h.limiter.Of(h.key, cost), At: h.at, Hold: &hold}
	if op == OpSettle {
		req.Counted = h.units
	}
	return h.limiter.store.Take(ctx, req)
}

// forgetHold returns the request that forgets the hold of r.
func (r *Request) forgetHold(d *Decision) Request {
	hold := *r.Hold
	hold.Settled = true
	req := Request{Op: OpSettle, Charge: r.Charge, At: d.At, Hold: &hold}
	for i := range r.More {
		c := r.More[i]
		c.Cost, c.Counted = 0, c.Cost
		req.More = append(req.More, c)
	}
	req.Cost, req.Counted = 0, r.Cost
	return req
}

func (r *Request) validateHold() error {
	h := r.Hold
	switch {
	case h == nil:
		return &RequestError{"Hold", fmt.Sprintf("%v must name a hold", r.Op)}
	case r.Op != OpTake && r.Op != OpPeek && r.Op != OpSettle && r.Op != OpExtend:
		return &RequestError{"Hold", fmt.Sprintf("does not go with %v; a take opens a hold", r.Op)}
	case r.Slot != nil:
		return &RequestError{"Hold", "does not go with a slot; acquire the slot by a request of its own"}
	case h.ID == "" || len(h.ID) > bounds.MaxHoldID:
		return &RequestError{"Hold", fmt.Sprintf("the id has %d bytes; it must have 1 to %d", len(h.ID), bounds.MaxHoldID)}
	case r.Op == OpSettle && h.TTL == 0:
	case h.TTL < MinHold || h.TTL > MaxHold:
		return &RequestError{"Hold", fmt.Sprintf("the TTL of %v must be %v to %v", h.TTL, MinHold, MaxHold)}
	}
	return nil
}
