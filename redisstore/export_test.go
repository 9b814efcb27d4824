// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"time"

	"github.com/redis/rueidis"

	"github.com/sluicegate/sluice/redisstore/internal/viarueidis"
)

// Over returns a Store over a client, which stays the caller's.
func Over(client rueidis.Client, options Options) (*Store, error) {
	return over(viarueidis.New(client), options)
}

// Timeout is that of the Store's Options.
func (s *Store) Timeout() time.Duration { return s.options.Timeout }
