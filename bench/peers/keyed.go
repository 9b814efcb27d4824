// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/didip/tollbooth/v8"
	"github.com/didip/tollbooth/v8/limiter"
	"github.com/go-chi/httprate"
	golimiter "github.com/sethvargo/go-limiter"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
	ululelimiter "github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/store/memory"
	tailscale "tailscale.com/util/limiter"
)

// keyed are the peers that keep keys themselves.
func keyed() []Contender {
	return []Contender{{
		Name: "go-limiter", Counts: "fixed window; map of mutexes", Windowed: true,
		Module: "github.com/sethvargo/go-limiter", New: newGoLimiter,
	}, {
		Name: "throttled", Counts: "GCRA; map",
		Module: "github.com/throttled/throttled/v2", New: func(l Limit, _ int) (Limiter, error) { return newThrottled(l, 0) },
	}, {
		Name: "throttled-lru", Counts: "GCRA; bounded LRU",
		Module: "github.com/throttled/throttled/v2", New: newThrottled,
	}, {
		Name: "tailscale", Counts: "token bucket; bounded LRU",
		Module: "tailscale.com", New: newTailscale,
	}, {
		Name: "httprate", Counts: "sliding counter; two maps", Windowed: true,
		Module: "github.com/go-chi/httprate", New: newHTTPRate,
	}, {
		Name: "ulule", Counts: "fixed window; sync.Map", Windowed: true,
		Module: "github.com/ulule/limiter/v3", New: newUlule,
	}, {
		Name: "tollbooth", Counts: "token bucket; expiring map",
		Module: "github.com/didip/tollbooth/v8", New: newTollbooth,
	}}
}

type goLimiter struct {
	store golimiter.Store
	ctx   context.Context //nolint:containedctx // see sluiceLimiter
}

func newGoLimiter(l Limit, _ int) (Limiter, error) {
	s, err := memorystore.New(&memorystore.Config{Tokens: uint64(l.count()), Interval: l.Window})
	return goLimiter{store: s, ctx: context.Background()}, err
}

func (g goLimiter) Take(key string) (bool, error) {
	_, _, _, ok, err := g.store.Take(g.ctx, key)
	return ok, err
}

func (g goLimiter) Close() error { return g.store.Close(g.ctx) }

type throttledLimiter struct {
	unclosed
	lim *throttled.GCRARateLimiterCtx
	ctx context.Context //nolint:containedctx // see sluiceLimiter
}

func newThrottled(l Limit, keys int) (Limiter, error) {
	s, err := memstore.NewCtx(keys)
	if err != nil {
		return nil, err
	}
	return newThrottledOn(s, l)
}

func newThrottledOn(s throttled.GCRAStoreCtx, l Limit) (throttledLimiter, error) {
	// Its MaxBurst is what may come on top of the first.
	lim, err := throttled.NewGCRARateLimiterCtx(s, throttled.RateQuota{
		MaxRate: throttled.PerDuration(int(l.Quota), l.Window), MaxBurst: int(l.Burst - 1),
	})
	return throttledLimiter{lim: lim, ctx: context.Background()}, err
}

func (t throttledLimiter) Take(key string) (bool, error) {
	denied, _, err := t.lim.RateLimitCtx(t.ctx, key, 1)
	return !denied, err
}

type tailscaleLimiter struct {
	unclosed
	lim *tailscale.Limiter[string]
}

func newTailscale(l Limit, keys int) (Limiter, error) {
	return tailscaleLimiter{lim: &tailscale.Limiter[string]{Size: keys, Max: l.Burst, RefillInterval: l.interval()}}, nil
}

func (t tailscaleLimiter) Take(key string) (bool, error) { return t.lim.Allow(key), nil }

// httprateLimiter decides only with a request in hand, and writes no fields.
type httprateLimiter struct {
	unclosed
	lim *httprate.RateLimiter
	w   http.ResponseWriter
	r   *http.Request
}

func newHTTPRate(l Limit, _ int) (Limiter, error) {
	return httprateLimiter{
		lim: httprate.NewRateLimiter(int(l.count()), l.Window, httprate.WithResponseHeaders(httprate.ResponseHeaders{})),
		w:   httptest.NewRecorder(),
		r:   httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/", nil),
	}, nil
}

func (h httprateLimiter) Take(key string) (bool, error) { return !h.lim.OnLimit(h.w, h.r, key), nil }

type ululeLimiter struct {
	unclosed
	lim *ululelimiter.Limiter
	ctx context.Context //nolint:containedctx // see sluiceLimiter
}

func newUlule(l Limit, _ int) (Limiter, error) {
	return ululeLimiter{
		lim: ululelimiter.New(memory.NewStore(), ululelimiter.Rate{Period: l.Window, Limit: l.count()}),
		ctx: context.Background(),
	}, nil
}

func (u ululeLimiter) Take(key string) (bool, error) {
	c, err := u.lim.Get(u.ctx, key)
	return !c.Reached, err
}

type tollboothLimiter struct {
	unclosed
	lim *limiter.Limiter
}

func newTollbooth(l Limit, _ int) (Limiter, error) {
	lim := tollbooth.NewLimiter(l.perSecond(), &limiter.ExpirableOptions{DefaultExpirationTTL: time.Hour})
	lim.SetBurst(int(l.Burst))
	return tollboothLimiter{lim: lim}, nil
}

func (t tollboothLimiter) Take(key string) (bool, error) { return !t.lim.LimitReached(key), nil }
