// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore

import (
	"sync"
	"sync/atomic"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
)

// mostVoids is how many keys are kept whose receipts are void. Beyond it those of all keys
// become so, which errs to denying.
const mostVoids = 1 << 14

// voids holds, for each key that was reset or added to, the instant up to which its receipts
// give nothing back: see [algo.Item]. Takes do not read it. The zero voids is empty.
type voids struct {
	any  atomic.Bool // there is an instant: until then refunds need no lock
	mu   sync.Mutex
	keys map[uint64]void // by the hash of scope and key
	all  int64           // of every key
}

type void struct{ at, ends int64 }

// of returns the instant of a key.
func (v *voids) of(hash uint64) int64 {
	if !v.any.Load() {
		return 0
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return max(v.all, v.keys[hash].at)
}

// set keeps the instant of a key until another.
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

// shrink forgets what has ended, and makes the rest one instant if that is most of it.
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

// load sets the instants of the items of a request that reads them.
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

// keep keeps what a reset or an add has made of them.
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
