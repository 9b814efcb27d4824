// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package rueidisstore makes a store of package redisstore over an existing rueidis
// client (github.com/redis/rueidis), with its TLS, credentials and connections. A
// program that has none opens a store by [redisstore.Open], which uses rueidis
// too.
package rueidisstore

import (
	"errors"

	"github.com/redis/rueidis"

	"github.com/sluicegate/sluice/redisstore"
	"github.com/sluicegate/sluice/redisstore/internal/transport"
	"github.com/sluicegate/sluice/redisstore/internal/viarueidis"
)

// New returns a Store on the client's servers: a single one, the master that
// Sentinels name, or a Cluster. It asks them for their versions, for as long as
// options.Timeout or five seconds if that is more, and returns an error where none
// answers or one is older than Redis 7.0 or Valkey 8. The client stays the
// caller's, to be closed after the Store. Scripts are never sent a second time,
// whatever the client's options are, but for ConnLifetime.
//
// After a failover behind one address, as of a name or a TCP proxy, a rueidis client keeps
// its connections to the old server, which answers READONLY, MASTERDOWN or LOADING: for ever, or until its
// ConnLifetime has passed. So a client of a single server should have one, of a second, say. But
// a connection whose lifetime ends while the server hangs for a second has rueidis send
// again what is on its way, and those requests are charged twice. [redisstore.Open]
// connects anew without that.
func New(client rueidis.Client, options redisstore.Options) (*redisstore.Store, error) {
	if client == nil {
		return nil, errors.New("rueidisstore: new: client is nil")
	}
	s, err := transport.NewStore(viarueidis.New(client), options)
	if err != nil {
		return nil, err
	}
	store, _ := s.(*redisstore.Store) // it is one
	return store, nil
}
