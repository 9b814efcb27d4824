// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluicegate/sluice/internal/redisurl"
)

const (
	// Every is the longest time between two polls, below the two seconds within which a
	// change is active everywhere. Each is drawn from the upper
	// quarter, so that the nodes of a fleet do not come together.
	Every = 1400 * time.Millisecond
	// partTimeout is how long a part has after a poll that says nothing else.
	partTimeout = 2 * time.Second
	// longestMark is how many bytes of a mark are read.
	longestMark = 64
	// anewEvery is the shortest time between two times that a Conn connects anew, and
	// pollsRefused the longest between two polls meanwhile.
	anewEvery    = 750 * time.Millisecond
	pollsRefused = time.Second
)

// Mark is a field of a hash in the store, of few bytes, that is read with each poll.
// Key is a name for [Conn.Key].
type Mark struct{ Key, Field string }

// Part is something that nodes share. Tick is called after each poll, by a goroutine
// of its own; the next poll waits for it. Its ctx ends after Timeout, or 2 s, or after
// that of a call if that is longer.
type Part struct {
	Marks   []Mark
	Tick    func(ctx context.Context, t Tick)
	Timeout time.Duration
}

// Tick is what a poll found.
type Tick struct {
	Err    error     // why the store did not answer: the rest is zero
	Now    time.Time // by the store's clock
	Values []string  // of the part's Marks, in their order; empty: there is none
}

// Register adds a part. It must be called before Run.
func (c *Conn) Register(p Part) { c.parts = append(c.parts, p) }

// Poke has the next poll come at once.
func (c *Conn) Poke() {
	select {
	case c.poked <- struct{}{}:
	default: // it will
	}
}

// Run connects, and polls within each Options.Every until ctx ends; then it closes the
// connections. Where the servers cannot be reached it tries again with each poll. Where a
// single one takes no writes it connects anew with each, as its address may lead to
// another one by now.
func (c *Conn) Run(ctx context.Context) {
	c.option.DialCtxFn = redisurl.DialWithin(ctx)
	defer c.close()
	for {
		t := c.poll(ctx)
		if ctx.Err() != nil {
			return
		}
		c.hand(ctx, t)
		every := c.every
		if redisurl.TakesNoWrites(t.Err) {
			every = min(every, pollsRefused)
		}
		timer := time.NewTimer(every - rand.N(every/4)) //nolint:gosec // no secret
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		case <-c.poked:
			timer.Stop()
		}
	}
}

// pollScript returns the time, in microseconds, and the value of each mark: ARGV is
// which key and which field, in turn, then how long a value may be. It writes nothing, and
// fails on a server where nothing can be written.
var pollScript = NewScript(`
local wrote = redis.pcall('HDEL', KEYS[1], '')
local no = type(wrote) == 'table' and wrote.err or ''
for _, word in ipairs({'READONLY', 'MASTERDOWN', 'NOREPLICAS', 'MISCONF'}) do
  if string.find(no, word, 1, true) then return wrote end
end
local t = redis.call('TIME')
local out = {string.format('%.0f', t[1] * 1000000 + t[2])}
for i = 1, #ARGV - 1, 2 do
  local n = redis.pcall('HSTRLEN', KEYS[tonumber(ARGV[i])], ARGV[i + 1])
  local read = type(n) == 'number' and n > 0 and n <= tonumber(ARGV[#ARGV])
  out[#out + 1] = read and redis.call('HGET', KEYS[tonumber(ARGV[i])], ARGV[i + 1]) or ''
end
return out`)

// poll reads the marks of all parts, in their order.
func (c *Conn) poll(ctx context.Context) Tick {
	t, err := c.read(ctx)
	if c.leaves(err) {
		t, err = c.read(ctx)
	}
	if err != nil {
		t = Tick{Err: err}
	}
	before := c.failure.Swap(&failure{err})
	switch {
	case ctx.Err() != nil:
	case redisurl.Answered(err) && !redisurl.Temporary(err) && !redisurl.Answered(before.err):
		c.log.Warn("the store refuses what nodes share: this node learns no changes of other nodes, and changes for all nodes are refused; give its user the rights",
			slog.String("store", c.target.String()), slog.String("rights", c.rights()), slog.Any("error", err))
	case err != nil && before.err == nil:
		c.log.Debug("the fleet's poll failed", slog.Any("error", err)) // the store reports outages
	}
	return t
}

// rights returns what an ACL must allow beside what decisions need.
func (c *Conn) rights() string {
	return "~" + c.prefix + "{fleet}!* +@read +@write +@scripting +time"
}

func (c *Conn) read(ctx context.Context) (t Tick, err error) {
	if err := c.connect(ctx); err != nil {
		return t, fmt.Errorf("fleet: %w: %w", errNotConnected, err)
	}
	var keys, args []string
	marks := 0
	for _, p := range c.parts {
		for _, m := range p.Marks {
			key := c.Key(m.Key)
			at := slices.Index(keys, key)
			if at < 0 {
				at, keys = len(keys), append(keys, key)
			}
			args = append(args, strconv.Itoa(at+1), m.Field)
			marks++
		}
	}
	if len(keys) == 0 {
		keys = []string{c.Key("none")} // which says where a Cluster runs the script
	}
	list, err := c.Eval(ctx, pollScript, keys, append(args, strconv.Itoa(longestMark))...)
	if err != nil {
		return t, err
	}
	if len(list) != marks+1 {
		return t, fmt.Errorf("fleet: the store answered a poll with %d values instead of %d", len(list), marks+1)
	}
	micros, err := strconv.ParseInt(list[0], 10, 64)
	if err != nil {
		return t, fmt.Errorf("fleet: the store's time: %w", err)
	}
	return Tick{Now: time.UnixMicro(micros), Values: list[1:]}, nil
}

// hand gives each part its own marks, and waits for all.
func (c *Conn) hand(ctx context.Context, t Tick) {
	var group sync.WaitGroup
	at := 0
	for _, p := range c.parts {
		own := t
		if t.Err == nil {
			own.Values = t.Values[at : at+len(p.Marks) : at+len(p.Marks)]
			at += len(p.Marks)
		}
		group.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, max(cmp.Or(p.Timeout, partTimeout), c.timeout))
			defer cancel()
			p.Tick(ctx, own)
		})
	}
	group.Wait()
}

// connect makes a client if there is none yet. It mends its connections itself.
func (c *Conn) connect(ctx context.Context) error {
	if c.client.Load() != nil {
		return nil
	}
	client, err := rueidis.NewClient(c.option) // its connections end with Run's ctx
	if err != nil {
		return c.target.Refusal(ctx, c.option, err)
	}
	c.client.Store(&client)
	c.connected = time.Now()
	return nil
}

// leaves closes the client of a server that takes no writes, and reports whether it has.
func (c *Conn) leaves(err error) bool {
	now := time.Now()
	switch loads := redisurl.Loading(err); {
	case !loads:
		c.loads = time.Time{}
	case c.loads.IsZero():
		c.loads = now
	}
	if !c.target.Single() || !redisurl.TakesNoWrites(err) || now.Sub(c.connected) < anewEvery {
		return false
	}
	if !c.loads.IsZero() && now.Sub(c.loads) < redisurl.LongLoading {
		return false
	}
	client := c.client.Swap(nil)
	(*client).Close()
	return true
}

func (c *Conn) close() {
	if client := c.client.Swap(nil); client != nil {
		(*client).Close()
	}
	c.failure.Store(&failure{errNotConnected})
}
