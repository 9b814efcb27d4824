// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/memstore"
)

// Algorithms are sluice's limits of l under each algorithm, by name. Where an
// algorithm has no burst its quota is the larger of the two, and for a sliding
// log, which keeps an entry per unit, at most what it can hold.
func Algorithms(l Limit) map[string]sluice.Limit {
	bucket := sluice.Per(l.Quota, l.Window).WithBurst(l.Burst)
	meter := bucket.WithAlgorithm(sluice.LeakyBucket{DelayAfter: l.Burst}) // denies what does not fit, delays nothing
	interval := bucket.WithAlgorithm(sluice.TokenBucket{Refill: sluice.Interval})
	windowed := sluice.Per(l.count(), l.Window)
	log := windowed.WithAlgorithm(sluice.SlidingLog{})
	log.Quota = min(log.Quota, bounds.MaxLogQuota)
	limits := map[string]sluice.Limit{
		"token-bucket":      bucket,
		"leaky-bucket":      meter,
		"interval":          interval, // a token bucket that refills once a window
		"fixed-window":      windowed.WithAlgorithm(sluice.FixedWindow{}),
		"sliding-log":       log,
		"sliding-counter":   windowed.WithAlgorithm(sluice.SlidingCounter{}),
		"sliding-histogram": windowed.WithAlgorithm(sluice.SlidingHistogram{}),
	}
	return limits
}

// sluices are sluice's contenders: the token bucket under the plain name, the
// other algorithms behind it.
func sluices() []Contender {
	all := []Contender{{Name: "sluice", Counts: "token bucket in memstore", New: newSluice("token-bucket")}}
	for _, a := range []string{"leaky-bucket", "interval", "fixed-window", "sliding-log", "sliding-counter", "sliding-histogram"} {
		all = append(all, Contender{Name: "sluice." + a, Counts: a + " in memstore", Windowed: a != "leaky-bucket" && a != "interval", New: newSluice(a)})
	}
	return all
}

func newSluice(algorithm string) func(Limit, int) (Limiter, error) {
	return func(l Limit, _ int) (Limiter, error) {
		lim, err := sluice.New(memstore.New(memstore.Options{}), "bench", Algorithms(l)[algorithm])
		return sluiceLimiter{lim: lim, ctx: context.Background()}, err
	}
}

// sluiceLimiter calls what a user would call.
type sluiceLimiter struct {
	unclosed
	lim *sluice.Limiter
	ctx context.Context //nolint:containedctx // Limiter has no context: most contenders take none
}

func (s sluiceLimiter) Take(key string) (bool, error) {
	d, err := s.lim.Take(s.ctx, key, 1)
	return d.Allowed, err
}
