// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package rueidisstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluicegate/sluice/redisstore"
	"github.com/sluicegate/sluice/redisstore/redisurl"
)

// firstTry is the longest time that [Open] waits for its first try to connect.
const firstTry = 5 * time.Second

// Store is a [redisstore.Store] that [Open] returns, with its connections. It is safe for
// concurrent use.
type Store struct {
	*redisstore.Store
	link *link
}

// Open returns a Store on the servers that a URL names, in the forms of
// [redisurl.Parse]. Its parameters prefix, secret_file and timeout set Options that are
// zero. The URL should come from a variable such as REDIS_URL or from a file. It is not
// logged, and no error holds its user or password.
//
// Open tries to connect and waits until ctx ends, at most 5 s. If the servers cannot be
// reached or are not ready, Open returns no error: the Store tries again about every
// second until it is connected or closed, with one goroutine, and logs that once. Until then
// requests return a [*sluice.NotSentError] at once, and [Store.Err] returns the reason. A
// lasting fault is an error: a wrong URL or Option, a file that cannot be read, a refused
// user, an untrusted certificate, a server older than Redis 7.0 or Valkey 8. If such a fault
// shows only later, the Store logs it and keeps trying. If ctx is cancelled, Open
// returns its error.
//
// If a single server later answers that it takes no writes, the Store reconnects, at most
// four times a second, until the address leads to a server that takes writes. It logs that
// once. Meanwhile requests return as before the first connection.
func Open(ctx context.Context, url string, options redisstore.Options) (*Store, error) {
	s, err := open(ctx, url, options)
	if err != nil {
		return nil, fmt.Errorf("rueidisstore: open: %w", err)
	}
	return s, nil
}

func open(ctx context.Context, url string, options redisstore.Options) (*Store, error) {
	u, err := redisurl.Parse(url)
	if err != nil {
		return nil, err
	}
	if options, err = filled(options, u); err != nil {
		return nil, err
	}
	l, err := newLink(u, &options)
	if err != nil {
		return nil, err
	}
	store, err := redisstore.New(l, options) //nolint:contextcheck // it asks no server, as there is no connection
	if err != nil {
		return nil, err
	}
	s := &Store{store, l}
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	l.start(life, stop)
	if err := l.first(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("%v: %w", u, err), s.Close())
	}
	return s, nil
}

// filled returns options with those of a URL in place of the zero ones.
func filled(options redisstore.Options, u *redisurl.URL) (_ redisstore.Options, err error) {
	if options.Prefix == "" {
		options.Prefix = u.Parameters["prefix"]
	}
	if options.Timeout == 0 {
		options.Timeout = u.Timeout
	}
	if len(options.Secret) == 0 {
		if options.Secret, err = Secret(u); err != nil {
			return options, err
		}
	}
	return options, options.Validate()
}

// Err returns the reason why the Store is not connected, either not yet or because the
// server takes no writes, and nil while it is connected. Only requests return other faults of
// a connection. Err never blocks. A program that should not start without its
// servers calls it after [Open].
func (s *Store) Err() error { return s.link.err() }

// Close waits for requests under way, no longer than Options.Timeout, and ends the Store, its
// connections and its goroutine, which may take a second if a server hangs. Later requests
// return [sluice.ErrClosed].
func (s *Store) Close() error {
	err := s.Store.Close()
	s.link.close()
	return err
}

// Format prints the addresses of the servers, whatever the verb is, and no user, password or
// secret.
func (s *Store) Format(f fmt.State, _ rune) {
	_, _ = f.Write([]byte(s.link.url.String())) // the printer handles the error
}
