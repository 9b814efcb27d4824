// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/bounds"
)

// Hold is a hold of one key under one limit, as a store keeps it.
type Hold struct {
	At    int64 // the instant at which its units count, in µs since 1970
	Units int64 // the units that it counts
	Cost  int64 // the units for which it was asked, -1 if that is not known
	TTL   int64 // µs
	End   int64 // the instant at which it ends, in µs since 1970
	Until int64 // the instant until which its id is kept once it is over, in µs since 1970
	Gen   int64 // how many events its Holds had counted in their Gen when it was opened
	Form  int64 // the Form, a hash of 64 bits, of the limit under which it was opened: others give nothing back
	State sluice.HoldState
}

// Holds are the holds of one key under one limit, which a store keeps beside the states. The
// zero Holds are empty. A store may give [Decide] only those that it needs: the hold that the
// request names or, if [Holds.Whole] says so, all. It belongs to one goroutine at a time.
type Holds struct {
	List map[string]Hold // by id
	All  bool            // List has all holds
	// Full says that the store has no room for another hold.
	Full bool
	// Lost says that the states were not stored beside holds: they are new, and open holds
	// give nothing back.
	Lost bool

	// Open and Over are how many holds are open, and how many are over.
	Open, Over int64
	// Next is an instant, in µs since 1970, before which no open hold ends; 0 if none is open.
	Next int64
	// Longest is the longest TTL of an open hold, in µs.
	Longest int64
	// Last is the instant, in µs since 1970, until which ids are kept or holds are open, and
	// Counts the instant until which units of open holds may count: see [Holds.Needed].
	Last, Counts int64
	// Gen is how many resets, adds and losses of the states there were. Open holds from before
	// the number Reset are settled without units, those from before Void give nothing back.
	Gen, Reset, Void int64

	// Changed are the ids that a decision has changed, or deleted from List. It also changes
	// the numbers above if Written.
	Changed []string
	Written bool
	Dropped int // how many holds were forgotten early, as there were too many
}

// Whole reports whether a decision on req at now needs all holds: some end, there are too many,
// or the clock stepped back.
func (h *Holds) Whole(req *sluice.Request, now int64) bool {
	return h.Open > 0 && (h.Next <= now || h.Next-now > h.Longest) || h.Over > 2*bounds.MaxHolds ||
		req.Hold != nil && req.Op <= sluice.OpPeek && h.Open >= bounds.MaxHolds
}

// Needed returns the instant until which h must be kept, in µs since 1970.
func (h *Holds) Needed() int64 {
	if h.Open == 0 {
		return h.Last
	}
	return max(h.Last, h.Counts)
}

// clone returns a copy of h, nil if h is nil.
func (h *Holds) clone() *Holds {
	if h == nil {
		return nil
	}
	c := *h
	c.List, c.Changed = maps.Clone(h.List), nil
	return &c
}

// find returns a hold that is remembered at now, as it counts.
func (h *Holds) find(id string, now int64) (e Hold, ok bool) {
	if e, ok = h.List[id]; !ok {
		return Hold{}, false
	}
	if e.State == sluice.HoldOpen && e.Gen < h.Reset {
		e.State, e.Units, e.Until = sluice.HoldSettled, 0, max(e.End, e.Until)
	}
	return e, e.State == sluice.HoldOpen || e.Until > now
}

// put changes the hold id from was, the zero Hold if it is new. The zero Hold deletes it.
func (h *Holds) put(id string, was, e Hold) {
	count := func(e *Hold, n int64) {
		switch {
		case e.State == 0:
		case e.State == sluice.HoldOpen && e.Gen >= h.Reset:
			h.Open += n
		default:
			h.Over += n
		}
	}
	count(&was, -1)
	count(&e, 1)
	if e.State == 0 {
		delete(h.List, id)
	} else {
		if h.List == nil {
			h.List = make(map[string]Hold)
		}
		h.List[id] = e
	}
	if e.State == sluice.HoldOpen {
		h.Longest = max(h.Longest, e.TTL)
		if h.Next == 0 || e.End < h.Next {
			h.Next = e.End
		}
	}
	if h.Open == 0 {
		h.Next, h.Longest = 0, 0
	}
	h.Last = max(h.Last, e.Until, e.End+memory(e.TTL))
	h.Changed, h.Written = append(h.Changed, id), true
}

// void makes the open holds give nothing back: their units may have been given back already,
// or other units may be counted in place of them.
func (h *Holds) void() {
	if h.Open > 0 {
		h.Gen++
		h.Void, h.Written = h.Gen, true
	}
}

// reset settles the open holds without units.
func (h *Holds) reset() {
	if h.Open > 0 {
		h.Gen++
		h.Reset, h.Written = h.Gen, true
		h.Over, h.Open, h.Next, h.Longest = h.Over+h.Open, 0, 0, 0
	}
}

// memory returns the time for which the id of a hold that is over is kept.
func memory(ttl int64) int64 { return max(ttl, bounds.LeastMemory.Microseconds()) }

// forget forgets holds that are over above the number that is kept, first those whose ids would
// be forgotten first.
func (h *Holds) forget() {
	if h.Over <= 2*bounds.MaxHolds {
		return
	}
	var over []string
	for id, e := range h.List {
		if e.State != sluice.HoldOpen || e.Gen < h.Reset {
			over = append(over, id)
		}
	}
	slices.SortFunc(over, func(a, b string) int { return cmp.Or(cmp.Compare(h.List[a].Until, h.List[b].Until), cmp.Compare(a, b)) })
	for _, id := range over[:max(len(over)-bounds.MaxHolds, 0)] {
		h.put(id, h.List[id], Hold{})
		h.Dropped++
	}
}

// line describes the open holds.
func (h *Holds) line(x *explainer) string {
	var units int64
	for _, e := range h.List {
		if e.State == sluice.HoldOpen && e.Gen >= h.Reset {
			units += e.Units
		}
	}
	return fmt.Sprintf("open holds: %d, of %d units; the next ends at %s", h.Open, units, x.at(h.Next))
}
