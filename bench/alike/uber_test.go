// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package alike_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/profile"
	"go.uber.org/ratelimit"
)

// clock stands where it is set. Callers that sleep do so elsewhere: others call
// meanwhile.
type clock struct{ now time.Time }

func (c *clock) Now() time.Time        { return c.now }
func (c *clock) Sleep(_ time.Duration) {}

// TestUber: go.uber.org/ratelimit is a token bucket that who calls waits for. Its
// slack is the burst without the unit itself, and it is empty at the first call, with
// which our rule starts. Both let every caller go on at the same instant, however
// long the limiter was there before, whatever waits and after any idle time. Its
// units last whole ns, so rates are such whose units do in µs.
func TestUber(t *testing.T) {
	for _, c := range []struct {
		perSecond, slack int
		limit            string
	}{
		{100, 10, limitOf("uber-go")}, // its default
		{100, 0, limitOf("uber-go-without-slack")},
		{1, 3, "1/s burst 4 initial 1"},
		{1000, 1, "1000/s burst 2 initial 1"},
		{8, 50, "8/s burst 51 initial 1"},
	} {
		t.Run(fmt.Sprintf("%d slack %d", c.perSecond, c.slack), func(t *testing.T) {
			for seed := range uint64(4) {
				calls(t, seed, c.perSecond, c.slack, c.limit)
			}
		})
	}
}

// limitOf returns the limit of a profile.
func limitOf(name string) string {
	p, _ := profile.Get(name)
	return p.Limits[0].String()
}

func calls(t *testing.T, seed uint64, perSecond, slack int, limit string) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(seed, 31))
	at := &clock{time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)}
	theirs := ratelimit.New(perSecond, ratelimit.WithSlack(slack), ratelimit.WithClock(at))
	ours, err := sluice.New(memstore.New(memstore.Options{Now: at.Now}), "alike", sluice.MustParseLimit(limit))
	if err != nil {
		t.Fatal(err)
	}
	unit := time.Second / time.Duration(perSecond)
	waited, early, load := 0, 0, int64(0)
	before := at.now // when the call before went on
	for i := range 10_000 {
		if i%100 == 0 { // from four times as many calls as pass to one in three units
			load = rnd.Int64N(60) + 5
		}
		switch rnd.IntN(6) {
		case 0: // at once
		case 1:
			at.now = at.now.Add(unit)
		default:
			at.now = at.now.Add(time.Duration(rnd.Int64N(int64(unit)/10000*load+1)) * time.Microsecond)
		}
		if rnd.IntN(200) == 0 { // what waits has gone on, and more time has passed
			at.now = at.now.Add(time.Duration(rnd.Int64N(int64(sluice.MaxWait/time.Microsecond))) * time.Microsecond)
		}
		want := theirs.Take()
		d, err := ours.Reserve(t.Context(), "k", 1, sluice.MaxWait)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case want.After(at.now):
			waited++
		case at.now.Sub(before) < unit:
			early++ // by its slack
		}
		if got := d.Due.Time(); !d.Allowed || !got.Equal(want) {
			t.Fatalf("seed %d, call %d at %v: got %+v, theirs goes on at %v", seed, i+1, at.now, d, want)
		}
		before = want
	}
	if waited < 500 || slack > 0 && early < 500 {
		t.Errorf("seed %d: %d of 10,000 calls waited and %d found slack: too few", seed, waited, early)
	}
}
