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
// whatever the client's options are.
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
