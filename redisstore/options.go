// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/redisstore/redisurl"
)

// Options are the settings of a [Store]. The zero value is ready to use.
type Options struct {
	// Prefix begins the name of every key. Empty means "sluice". Stores with
	// different prefixes share nothing. It may not hold braces.
	Prefix string
	// Secret, if not empty, replaces keys and the owners of slots by keyed hashes
	// (HMAC-SHA-256, 144 and 128 bits), so that a reader of the server cannot read
	// identities. All processes that share a budget must have the same Secret. Scopes
	// and names of limits stay readable.
	Secret []byte
	// Timeout bounds every request, even if its context has a later deadline or none:
	// the request ends then, or up to 1/64 of the Timeout sooner. The store also waits
	// that long for the answer to a caller that has left. Zero means a second.
	Timeout time.Duration
	// NoCoalescing makes a call for each request. Otherwise requests for one key under
	// one plan that come while one is on its way share the next call, and takes that
	// are sent at the same time and differ only in the key share a call. On one server
	// that changes no decision. A proxy that spreads keys over servers must refuse
	// scripts with keys of several servers, and must not run them on the server of the
	// first key.
	NoCoalescing bool
	// Logger gets a warning for a server that may evict states, and a message for each first
	// start of a rule. Nil means [slog.Default].
	Logger *slog.Logger
}

// Validate returns all faults of the options.
func (o Options) Validate() error {
	var faults []error
	if err := redisurl.CheckPrefix(o.Prefix); err != nil {
		faults = append(faults, err)
	}
	if n := len(o.Secret); n > 0 && n < leastSecret {
		faults = append(faults, fmt.Errorf("a secret of %d bytes can be guessed; give it %d random bytes or more", n, leastSecret))
	}
	if o.Timeout < 0 {
		faults = append(faults, fmt.Errorf("option Timeout %v is negative; leave it zero for %v", o.Timeout, bounds.DefaultRedisTimeout))
	}
	return errors.Join(faults...)
}

const leastSecret = 16 // bytes

// filled returns o with defaults.
func (o Options) filled() Options {
	if o.Prefix == "" {
		o.Prefix = defaultPrefix
	}
	if o.Timeout == 0 {
		o.Timeout = bounds.DefaultRedisTimeout
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o
}
