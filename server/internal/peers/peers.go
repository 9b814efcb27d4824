// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package peers lets any node show the counts of all nodes of a shared store. Each node
// writes a line about itself to the store and, while a caller watches any node, a
// report, too. Requests are not involved.
package peers

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice/server/internal/fleet"
	"github.com/sluicegate/sluice/server/internal/report"
)

const (
	sendEvery   = 2 * time.Second  // between reports, longer for large ones; a node's line comes every 2.5 times this
	watchFor    = 15 * time.Second // length of a watch that is not repeated
	keepNodes   = 10 * time.Minute // how long the last line and report of a gone node are kept
	keepReports = time.Minute
	forgetEvery = 30 // beats
	meetEvery   = 10 * time.Minute
	mostNodes   = 500

	// mostRate is the most bytes a second that a watching node reads in the long run. Nodes
	// write reports twice as often.
	mostRate = 80 << 10
	// mostTaken is the most bytes that a call reads.
	mostTaken = 1 << 20
)

// Options are the connection of the nodes, and the reports of this one. All but Every and
// Patience are required.
type Options struct {
	Conn *fleet.Conn
	// Self returns this node's line. Its id is that of the Conn.
	Self func() report.Node
	// Report returns the counts of this node, with details of these rules.
	Report func(rules []string) *report.Report
	// Met gets the lines of the other nodes after this one has written its first line,
	// then every 10 minutes. It must not block.
	Met func(others *report.Fleet)
	// Every is the time between two reports during a watch, longer for large ones; 0 means
	// 2 s.
	Every time.Duration
	// Live returns the number of nodes that share the store by their heartbeats.
	Live func() int64
	// Patience is the longest time for which a first watch waits for reports; 0 means 3 s.
	Patience time.Duration
}

// Peers are the nodes that share a store. They are safe for concurrent use.
type Peers struct {
	Options
	id   string
	left atomic.Bool

	// The next fields belong to Tick, which one goroutine at a time calls.
	beats    int
	nextBeat time.Time
	nextSent time.Time
	nextMet  time.Time
	change   string // change of the watch, as last reported
	unsent   unsent

	mu   sync.Mutex // held during a watch
	last last
}

// unsent is a report that is not in the store yet. A node that is short of CPU encodes it
// in one tick, and may send it in the next.
type unsent struct {
	data   []byte
	change string // change of the watch
	made   time.Time
}

// New returns Peers. They start when their Part is registered and runs.
func New(o Options) *Peers {
	o.Every, o.Patience = cmp.Or(o.Every, sendEvery), cmp.Or(o.Patience, patience)
	return &Peers{Options: o, id: o.Conn.Node().ID, last: last{nodes: make(map[string]*node), watches: make(map[string]*watch)}}
}

// Part returns the part that the Conn must run.
func (n *Peers) Part() fleet.Part {
	return fleet.Part{Marks: []fleet.Mark{{Key: keyWatch, Field: fieldUntil}, {Key: keyWatch, Field: fieldChange}}, Tick: n.tick}
}

// tick writes the line and the report if they are due. A report is also due after a change of
// the watch. An error is one of the store, which others report; the next tick tries again.
func (n *Peers) tick(ctx context.Context, t fleet.Tick) {
	if t.Err != nil || n.left.Load() {
		return
	}
	now := time.Now()
	until, err := strconv.ParseInt(t.Values[0], 10, 64)
	send := err == nil && time.UnixMicro(until).After(t.Now) && (t.Values[1] != n.change || !now.Before(n.nextSent))
	if !send && now.Before(n.nextBeat) {
		return
	}
	rules, watched, err := n.beat(ctx)
	if err != nil {
		return
	}
	n.nextBeat = now.Add(n.Every*5/2 - n.Conn.Every()/2)
	n.meet(ctx, now)
	if !send || !watched {
		return
	}
	if u, err := n.publish(ctx, rules, t.Values[1]); err == nil {
		n.nextSent = now // a report made in an earlier tick lacks later counts
		if !u.made.Before(now) {
			n.nextSent = now.Add(max(n.Every-n.Conn.Every()/2, pause(len(u.data)*max(int(n.Live()), 1))/2))
		}
	}
}

// meet reads the lines of the other nodes if that is due. A node writes its own line first,
// so of two nodes that start together at least one reads the other's line.
func (n *Peers) meet(ctx context.Context, now time.Time) {
	if now.Before(n.nextMet) {
		return
	}
	n.nextMet = now.Add(meetEvery)
	lines, err := n.lines(ctx)
	if err != nil {
		n.nextMet = n.nextBeat
		return
	}
	f := &report.Fleet{Now: lines.now}
	for i := range lines.nodes {
		f.Nodes = append(f.Nodes, lines.nodes[i].Seen)
	}
	n.Met(f)
}

// pause returns the time to wait after reading so many bytes.
func pause(bytes int) time.Duration { return time.Duration(bytes) * time.Second / mostRate }

// beat writes the node's line, and returns the rules of the watch.
func (n *Peers) beat(ctx context.Context) (rules []string, watched bool, err error) {
	self := n.Self()
	self.ID = n.id
	line, err := self.Encode()
	if err != nil {
		return nil, false, err
	}
	forget := "0"
	if n.beats%forgetEvery == 0 {
		forget = "1"
	}
	n.beats++
	list, err := n.eval(ctx, beatScript, []string{keyNodes, keyReports, keyWatch},
		n.id, n.Conn.Seal(keyNodes+n.id, line), millis(keepNodes), forget, strconv.Itoa(mostNodes))
	if err != nil || len(list) == 0 {
		return nil, false, err
	}
	return list[1:min(len(list), 1+report.MostLookedAt)], true, nil
}

// publish writes a report, and returns it.
func (n *Peers) publish(ctx context.Context, rules []string, change string) (unsent, error) {
	if u := &n.unsent; u.data == nil || time.Since(u.made) > watchFor {
		*u = unsent{change: change, made: time.Now()}
		r := n.Report(rules)
		r.ID = n.id
		var err error
		if u.data, err = r.Encode(); err != nil {
			return *u, err
		}
	}
	u := n.unsent
	_, err := n.eval(ctx, publishScript, []string{keyReports}, n.id, n.Conn.Seal(keyReports+n.id, u.data), millis(keepReports))
	if err == nil {
		n.change, n.unsent = u.change, unsent{}
	}
	return u, err
}

// Leave removes this node from the store, and ends its writes.
func (n *Peers) Leave(ctx context.Context) error {
	n.left.Store(true)
	_, err := n.eval(ctx, leaveScript, []string{keyNodes, keyReports}, n.id)
	return err
}

func (n *Peers) eval(ctx context.Context, s *fleet.Script, keys []string, args ...string) ([]string, error) {
	named := make([]string, len(keys))
	for i, key := range keys {
		named[i] = n.Conn.Key(key)
	}
	return n.Conn.Eval(ctx, s, named, args...)
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// stamped splits a stamped text into its time and the rest.
func stamped(text string) (at time.Time, rest string, ok bool) {
	if len(text) < stampDigits {
		return at, "", false
	}
	micros, err := strconv.ParseInt(text[:stampDigits], 10, 64)
	return time.UnixMicro(micros), text[stampDigits:], err == nil && micros >= 0
}

// sorted returns the nodes sorted by name, then by id.
func sorted(nodes map[string]*node) []report.Seen {
	all := make([]report.Seen, 0, len(nodes))
	for _, s := range nodes {
		all = append(all, s.Seen)
	}
	slices.SortFunc(all, func(a, b report.Seen) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Listen, b.Listen), cmp.Compare(a.ID, b.ID))
	})
	return all
}

// Names of the keys. Values begin with the time of the write, in microseconds by the store's
// clock, in stampDigits digits.
const (
	keyNodes   = "nodes"   // a field for each node, by its id
	keyReports = "reports" // two fields for each node: "at:ID" has the time alone
	keyWatch   = "watch"   // the end of the watch; and "r:RULE", for each rule of the watch

	fieldUntil  = "until"
	fieldChange = "change" // when a rule was last added to the watch
	stampDigits = 16
)

const now = `
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local function stamp(at) return string.format('%016.0f', at) end
`

// beatScript writes the line ARGV[2] of the node ARGV[1]. The lines expire ARGV[3] ms after
// the last write. If ARGV[4] is 1, it removes nodes that have written nothing for that time.
// Beyond ARGV[5] nodes it removes any that has written nothing for a minute. It returns
// "watched" and the rules of the watch, or nothing without a watch.
var beatScript = fleet.NewScript(now + `
redis.call('HSET', KEYS[1], ARGV[1], stamp(now) .. ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
if ARGV[4] == '1' then
  local life = tonumber(ARGV[3]) * 1000
  if redis.call('HLEN', KEYS[1]) > tonumber(ARGV[5]) then life = 60000000 end
  local all = redis.call('HGETALL', KEYS[1])
  for i = 1, #all, 2 do
    local at = tonumber(string.sub(all[i + 1], 1, 16)) or 0
    if at < now - life or at > now + life then
      redis.call('HDEL', KEYS[1], all[i])
      redis.call('HDEL', KEYS[2], all[i], 'at:' .. all[i])
    end
  end
end
local out = {}
if (tonumber(redis.call('HGET', KEYS[3], 'until') or '0') or 0) > now then
  out[1] = 'watched'
  local all = redis.call('HGETALL', KEYS[3])
  for i = 1, #all, 2 do
    if string.sub(all[i], 1, 2) == 'r:' and (tonumber(all[i + 1]) or 0) > now then out[#out + 1] = string.sub(all[i], 3) end
  end
end
return out`)

// leaveScript removes the node ARGV[1].
var leaveScript = fleet.NewScript(`
redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('HDEL', KEYS[2], ARGV[1], 'at:' .. ARGV[1])
return {}`)

// publishScript writes the report ARGV[2] of the node ARGV[1]. The reports expire ARGV[3]
// ms after the last write.
var publishScript = fleet.NewScript(now + `
redis.call('HSET', KEYS[1], ARGV[1], stamp(now) .. ARGV[2], 'at:' .. ARGV[1], stamp(now))
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return {}`)

// watchScript writes a watch of ARGV[1] ms at the rules ARGV[3] and so on. A watch has at most
// ARGV[2] rules.
var watchScript = fleet.NewScript(now + `
local till = string.format('%.0f', now + ARGV[1] * 1000)
redis.call('HSET', KEYS[1], 'until', till)
redis.call('PEXPIRE', KEYS[1], ARGV[1])
local all = redis.call('HGETALL', KEYS[1])
local left = tonumber(ARGV[2])
for i = 1, #all, 2 do
  if string.sub(all[i], 1, 2) == 'r:' then
    if (tonumber(all[i + 1]) or 0) < now then redis.call('HDEL', KEYS[1], all[i]) else left = left - 1 end
  end
end
for i = 3, #ARGV do
  if redis.call('HEXISTS', KEYS[1], 'r:' .. ARGV[i]) == 1 then
    redis.call('HSET', KEYS[1], 'r:' .. ARGV[i], till)
  elseif left > 0 then
    redis.call('HSET', KEYS[1], 'r:' .. ARGV[i], till, 'change', stamp(now))
    left = left - 1
  end
end
return {stamp(now)}`)

// listScript returns the time, then for each node but ARGV[1] its id, its line, and the time
// of its report, empty if it has none. It returns at most ARGV[2] nodes, and an empty text
// in place of one longer than ARGV[3].
var listScript = fleet.NewScript(now + `
local out = {stamp(now)}
local ids = redis.call('HKEYS', KEYS[1])
for i = 1, #ids do
  if ids[i] ~= ARGV[1] and #out < ARGV[2] * 3 and #ids[i] <= 64 then
    out[#out + 1] = ids[i]
    out[#out + 1] = redis.call('HSTRLEN', KEYS[1], ids[i]) <= tonumber(ARGV[3]) and redis.call('HGET', KEYS[1], ids[i]) or ''
    out[#out + 1] = redis.call('HGET', KEYS[2], 'at:' .. ids[i]) or ''
  end
end
return out`)

// takeScript returns the reports of the nodes ARGV[2] and so on, until they are ARGV[1]
// bytes together. It returns "later" in place of each further report.
var takeScript = fleet.NewScript(`
local out, left = {}, tonumber(ARGV[1])
for i = 2, #ARGV do
  local n = redis.call('HSTRLEN', KEYS[1], ARGV[i])
  if i > 2 and n > left then
    out[#out + 1] = 'later'
  elseif n > tonumber(ARGV[1]) then
    out[#out + 1] = ''
  else
    out[#out + 1] = redis.call('HGET', KEYS[1], ARGV[i]) or ''
  end
  left = left - n
end
return out`)
