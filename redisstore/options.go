// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/internal/storeurl"
)

// Options are the settings of a [Store]: how it names states and how long it
// waits. The zero value is ready to use.
type Options struct {
	// Prefix begins the name of every key. Empty means "sluice". Stores with
	// different prefixes share nothing. It may not hold braces.
	Prefix string
	// Secret, if not empty, makes the names of keys and of slots' owners
	// keyed hashes (HMAC-SHA-256, 144 and 128 bits), so that a reader of the
	// server cannot read identities. All processes that share a budget must
	// have the same. Scopes and names of limits stay readable.
	Secret []byte
	// Timeout bounds every request, also one whose context has a later
	// deadline or none: it ends then or up to 1/64 of it sooner. So long the
	// answer to a caller that has left is awaited. Zero means
	// a second.
	Timeout time.Duration
	// NoCoalescing makes a call for each request. Otherwise those for one key
	// under one plan that come while one is on its way share the next call, and
	// takes of different keys that are sent at the same time share one if they differ
	// in nothing else. That changes no decision, on one server: a proxy that spreads
	// keys over servers must refuse scripts with keys of several, and not
	// run them where the first key is.
	NoCoalescing bool
	// Logger gets warnings of a server that may evict states, and of one that
	// [Open] cannot reach, and each first start of a rule. Nil means
	// [slog.Default].
	Logger *slog.Logger
}

// filled returns o with defaults, or all its faults.
func (o Options) filled() (Options, error) {
	if o.Prefix == "" {
		o.Prefix = defaultPrefix
	}
	err := storeurl.CheckNames(o.Prefix, o.Secret)
	if o.Timeout < 0 {
		err = errors.Join(err, fmt.Errorf("option Timeout %v is negative: leave it zero for %v", o.Timeout, bounds.DefaultRedisTimeout))
	}
	if o.Timeout == 0 {
		o.Timeout = bounds.DefaultRedisTimeout
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o, err
}
