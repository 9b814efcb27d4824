// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package faults

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/remote"
)

// denyCache (invariant 19): each request that a node denies without asking would
// have been denied by the server at that instant. Nodes press keys of their own,
// so that what the server says before and after shows what it would have said.
// The network of one cuts and delays what it passes on.
func (c *Client) denyCache(t *testing.T) {
	server := redistest.Start(t, redistest.Redis(t))
	jittering := redistest.StartProxy(t, server.Addr)
	jittering.Set(redistest.Jittering)
	for i, text := range []string{
		"20/200ms", "20/100ms fixed-window", "40/200ms sliding-counter", "40/200ms sliding-histogram precision 3",
		"3/50ms burst 9", "10/100ms interval-refill", "30/200ms leaky-bucket burst 5 nodelay", "30/100ms sliding-log",
		"20/100ms sliding-counter conservative",
	} {
		t.Run(text, func(t *testing.T) {
			if i >= 4 {
				testkit.Long(t)
			}
			t.Parallel()
			nodes := slices.Concat(c.nodes(t, "redis://"+server.Addr, 2), c.nodes(t, "redis://"+jittering.Addr, 1))
			for limit := sluice.MustParseLimit(text); !c.probe(t, nodes, limit) && !t.Failed(); limit.Window *= 4 { // a busy machine needs a longer one
				if limit.Window > testkit.Ceiling/4 {
					t.Fatal("this shows nothing")
				}
			}
		})
	}
}

// probe has nodes press keys of their own under a limit. It reports whether that has shown enough.
func (c *Client) probe(t *testing.T, nodes []sluice.Store, limit sluice.Limit) bool {
	t.Helper()
	var group sync.WaitGroup
	var shown atomic.Int64
	for n, node := range nodes {
		w := c.witness(node)
		lim, err := sluice.New(wrapped(t, w, remote.Options{Policy: sluice.FailClosed, Timeout: time.Minute}), limit.String(), limit)
		if err != nil {
			t.Fatal(err)
		}
		p := prober{witness: w, lim: lim, key: fmt.Sprint("k", n), rnd: rand.New(rand.NewPCG(uint64(n), 19))}
		group.Go(func() {
			if p.probe(t) {
				shown.Add(1)
			}
		})
	}
	group.Wait()
	return int(shown.Load()) == len(nodes)
}

// prober presses one key that nobody else presses.
type prober struct {
	witness *witness
	lim     *sluice.Limiter
	key     string
	rnd     *rand.Rand

	fits         [4]time.Time // by cost: until then the server denies, as it has said
	taken        sluice.Decision
	local, again int
}

// probe takes until units have come back often and something was denied without asking,
// and now and then gives some back. It reports false if that takes long: on a busy machine
// few denials last until the next take.
func (p *prober) probe(t *testing.T) bool {
	t.Helper()
	const enough = 8
	for end := time.Now().Add(testkit.Ceiling / 2); p.again < enough || p.local == 0; {
		if time.Now().After(end) {
			t.Logf("%v: %d requests denied without asking; %d times units were there again", p.lim.Plan().Term(0).Limit, p.local, p.again)
			return false
		}
		var err error
		switch n := p.rnd.IntN(400); {
		case n == 0:
			err = errors.Join(p.lim.Reset(t.Context(), p.key), p.learn(t))
		case n < 4 && p.taken.Allowed:
			_, err = p.lim.Refund(t.Context(), p.key, 1, p.taken)
			err = errors.Join(err, p.learn(t))
		default:
			err = p.take(t, 1+p.rnd.Int64N(int64(len(p.fits)-1)))
		}
		if err != nil {
			t.Error(err)
			return false
		}
	}
	return true
}

// take takes some units.
func (p *prober) take(t *testing.T, cost int64) error {
	t.Helper()
	asked, began := p.witness.Asked(), time.Now()
	d, err := p.lim.Take(t.Context(), p.key, cost)
	if err != nil {
		return err
	}
	if p.witness.Asked() > asked {
		if d.Allowed {
			p.taken = d
			if !p.fits[cost].IsZero() {
				p.again++
			}
		}
		return p.learn(t)
	}
	if p.local++; d.Allowed {
		return fmt.Errorf("%d units were allowed without asking", cost)
	}
	now, err := p.peek(t, cost)
	if err == nil && now.Allowed && !began.Before(p.fits[cost]) {
		// Else it was denied all the time, or the units came meanwhile.
		return fmt.Errorf("%d units denied at %v, which the server has from %v on", cost, began, p.fits[cost])
	}
	return err
}

// learn asks the server until when it denies.
func (p *prober) learn(t *testing.T) error {
	t.Helper()
	for cost := range int64(len(p.fits)) {
		d, err := p.peek(t, cost)
		if err != nil {
			return err
		}
		p.fits[cost] = time.Time{}
		if !d.Allowed {
			p.fits[cost] = d.At.Time().Add(d.RetryAfter)
		}
	}
	return nil
}

// peek asks the server, past the cache.
func (p *prober) peek(t *testing.T, cost int64) (sluice.Decision, error) {
	t.Helper()
	return p.witness.Store.Take(t.Context(), sluice.Request{Op: sluice.OpPeek, Charge: p.lim.Of(p.key, cost)})
}
