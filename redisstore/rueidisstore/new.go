// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package rueidisstore

import (
	"errors"

	"github.com/redis/rueidis"

	"github.com/sluicegate/sluice/redisstore"
)

// New returns a Store on the client's servers: a single one, the master that Sentinels
// name, or a Cluster. It asks them for their versions and returns an error if none answers
// or one is older than Redis 7.0 or Valkey 8. It blocks for at most options.Timeout, or
// five seconds if that is more. The caller must close the client after the Store. Scripts
// are never sent a second time, whatever the client's options are, except ConnLifetime.
//
// After a failover behind one address, such as a name or a TCP proxy, a rueidis client
// keeps its connections to the old server, which answers READONLY, MASTERDOWN or LOADING,
// until its ConnLifetime has passed; by default it has none. So a client of a single server
// should have a ConnLifetime, for example a second. But if a connection's lifetime ends
// while the server hangs for a second, rueidis sends the pending requests again, and they
// are charged twice. [Open] reconnects without that.
func New(client rueidis.Client, options redisstore.Options) (*redisstore.Store, error) {
	if client == nil {
		return nil, errors.New("rueidisstore: new: the client is nil")
	}
	return redisstore.New(&adapter{client}, options)
}
