// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/stores"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/remote"
)

// leaving is a store in memory that can become unavailable.
type leaving struct {
	*memstore.Store
	away bool
}

var errAway = &sluice.NotSentError{Err: errors.New("away")}

func (s *leaving) Take(ctx context.Context, req sluice.Request) (sluice.Decision, error) {
	if s.away {
		return sluice.Decision{}, errAway
	}
	return s.Store.Take(ctx, req)
}

func (s *leaving) Explain(ctx context.Context, req sluice.Request) (sluice.Explanation, error) {
	if s.away {
		return sluice.Explanation{}, errAway
	}
	return s.Store.Explain(ctx, req)
}

func (s *leaving) Slot(ctx context.Context, req sluice.SlotRequest) (sluice.SlotDecision, error) {
	if s.away {
		return sluice.SlotDecision{}, errAway
	}
	return s.Store.Slot(ctx, req)
}

func (s *leaving) ExplainSlot(ctx context.Context, req sluice.SlotRequest) (sluice.SlotDecision, error) {
	if s.away {
		return sluice.SlotDecision{}, errAway
	}
	return s.Store.ExplainSlot(ctx, req)
}

func snapshot(t *testing.T, s *memstore.Store) string {
	t.Helper()
	var b bytes.Buffer
	if err := s.Snapshot(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestExplainBesideTheBooks: an explanation equals the next decision, with leased units and
// with remembered denials, and does not change these, the store or the statistics.
func TestExplainBesideTheBooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		behind := &leaving{Store: memstore.New(memstore.Options{MaxKeys: 1000})}
		s, err := remote.Wrap(behind, remote.Options{Lease: leasing})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close() //nolint:errcheck // it returns none
		plans := []*sluice.Plan{testkit.Plan(t, "leased", "40/min sliding-log"), testkit.Plan(t, "api", "5/min", "20/h fixed-window")}
		rnd := rand.New(rand.NewPCG(1, 2))
		var inHand, denied, turns int
		for i := range 4000 {
			time.Sleep(time.Duration(rnd.IntN(3000)) * time.Millisecond)
			p := plans[rnd.IntN(2)]
			req := testkit.Request(p, "k", 1)
			room := make(sluice.Outcomes, p.Len())
			req.Outcomes = &room
			before, stats := snapshot(t, behind.Store), s.Stats()
			e, err := s.Explain(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			if snapshot(t, behind.Store) != before || s.Stats() != stats {
				t.Fatalf("step %d: to explain has changed the store, or %+v", i, stats)
			}
			d := testkit.Take(t, s, req)
			last := e.Limits[0].Lines[len(e.Limits[0].Lines)-1]
			switch {
			case strings.Contains(last, "cover the cost"):
				inHand++
			case p == plans[0] && e.Decision.Allowed != d.Allowed:
				turns++ // the node has asked for more than the cost, and waits for its turn
				continue
			}
			if !d.Allowed {
				denied++
			}
			if e.Decision.Allowed != d.Allowed || p == plans[1] && (e.Decision.RetryAfter != d.RetryAfter || e.Decision.Remaining != d.Remaining) {
				t.Fatalf("step %d: explained %+v, decided %+v\n%v", i, e.Decision, d, e.Limits)
			}
		}
		if inHand < 100 || denied < 100 || turns > 400 {
			t.Errorf("%d from units in hand, %d denied, %d waited for a turn", inHand, denied, turns)
		}
	})
}

// TestExplainInAnOutage: an explanation equals the failure policy's decision.
func TestExplainInAnOutage(t *testing.T) {
	for _, c := range []struct {
		policy sluice.Failure
		want   string
	}{
		{sluice.FailOpen, "failure is open"}, {sluice.FailLocal, "failure is local"}, {sluice.FailClosed, "store unavailable"},
	} {
		t.Run(c.policy.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				behind := &leaving{Store: memstore.New(memstore.Options{MaxKeys: 1000}), away: true}
				s, err := remote.Wrap(behind, remote.Options{
					Policy: c.policy, SlotPolicyOf: func(string) sluice.Failure { return c.policy },
					Local: memstore.New(memstore.Options{MaxKeys: 1000}), Nodes: func() int { return 2 },
				})
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close() //nolint:errcheck // it returns none
				p := testkit.Plan(t, "api", "10/h")
				slot := sluice.SlotRequest{Scope: "api", Limit: sluice.SlotLimit{Name: "slots", Cap: 4, TTL: time.Hour}, Key: "k", Cost: 1}
				for i := range 12 {
					e, said := s.Explain(t.Context(), testkit.Request(p, "k", 1))
					d, err := s.Take(t.Context(), testkit.Request(p, "k", 1))
					if e.Decision.Allowed != d.Allowed || (said == nil) != (err == nil) || e.Decision.Degraded != d.Degraded {
						t.Fatalf("%d: explained %+v, %v, decided %+v, %v", i, e.Decision, said, d, err)
					}
					var text string
					if said != nil {
						text = said.Error()
					} else {
						text = e.Limits[0].Lines[0]
					}
					if !strings.Contains(text, c.want) {
						t.Fatalf("got %q", text)
					}
					slot.Owner = string(rune('a' + i))
					es, said := s.ExplainSlot(t.Context(), slot)
					ds, err := s.Slot(t.Context(), slot)
					if es.Allowed != ds.Allowed || (said == nil) != (err == nil) {
						t.Fatalf("%d: explained %+v, %v, decided %+v, %v", i, es, said, ds, err)
					}
				}
			})
		})
	}
}

// TestExplainNeedsAStoreThatCan: a store that cannot explain does not count as an outage.
func TestExplainNeedsAStoreThatCan(t *testing.T) {
	s, err := remote.Wrap(testkit.Failing(errors.New("never asked")), remote.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // it returns none
	if _, err := s.Explain(t.Context(), testkit.Request(testkit.Plan(t, "s", "1/s"), "k", 1)); !errors.Is(err, stores.ErrNoExplanation) {
		t.Errorf("got %v", err)
	}
}
