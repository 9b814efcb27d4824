// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluicegate/sluice/internal/redisurl"
)

// firstTry is the longest time that [Open] waits for its first try to connect.
const firstTry = 5 * time.Second

// Open returns a Store on the servers that a URL names:
//
//	redis://[[USER][:PASSWORD]@]HOST[:PORT][/DATABASE]
//	redis-sentinel://[[USER][:PASSWORD]@]HOST[:PORT],…/MASTER[/DATABASE]
//	redis-cluster://[[USER][:PASSWORD]@]HOST[:PORT],…
//
// and the same with rediss, rediss-sentinel and rediss-cluster for TLS. Special bytes in
// user and password are escaped as %XX. Parameters may follow a question mark, joined by
// &: password_file, ca_file, cert_file, key_file, sentinel_user, sentinel_password_file,
// and prefix, secret_file and timeout, which set Options that are zero. The URL should
// come from a variable such as REDIS_URL or from a file. It is not logged, and no error
// holds its user or password.
//
// Open tries to connect and waits until ctx ends, at most 5 s. If the servers cannot be
// reached or are not ready, Open returns no error: the Store tries again about every
// second until it is connected or closed, with one goroutine, and logs that once. Until
// then requests return a [*sluice.NotSentError] at once, and [Store.Err] the reason. A
// lasting fault is an error: a wrong URL or Option, a file that cannot be read, a refused
// user, an untrusted certificate, a server older than Redis 7.0 or Valkey 8. If such a
// fault shows later only, the Store logs it and keeps trying. If ctx is cancelled, Open
// returns its error.
//
// If a single server later answers that it takes no writes, the Store reconnects, at most
// four times a second, until the address leads to a server that takes writes. It logs that
// once. Meanwhile requests return as before the first connection.
func Open(ctx context.Context, url string, options Options) (*Store, error) {
	s, err := open(ctx, url, options)
	if err != nil {
		return nil, fmt.Errorf("redisstore: open: %w", err)
	}
	return s, nil
}

func open(ctx context.Context, url string, options Options) (*Store, error) {
	target, err := redisurl.ParseSecret(url)
	if err != nil {
		return nil, err
	}
	if options.Prefix == "" {
		options.Prefix = target.Prefix()
	}
	if options.Timeout == 0 {
		options.Timeout = target.Timeout()
	}
	if len(options.Secret) == 0 {
		if options.Secret, err = target.Secret(); err != nil {
			return nil, err
		}
	}
	if options, err = options.filled(); err != nil {
		return nil, err
	}
	l, err := newLink(target, &options)
	if err != nil {
		return nil, err
	}
	s := newStore(l, options)
	s.link = l
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	l.start(life, stop)
	if err := l.first(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("%v: %w", target, err), s.Close())
	}
	return s, nil
}

// Err returns the reason why the Store is not connected, either not yet or because the
// server takes no writes, and nil while it is connected. Other faults of a connection are
// returned by requests only. Err never blocks. A program that should not start without its
// servers calls it after [Open].
func (s *Store) Err() error {
	if s.link == nil {
		return nil
	}
	return s.link.err()
}
