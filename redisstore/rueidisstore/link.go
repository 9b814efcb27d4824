// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package rueidisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/redisstore"
	"github.com/sluicegate/sluice/redisstore/redisurl"
)

const (
	// connectEvery is the longest time between two tries to connect. Each time is drawn
	// from the upper half, so that the processes of a fleet do not connect at once.
	connectEvery = time.Second
	// anewEvery is the longest time between two tries to reconnect. Each time is drawn
	// from the upper quarter.
	anewEvery = 400 * time.Millisecond
)

var errConnecting = errors.New("there is no connection yet")

// link is the [redisstore.Client] of a Store that [Open] returns. A goroutine connects it; after
// that the client repairs its connections itself. If a single server answers that it takes
// no writes, the goroutine reconnects, as the address may lead to another server by now.
// Sentinels and the nodes of a Cluster name the other server themselves.
type link struct {
	url     *redisurl.URL
	option  rueidis.ClientOption
	log     *slog.Logger
	timeout time.Duration // of the question for the version

	to      atomic.Pointer[adapter]             // nil until connected, and while connecting anew
	unsent  atomic.Pointer[sluice.NotSentError] // the error while to is nil
	awaited atomic.Bool                         // Open waits for the first try
	tried   chan error                          // result of the first try; has room for it
	refused chan error                          // answer of a server that takes no writes; has room for one
	stop    context.CancelFunc
	ended   chan struct{}  // closed when the goroutine has ended
	client  rueidis.Client // owned by the goroutine until ended is closed; nil if it has never connected
}

func newLink(u *redisurl.URL, options *redisstore.Options) (*link, error) {
	option, err := ClientOption(u)
	if err != nil {
		return nil, err
	}
	l := &link{
		url: u, option: option, log: cmp.Or(options.Logger, slog.Default()), timeout: max(options.Timeout, firstTry),
		tried: make(chan error, 1), refused: make(chan error, 1), ended: make(chan struct{}),
	}
	l.unsent.Store(&sluice.NotSentError{Err: errConnecting})
	return l, nil
}

// start begins to connect. The connections are made until life ends.
func (l *link) start(life context.Context, stop context.CancelFunc) {
	l.stop = stop
	l.awaited.Store(true)
	go func() {
		defer close(l.ended)
		for l.run(life); life.Err() == nil && l.client != nil; {
			select {
			case why := <-l.refused:
				l.renew(life, why)
			case <-life.Done():
			}
		}
	}()
}

// run tries to connect until it succeeds or ctx ends.
func (l *link) run(ctx context.Context) {
	logged := false
	refused := false // whether the logged error was a lasting one
	for {
		err := l.connect(ctx, l.timeout, nil)
		lasting := err != nil && !Temporary(err)
		if l.awaited.CompareAndSwap(true, false) {
			if l.tried <- err; lasting {
				return // Open returns the error
			}
		}
		attr := slog.String("store", l.url.String())
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && logged:
			l.log.LogAttrs(ctx, slog.LevelInfo, "the store is connected", attr)
			return
		case err == nil:
			return
		case !logged || lasting && !refused:
			logged, refused = true, lasting
			l.log.LogAttrs(ctx, slog.LevelWarn, "the store cannot be reached; it is tried again every second", attr, slog.Any("error", err))
		}
		if !wait(ctx, connectEvery/2+rand.N(connectEvery/2)) { //nolint:gosec // no secret
			return
		}
	}
}

// renew makes connections until one leads to a server that takes writes, or ctx ends. why
// is the error of the present server. That server gets no more requests: answers without a
// write, such as denials, would hide that limits are not applied.
func (l *link) renew(ctx context.Context, why error) {
	if loading(why) {
		if !wait(ctx, longLoading) || l.takesWrites(ctx) {
			return
		}
	}
	l.unsent.Store(&sluice.NotSentError{Err: why})
	l.to.Store(nil)
	attr := slog.String("store", l.url.String())
	for logged, renewed := false, false; ctx.Err() == nil && !renewed; {
		old := l.client
		err := l.connect(ctx, connectEvery, checkWrites)
		switch renewed = err == nil; {
		case renewed:
			l.log.LogAttrs(ctx, slog.LevelInfo, "the store is connected anew, to a server that takes writes", attr, slog.Any("cause", why))
		case !logged && !errors.Is(err, errNoWrites) && !Temporary(err) && ctx.Err() == nil:
			logged = true
			l.log.LogAttrs(ctx, slog.LevelWarn, "the store cannot be connected anew; it is tried again", attr, slog.Any("error", err))
		}
		wait(ctx, anewEvery-rand.N(anewEvery/4)) //nolint:gosec // no secret
		if renewed {
			old.Close() // its calls have ended
		}
	}
}

// takesWrites reports whether the present server takes writes.
func (l *link) takesWrites(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, connectEvery)
	defer cancel()
	return checkWrites(ctx, l.to.Load()) == nil
}

// connect tries once to connect. The servers must answer within timeout and, if check is
// not nil, pass check.
func (l *link) connect(ctx context.Context, timeout time.Duration, check func(context.Context, *adapter) error) error {
	client, err := Connect(ctx, l.url, l.option)
	if err == nil {
		asking, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		to := &adapter{client}
		if check != nil {
			err = check(asking, to)
		}
		if err == nil {
			err = redisstore.CheckServers(asking, to, l.log)
		}
		if err == nil {
			l.client = client
			l.to.Store(to)
			return nil
		}
		client.Close()
		err = refusal(ctx, l.url, l.option, err)
	}
	if errors.Is(err, errNoWrites) {
		return err
	}
	l.unsent.Store(&sluice.NotSentError{Err: fmt.Errorf("%w: %w", errConnecting, err)})
	return err
}

// first waits for the first try. It returns an error only if that is lasting, or ctx was
// cancelled.
func (l *link) first(ctx context.Context) error {
	timer := time.NewTimer(firstTry)
	defer timer.Stop()
	var err error
	select {
	case err = <-l.tried:
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.Canceled) {
			return ctx.Err()
		}
		err = l.leave()
	case <-timer.C:
		err = l.leave()
	}
	if err != nil && Temporary(err) {
		return nil
	}
	return err
}

// leave ends the wait for the first try. If that has just ended it returns the result.
func (l *link) leave() error {
	if l.awaited.CompareAndSwap(true, false) {
		return nil
	}
	return <-l.tried
}

func (l *link) err() error {
	if l.to.Load() != nil {
		return nil
	}
	return l.unsent.Load().Err
}

// close ends the goroutine, and the connections.
func (l *link) close() {
	l.stop()
	<-l.ended
	if l.client != nil {
		l.client.Close()
	}
}

// heed has the goroutine reconnect if r means that the server takes no writes.
func (l *link) heed(to *adapter, r *redisstore.Reply) {
	if !r.Refused || !single(l.url) || !takesNoWrites(r.Err) || l.to.Load() != to {
		return
	}
	select {
	case l.refused <- r.Err:
	default: // the goroutine has an answer already
	}
}

// Cluster implements [redisstore.Client].
func (l *link) Cluster() bool { return l.url.Cluster }

// Run implements [redisstore.Client].
func (l *link) Run(ctx context.Context, scripts []*redisstore.Script, replies []redisstore.Reply) {
	to := l.to.Load()
	if to == nil {
		unsent := redisstore.Reply{Err: l.unsent.Load()}
		for i := range replies {
			replies[i] = unsent
		}
		return
	}
	to.Run(ctx, scripts, replies)
	for i := range replies {
		l.heed(to, &replies[i])
	}
}

// Info implements [redisstore.Client]. Each connection is checked when it is made.
func (l *link) Info(context.Context) (map[string]string, error) { return nil, nil }

var errNoWrites = errors.New("the server takes no writes: it is a replica, or loads its data")

// checkWrites returns an error if a single server takes no writes.
func checkWrites(ctx context.Context, a *adapter) error {
	texts, err := a.Info(ctx)
	if err != nil {
		return fmt.Errorf("ask the server for its role: %w", err)
	}
	for _, text := range texts {
		for line := range strings.Lines(text) {
			switch strings.TrimSpace(line) {
			case "loading:1", "role:slave", "role:replica":
				return errNoWrites
			}
		}
	}
	return nil
}

// wait blocks until d has passed or ctx ends, and reports whether d has passed.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
