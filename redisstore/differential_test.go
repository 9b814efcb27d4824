// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // zones of calendar windows

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
)

// differentialSteps returns the number of operations over which the scripts and algo are
// compared. SLUICE_DIFFERENTIAL_STEPS in the environment sets another number.
func differentialSteps(t *testing.T) int {
	steps := testkit.Steps(60_000, 1_000_000)
	if text := os.Getenv("SLUICE_DIFFERENTIAL_STEPS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			t.Fatalf("SLUICE_DIFFERENTIAL_STEPS=%q: write a number of steps, such as 10000000", text)
		}
		steps = n
	}
	return steps
}

// TestScriptsEqualAlgo compares each decision and state of the scripts with package algo, over
// random limits, operations and instants.
func TestScriptsEqualAlgo(t *testing.T) {
	t.Parallel() // it waits for nothing but its own server
	for _, b := range redistest.Binaries(t) {
		t.Run(b.Name, func(t *testing.T) {
			server := redistest.Start(t, b)
			seed := uint64(time.Now().UnixNano())
			if text := os.Getenv("SLUICE_DIFFERENTIAL_SEED"); text != "" {
				n, err := strconv.ParseUint(text, 10, 64)
				if err != nil {
					t.Fatalf("SLUICE_DIFFERENTIAL_SEED=%q: %v", text, err)
				}
				seed = n
			}
			t.Logf("SLUICE_DIFFERENTIAL_SEED=%d", seed)
			d := &differential{
				client: server.Client(t),
				store:  bare(server.Client(t)),
				rand:   rand.New(rand.NewPCG(seed, 1)),

				together: make(map[*program]int),
			}
			d.store.inject = func() int64 { return d.now }
			d.load(t)
			total, extremes, want := 0, 0, differentialSteps(t)
			for epoch := 0; total < want; epoch++ {
				n := d.epoch(t, epoch, min(want-total, want/5+1, 20_000))
				if total += n; d.extreme {
					extremes += n
				}
			}
			t.Logf("%d operations: %d allowed, %d denied, %d limits changed, %d decided by the store", total, d.allowed, d.denied, d.changed, d.swapped)
			if d.allowed < total/10 || d.denied < total/10 {
				t.Errorf("of %d operations %d were allowed and %d denied: the test is too weak", total, d.allowed, d.denied)
			}
			if extremes < total/10 {
				t.Errorf("of %d operations %d were at extremes: the test is too weak", total, extremes)
			}
			for k := kindBucket; k < kinds; k++ {
				if p := d.store.programs.ofTakes(k).each; p != nil && d.together[p] < total/100 {
					t.Errorf("of %d operations %d were takes of kind %d that shared a call: the test is too weak", total, d.together[p], k)
				}
			}
		})
	}
}

// bare returns a store that sends nothing by itself.
func bare(client *redistest.Client) *Store {
	return newStore(Over(client), Options{Prefix: defaultPrefix, Timeout: time.Minute, Logger: slog.New(slog.DiscardHandler)})
}

type differential struct {
	client *redistest.Client
	store  *Store
	rand   *rand.Rand

	now int64 // the instant of decisions beside the pipeline
	// extreme is true in an epoch with limits that count as much as numbers hold, also by many
	// denials of one call, and with clocks that step back often.
	extreme bool

	allowed, denied, changed, swapped int
	together                          map[*program]int // takes that shared a call, by its script
}

// load gives the server every program: the store would send unknown ones again, and the server
// would decide a pipeline out of order.
func (d *differential) load(t *testing.T) {
	t.Helper()
	var list []*program
	for set := range 1 << (kinds - 1) {
		list = append(list, d.store.programs.of(uint8(set<<1)))
	}
	for k := kindBucket; k < kinds; k++ {
		list = append(list, d.store.programs.ofTakes(k))
	}
	for _, p := range list {
		if p.each != nil {
			list = append(list, p.each)
		}
	}
	for _, p := range list {
		if sha := redistest.Do(t, d.client, "SCRIPT", "LOAD", p.text); sha != p.sha {
			t.Fatalf("load a script: %q, want %q\n%s", sha, p.sha, p.text)
		}
	}
}

// subject is a few keys that are charged together, and their states in algo.
type subject struct {
	scope     string
	charges   []sluice.Charge
	items     []item
	tags      []string       // of the keys of each charge
	voids     [16]int64      // of each charge
	model     [][]algo.State // of each item
	rules     map[uint64]*modelRule
	metOthers []bool // whether other limits of each item's scope and name were met
	now       int64
	taken     []sluice.Decision // recent receipts

	trail  []string // recent operations
	before []was
	like   *subject // one with the same limit, until this one's is changed; may be nil
}

// was are the limits that a charge had before it was changed.
type was struct {
	charge int
	limits []sluice.Limit
}

// epoch runs up to steps operations over new subjects and returns how many it ran.
func (d *differential) epoch(t *testing.T, epoch, steps int) int {
	t.Helper()
	d.extreme = epoch%4 == 3
	subjects := d.subjects(epoch)
	n := 0
	for n < steps {
		calls := make([]*call, len(subjects))
		for i, s := range subjects {
			if i%family == 0 || s.like == nil || d.rand.IntN(2) == 0 {
				calls[i] = d.call(s)
			} else {
				calls[i] = d.callLike(s, calls[i-i%family])
			}
			n += len(calls[i].jobs)
		}
		for i, answer := range d.send(calls) {
			if !d.compare(t, subjects[i], calls[i], answer) {
				return n
			}
		}
		if t.Failed() {
			t.FailNow()
		}
	}
	redistest.Do(t, d.client, "FLUSHALL")
	return n
}

// answer is a script's reply and the stored values after it. It is empty where no script has
// to decide.
type answer struct {
	reply  *Reply
	stored []redistest.Reply
}

// send sends the calls that a script has to decide as one pipeline, those that may share a
// call as one call, and then a look at the states of each.
func (d *differential) send(calls []*call) []answer {
	all, waiting, w := make([]answer, len(calls)), make([]*queued, len(calls)), new(pipeline)
	var looks [][]string
	for i, c := range calls {
		if d.store.swaps(c) {
			continue
		}
		waiting[i] = d.store.gathering.queued(d.store.invocation(c))
		w.add(waiting[i])
		looks = look(looks, c)
	}
	var wire [][]string
	for _, s := range w.toSend() {
		wire = append(wire, redistest.ScriptCommand(s.SHA, s.Text, s.Keys, s.Args))
	}
	replies := d.client.Pipeline(context.Background(), append(wire, looks...)...)
	for i := range w.calls {
		if t := &w.calls[i]; len(t.members) > 1 {
			d.together[t.program] += len(t.members)
		}
		w.calls[i].answer(d.store, replyOf(replies[i]))
	}
	replies = replies[len(wire):]
	for i, p := range waiting {
		if p != nil {
			res, n := <-p.ready, len(calls[i].items)
			all[i] = answer{&res, replies[:n]}
			replies = replies[n:]
		}
	}
	return all
}

// look appends the commands that read a call's states.
func look(wire [][]string, c *call) [][]string {
	for i := range c.items {
		wire = append(wire, []string{"GET", c.items[i].key})
	}
	return wire
}

// compare compares the script's reply with algo.
func (d *differential) compare(t *testing.T, s *subject, c *call, a answer) bool {
	t.Helper()
	now := c.now
	stored, err := d.conclude(c, a)
	if err != nil {
		t.Errorf("%v\n%s", err, s.story())
		return false
	}
	return d.check(t, s, c, now, stored)
}

// check compares decisions and the stored values with algo.
func (d *differential) check(t *testing.T, s *subject, c *call, now int64, stored []redistest.Reply) bool {
	t.Helper()
	s.meet(now)
	for _, j := range c.jobs {
		want := s.decide(j, now)
		if j.decision != want {
			t.Errorf("%s: got %+v, want %+v\n%s", describeJob(j), j.decision, want, s.story())
			return false
		}
		if want.Allowed {
			d.allowed++
			s.taken = append(s.taken, want)
			if len(s.taken) > 16 {
				s.taken = s.taken[1:]
			}
		} else {
			d.denied++
		}
	}
	for i := range s.items {
		reply := replyOf(stored[i])
		raw, err := reply.text()
		if err != nil {
			t.Errorf("%v\n%s", err, s.story())
			return false
		}
		got, want := d.canonical(&s.items[i], raw, now), canonical(s.model[i], now)
		if got != want {
			t.Errorf("state %d:\ngot  %s\nwant %s\n%s", i, got, want, s.story())
			return false
		}
		if raw == "" {
			s.model[i] = nil // an idle state may be gone, also if the clock then steps back
		}
	}
	return true
}

// conclude handles a reply as [Store.conclude] does, and returns the stored values after it.
func (d *differential) conclude(c *call, a answer) (stored []redistest.Reply, err error) {
	swap := func(found []string) ([]redistest.Reply, error) {
		d.swapped++
		if err := d.store.swap(context.Background(), c, found); err != nil {
			return nil, err
		}
		return d.client.Pipeline(context.Background(), look(nil, c)...), nil
	}
	d.now = c.now
	if a.reply == nil {
		return swap(nil)
	}
	st, found, err := d.store.replied(c, d.store.invocation(c), a.reply)
	if err != nil {
		return nil, err
	}
	switch st {
	case done:
		err := c.describe(found)
		c.noteDecided()
		return a.stored, err
	case otherLimit:
		list, err := found.values()
		if err != nil {
			return nil, err
		}
		return swap(list)
	case needsGeneral:
		c.general = true
		return d.conclude(c, d.send([]*call{c})[0])
	default:
		return nil, fmt.Errorf("status %d", st)
	}
}

func (s *subject) story() string {
	var b strings.Builder
	for i := range s.items {
		fmt.Fprintf(&b, "limit %d of charge %d: %v\n", i, s.items[i].charge, s.items[i].term.Limit)
	}
	first := max(len(s.trail)-12, 0)
	for i := range s.model {
		fmt.Fprintf(&b, "state %d: %s\n", i, canonical(s.model[i], 0))
	}
	for _, line := range s.trail[first:] {
		b.WriteString(line + "\n")
	}
	return b.String()
}

func describeJob(j *job) string {
	costs := []int64{j.req.Cost}
	for _, m := range j.req.More {
		costs = append(costs, m.Cost)
	}
	return fmt.Sprintf("%v of %d held %d wait %v at %d due %d least %v", j.op, costs, j.req.Counted, j.req.MaxWait, j.req.At, j.req.Due, j.least)
}
