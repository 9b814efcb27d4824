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
)

const (
	// Every is the longest time between two polls, below the two seconds within which a
	// change is active everywhere. Each time is drawn from the upper quarter, so that the
	// nodes of a fleet do not poll at once.
	Every = 1400 * time.Millisecond
	// partTimeout is the time after a poll for a part without a Timeout, unless the timeout of
	// a call is longer.
	partTimeout = 2 * time.Second
	// longestMark is the most bytes of a mark that are read.
	longestMark = 64
	// anewEvery is the shortest time between two new connections of a Conn, and
	// pollsRefused the longest time between two polls meanwhile.
	anewEvery    = 750 * time.Millisecond
	pollsRefused = time.Second
	// longLoading is how long a server may answer that it loads its data before its address
	// is resolved again.
	longLoading = time.Second
)

// Mark is a short field of a hash in the store, which each poll reads.
// Key is a name for [Conn.Key].
type Mark struct{ Key, Field string }

// Part is something that nodes share. Tick is called after each poll, by a goroutine
// of its own; the next poll waits for it. Its ctx ends after Timeout, by default 2 s, or
// after the timeout of a call if that is longer.
type Part struct {
	Marks   []Mark
	Tick    func(ctx context.Context, t Tick)
	Timeout time.Duration
}

// Tick is the result of a poll.
type Tick struct {
	Err    error     // why the store did not answer; the other fields are zero then
	Now    time.Time // by the store's clock
	Values []string  // of the part's Marks, in their order; empty if the field does not exist
}

// Register adds a part. It must be called before Run.
func (c *Conn) Register(p Part) { c.parts = append(c.parts, p) }

// Poke starts the next poll at once.
func (c *Conn) Poke() {
	select {
	case c.poked <- struct{}{}:
	default: // a poke is pending
	}
}

// Run connects, and polls at least once in each Options.Every until ctx ends. Then it closes
// the connections. If the servers cannot be reached, it tries again with each poll. If a
// single server takes no writes, it reconnects with each poll, because the address may lead to
// another server by now.
func (c *Conn) Run(ctx context.Context) {
	defer c.close()
	for {
		t := c.poll(ctx)
		if ctx.Err() != nil {
			return
		}
		c.hand(ctx, t)
		every := c.o.Every
		if takesNoWrites(t.Err) {
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

// pollScript returns the time, in microseconds, and the value of each mark. ARGV holds the
// index of the key and the field of each mark, then the longest size of a value. The script
// writes nothing, and fails on a server that takes no writes.
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

// poll reads the marks of all parts in their order.
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
	case lasting(err) && !answered(before.err):
		c.o.Log.Warn("the store refuses access to the nodes' shared data: this node does not learn of other nodes' changes, and changes for all nodes are refused; give its user the rights",
			slog.String("store", c.o.Target.String()), slog.String("rights", c.rights()), slog.Any("error", err))
	case err != nil && before.err == nil:
		c.o.Log.Debug("the fleet's poll failed", slog.Any("error", err)) // the store reports outages
	}
	return t
}

// rights returns the rights that an ACL must grant beside those for decisions.
func (c *Conn) rights() string {
	return "~" + c.o.Prefix + "{fleet}!* +@read +@write +@scripting +time"
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
		keys = []string{c.Key("none")} // a Cluster chooses the server by the key
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

// hand gives each part the values of its marks, and waits for all parts.
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
			ctx, cancel := context.WithTimeout(ctx, max(cmp.Or(p.Timeout, partTimeout), c.o.Timeout))
			defer cancel()
			p.Tick(ctx, own)
		})
	}
	group.Wait()
}

// connect makes a client if there is none yet. The client repairs its connections itself.
func (c *Conn) connect(ctx context.Context) error {
	if c.client.Load() != nil {
		return nil
	}
	client, err := c.o.Connect(ctx, c.o.Target, c.o.Client) // its connections end with Run's ctx
	if err != nil {
		return err
	}
	c.client.Store(&client)
	c.connected = time.Now()
	return nil
}

// leaves closes the client if its server takes no writes, and reports whether it did.
func (c *Conn) leaves(err error) bool {
	now := time.Now()
	switch loads := loading(err); {
	case !loads:
		c.loads = time.Time{}
	case c.loads.IsZero():
		c.loads = now
	}
	if c.o.Target.Cluster || c.o.Target.Master != "" || !takesNoWrites(err) || now.Sub(c.connected) < anewEvery {
		return false
	}
	if !c.loads.IsZero() && now.Sub(c.loads) < longLoading {
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
