// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package denycache_test

import (
	"github.com/sluicegate/sluice/denycache"
	"github.com/sluicegate/sluice/internal/storekit"
	"github.com/sluicegate/sluice/memstore"
)

// world is a cache in front of a store, both on one clock.
type world struct {
	clock *storekit.Clock
	store *storekit.Store
	cache *denycache.Store
}

func newWorld(opts denycache.Options) *world {
	w := &world{clock: storekit.NewClock()}
	w.store = &storekit.Store{Store: memstore.New(memstore.Options{MaxKeys: 10_000, Now: w.clock.Now})}
	opts.Now = w.clock.Now
	w.cache = denycache.Wrap(w.store, opts)
	return w
}
