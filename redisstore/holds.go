// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/internal/bounds"
)

// The holds of a key under a limit are in a hash beside the state: a field for each hold, and
// one for their numbers. No script decides on them. A state with open holds has a flag, with
// which scripts leave it to [Store.swap], and the instant of the next end, before which only a
// request that names a hold reads the hash. The field of the numbers changes with each
// change of a hold, so that swap need compare only that field and the holds that it replaces.
//
// The hash expires when no id must be kept and no unit of an open hold counts any more. A state
// that is idle, and so has expired, has lost the flag: a new state knows of no holds until the
// next request names one, and gives no units back for earlier holds.

const (
	fieldNumbers = "m"
	fieldHold    = "i" // before an id

	holdVersion = 1
	mostAtOnce  = maxBatch // holds that one call may open, and settle
)

// keyHolds returns the key of the holds of it.
func (it *item) keyHolds() string { return it.key + sepHolds }

// holds are the holds of a limit during a swap.
type holds struct {
	algo.Holds
	changes uint64            // counted in the field of the numbers
	raw     map[string]string // fields as they were read
}

// numbers are the numbers of h that are kept.
func (h *holds) numbers() []*int64 {
	return []*int64{&h.Open, &h.Over, &h.Next, &h.Longest, &h.Last, &h.Counts, &h.Gen, &h.Reset, &h.Void}
}

// fieldsOf are the numbers of a hold that are kept, with its state.
func fieldsOf(e *algo.Hold, state *int64) []*int64 {
	return []*int64{state, &e.At, &e.Units, &e.Cost, &e.TTL, &e.End, &e.Until, &e.Gen, &e.Form}
}

func appendFields(b []byte, fields []*int64) []byte {
	b = append(b, holdVersion)
	for _, n := range fields {
		b = binary.AppendVarint(b, *n)
	}
	return b
}

func parseFields(raw string, fields []*int64) error {
	if raw == "" || raw[0] != holdVersion {
		return fmt.Errorf("the holds have a format other than %d, which this program knows: upgrade the program", holdVersion)
	}
	rest := []byte(raw[1:])
	for _, n := range fields {
		v, size := binary.Varint(rest)
		if size <= 0 {
			return errState
		}
		*n, rest = v, rest[size:]
	}
	if len(rest) > 0 {
		return errState
	}
	return nil
}

// read adds the fields that were read to h.
func (h *holds) read(fields map[string]string) error {
	for field, raw := range fields {
		h.raw[field] = raw
		if raw == "" {
			continue
		}
		if field == fieldNumbers {
			changes := int64(0)
			if err := parseFields(raw, append(h.numbers(), &changes)); err != nil {
				return err
			}
			h.changes = uint64(changes)
			continue
		}
		var e algo.Hold
		var state int64
		if err := parseFields(raw, fieldsOf(&e, &state)); err != nil {
			return err
		}
		if h.List == nil {
			h.List = make(map[string]algo.Hold)
		}
		e.State = sluice.HoldState(state)
		h.List[field[len(fieldHold):]] = e
	}
	return nil
}

// field returns the new value of a field.
func (h *holds) field(field string) string {
	if field == fieldNumbers {
		changes := int64(h.changes + 1)
		return string(appendFields(nil, append(h.numbers(), &changes)))
	}
	e, ok := h.List[field[len(fieldHold):]]
	if !ok {
		return ""
	}
	state := int64(e.State)
	return string(appendFields(nil, fieldsOf(&e, &state)))
}

// whole reports whether the jobs of a call need all holds.
func (h *holds) whole(c *call) bool {
	n := int64(len(c.jobs))
	for _, j := range c.jobs {
		if h.Whole(j.req, c.now) || j.req.Hold != nil && h.Open+n > bounds.MaxHolds {
			return true
		}
	}
	return h.Over+h.Open+n > 2*bounds.MaxHolds && h.Over+n > 2*bounds.MaxHolds
}

// withNext returns a value with the instant at which the next hold ends, 0 if none is open.
func withNext(value string, next int64) string {
	if value == "" || next == 0 {
		return value
	}
	return string(appendInt([]byte{value[0], value[1] | flagBeside}, next)) + value[headerBytes:]
}

// splitNext is the reverse of withNext.
func splitNext(value string) (plain string, next int64, err error) {
	if len(value) < headerBytes || value[0] != version || value[1]&flagBeside == 0 {
		return value, 0, nil
	}
	r := reader{s: value[headerBytes:]}
	next = r.int(7)
	if r.past || next == 0 {
		return value, 0, errState
	}
	return value[:1] + string(value[1]&^flagBeside) + r.s, next, nil
}

// errHeld says that a call cannot be decided without the holds of its keys.
var errHeld = errors.New("the call needs the holds of its keys")

// names reports whether a job of the call names a hold.
func (c *call) names() bool {
	return slices.ContainsFunc(c.jobs, func(j *job) bool { return j.req.Hold != nil })
}

// holdFields returns the hashes and fields, side by side, that a swap reads if it needs holds.
func (c *call) holdFields() (keys, fields []string) {
	if !c.held {
		return nil, nil
	}
	names := []string{fieldNumbers}
	for _, j := range c.jobs {
		if h := j.req.Hold; h != nil && !slices.Contains(names, fieldHold+h.ID) {
			names = append(names, fieldHold+h.ID)
		}
	}
	for i := range c.items {
		for _, name := range names {
			keys, fields = append(keys, c.items[i].keyHolds()), append(fields, name)
		}
	}
	return keys, fields
}

// readHolds sets the holds of the call's limits from the fields that were read. It reads all
// holds of a limit if the jobs need them.
func (s *Store) readHolds(ctx context.Context, c *call, keys []swapped, found []string) error {
	_, fields := c.holdFields()
	n := len(fields) / len(keys)
	for i := range keys {
		k := &keys[i]
		k.holds = &holds{raw: make(map[string]string)}
		part := make(map[string]string, n)
		for f := range n {
			part[fields[i*n+f]] = found[i*n+f]
		}
		if err := k.holds.read(part); err != nil {
			return err
		}
		if k.holds.whole(c) {
			if err := s.readWhole(ctx, &c.items[i], k.holds); err != nil {
				return err
			}
		}
	}
	return nil
}

// readWhole reads all holds of a limit. If they have changed since the numbers were read, the
// swap finds other numbers and is done again.
func (s *Store) readWhole(ctx context.Context, it *item, h *holds) error {
	res := newInvocation(s.programs.swap, []string{it.keyHolds()}, "3").do(ctx, s)
	list, err := res.list(4)
	if err != nil {
		return err
	}
	pairs, err := list[3].list(0)
	if err != nil || len(pairs)%2 != 0 {
		return cmp.Or(err, errReply)
	}
	all := make(map[string]string, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		field, err := pairs[i].text()
		value, err2 := pairs[i+1].text()
		if err := errors.Join(err, err2); err != nil {
			return err
		}
		if field != fieldNumbers {
			all[field] = value
		}
	}
	h.All = true
	return h.read(all)
}

// beside sets the Holds of an item for a job if the call has read them.
func (k *swapped) beside(it *algo.Item, now int64) {
	if k.holds != nil && !k.undone {
		k.holds.Lost = !k.flagged || lost(k.states, now)
		it.Holds = &k.holds.Holds
	}
}

// lost reports whether no state lives at now.
func lost(states []algo.State, now int64) bool {
	return !slices.ContainsFunc(states, func(s algo.State) bool { return s.Idle > now })
}

// keepHolds returns the new values of the given fields of an item, in their order, and the
// other fields that have changed.
func (k *swapped) keepHolds(it *item, fields []string) (list []next, more []field) {
	h := k.holds
	ends := h.Needed()
	for _, f := range fields {
		v := next{h.raw[f], 0}
		if h.Written && (f == fieldNumbers || slices.Contains(h.Changed, f[len(fieldHold):])) {
			v = next{h.field(f), ends}
		}
		list = append(list, v)
	}
	slices.Sort(h.Changed)
	for _, id := range slices.Compact(h.Changed) {
		if f := fieldHold + id; !slices.Contains(fields, f) && h.field(f) != h.raw[f] {
			more = append(more, field{it.keyHolds(), f, h.raw[f], next{h.field(f), ends}})
		}
	}
	return list, more
}

// field is a changed field of a hash that is not one of those that the swap reads first.
type field struct {
	key, name, was string
	next
}
