// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore

import (
	"sync"
	"sync/atomic"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
)

// mostVoids is the maximum number of keys with void receipts. Above it the receipts of all
// keys become void, which errs on the side of denying.
const mostVoids = 1 << 14

// voids holds the instant up to which receipts of a key are void, for each key after a reset
// or an add: see [algo.Item]. Takes do not read it. The zero value is empty.
type voids struct {
	any  atomic.Bool // whether there is an instant; without one refunds need no lock
	mu   sync.Mutex
	keys map[uint64]void // by the hash of scope and key
	all  int64           // of every key
}

type void struct{ at, ends int64 }

// of returns the instant of a key, 0 if it has none.
func (v *voids) of(hash uint64) int64 {
	if !v.any.Load() {
		return 0
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return max(v.all, v.keys[hash].at)
}

// set keeps the instant at of a key until ends.
func (v *voids) set(hash uint64, at, ends, now int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.any.Store(true)
	if len(v.keys) >= mostVoids {
		v.shrink(now)
	}
	if v.keys == nil {
		v.keys = make(map[uint64]void)
	}
	v.keys[hash] = void{at, ends}
}

// shrink drops the instants that have ended. If more than half of mostVoids remain, it
// replaces them by one instant for all keys.
func (v *voids) shrink(now int64) {
	for hash, k := range v.keys {
		if k.ends <= now {
			delete(v.keys, hash)
		}
	}
	if len(v.keys) > mostVoids/2 {
		for _, k := range v.keys {
			v.all = max(v.all, k.at)
		}
		clear(v.keys)
	}
}

func (v *voids) clear() {
	v.any.Store(false)
	v.keys, v.all = nil, 0
}

// load sets Void of the items, if the operation of the request uses it.
func (v *voids) load(req *sluice.Request, hashes *[sluice.MaxCharges]uint64, items []algo.Item) {
	switch req.Op {
	case sluice.OpRefund, sluice.OpReset, sluice.OpAdd:
	default:
		return
	}
	for i, k := 0, 0; i < req.Charges(); i++ {
		at := v.of(hashes[i])
		for range req.Nth(i).Plan.Len() {
			items[k].Void = at
			k++
		}
	}
}

// keep stores Void of the items after a reset or an add.
func (v *voids) keep(req *sluice.Request, hashes *[sluice.MaxCharges]uint64, items []algo.Item, now int64) {
	if req.Op != sluice.OpReset && req.Op != sluice.OpAdd {
		return
	}
	for i, k := 0, 0; i < req.Charges(); i++ {
		at, ends, before := int64(0), int64(0), v.of(hashes[i])
		for range req.Nth(i).Plan.Len() {
			at, ends = max(at, items[k].Void), max(ends, items[k].Void+algo.Horizon(items[k].Term)-sluice.MaxWait.Microseconds())
			items[k].Void = 0
			k++
		}
		if at > before {
			v.set(hashes[i], at, ends, now)
		}
	}
}
