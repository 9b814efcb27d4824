// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/server/internal/workbench/arrivals"
)

// AccuracyResult compares algorithms with the exact log, on the same requests. Shares are from
// 0 to 1.
type AccuracyResult struct {
	Limit       string `json:"limit"`
	Requests    int64  `json:"requests"`
	Keys        int    `json:"keys"`
	ExactDenied int64  `json:"exact_denied"` // by the exact log
	// Algorithms decide by themselves: each lives with the requests that it admitted.
	Algorithms []Algorithm `json:"algorithms"`
	// OverLimit is the number of requests with which a key has more than the quota in the
	// window, all requests counted.
	OverLimit int64 `json:"over_limit"`
	// Estimates count all requests and deny none, as Cloudflare's published figure has it.
	Estimates []Estimate      `json:"estimates"`
	Log       arrivals.Report `json:"log"`
}

// Algorithm is how one algorithm decides. Where windows lie on the clock, it is the mean of
// five runs, between which the windows are moved.
type Algorithm struct {
	Limit string `json:"limit"`
	// Differs is the share of decisions that are not those of the exact log. It includes a
	// slot that becomes free a request later.
	Differs float64 `json:"differs"`
	// FalseAllow is the share of the requests that were allowed although the true window
	// had no room, and FalseDeny of those that were denied although it had. The true window
	// has what this algorithm admitted.
	FalseAllow float64 `json:"false_allow"`
	FalseDeny  float64 `json:"false_deny"`
	// WorstExcess is the most units above the quota in a true window, as a share of the quota.
	WorstExcess float64 `json:"worst_excess"`
	// Admitted is the number of admitted units, divided by that of the exact log.
	Admitted float64 `json:"admitted"`
	// DiffersPerDenied is the number of different decisions for each denial by the exact
	// log.
	DiffersPerDenied float64 `json:"differs_per_denied"`
	BytesPerKey      float64 `json:"bytes_per_key"` // of states that live
}

// Estimate is how far the estimate of a sliding counter is from the true count.
type Estimate struct {
	SubWindows int     `json:"sub_windows"`
	Wrong      float64 `json:"wrong"`          // share of all requests on the wrong side of the quota
	PerOver    float64 `json:"per_over_limit"` // the same number for each request over the limit
	// Deviation is the mean of |estimate-true|/true over requests with a true count of 2 or
	// more.
	Deviation float64 `json:"mean_deviation"`
}

const (
	phases         = 5  // runs of an algorithm whose windows lie on the clock
	estimatePhases = 10 // the same of an estimate
	scale          = 1000
	exact          = 63 // bit of the exact log in admission.by
)

// trial is one run of an algorithm on a store of its own, with the counts of Algorithm or
// Estimate.
type trial struct {
	row                                             int // in Algorithms, or the number of sub-windows
	plan                                            *sluice.Plan
	store                                           *memstore.Store
	now, shift                                      int64
	differs, falseAllow, falseDeny, admitted, worst int64
	bytes, estimated, deviation                     float64
}

// admission is an arrival in the window, with a bit for each trial that admitted it.
type admission struct {
	at, cost int64
	key      int
	by       uint64
}

// accuracy compares the algorithms.
type accuracy struct {
	AccuracyResult
	limit             sluice.Limit
	window            int64 // µs
	rows              []sluice.Limit
	trials, estimates []*trial
	keys              map[string]int
	sums              [][]int64   // of each key: of each trial, of the exact log, of all requests
	live              []admission // those in the window, from head on
	head              int
	admitted          int64 // by the exact log
}

// Accuracy compares all algorithms with the exact log, for the quota and the window of a
// limit, by the key of the first rule.
func Accuracy(ctx context.Context, log *arrivals.Log, p *policy.Policy, limit sluice.Limit, show func(requests int64)) (*AccuracyResult, error) {
	a := &accuracy{limit: limit.Filled(), window: limit.Window.Microseconds(), keys: make(map[string]int)}
	a.Limit = limit.String()
	if err := a.prepare(); err != nil {
		return nil, err
	}
	var matches policy.Matches
	err := log.All(ctx, func(of *arrivals.Arrival) error {
		if a.Requests%progressEvery == 0 {
			a.measure()
			show(a.Requests)
		}
		p.Match(&attributes{Arrival: of, lacks: make(map[lack]bool)}, &matches)
		if matches.Len() == 0 {
			return nil
		}
		key, ok, err := matches.Key(0, &p.Levels(matches.At(0))[0])
		if err != nil || !ok {
			return nil //nolint:nilerr // the request is refused, and decides nothing
		}
		return a.arrival(ctx, of.At, key, max(of.Cost, 1))
	})
	a.measure()
	a.finish()
	a.Log = log.Report
	return &a.AccuracyResult, err
}

// prepare makes the trials of all algorithms that can have the quota.
func (a *accuracy) prepare() (err error) {
	q, base := a.limit.Quota, sluice.Limit{Quota: a.limit.Quota, Unit: a.limit.Unit, Window: a.limit.Window}
	counter := func(of sluice.Limit, n int, conservative bool) sluice.Limit {
		for a.window%int64(n) != 0 { // the next number that divides the window
			n++
		}
		return of.WithAlgorithm(sluice.SlidingCounter{SubWindows: n, Conservative: conservative})
	}
	add := func(into *[]*trial, l sluice.Limit, row, runs int) {
		for phase := range runs {
			t := &trial{row: row, shift: int64(phase) * a.window / int64(runs)}
			t.store = memstore.New(memstore.Options{MaxKeys: 1 << 22, Now: func() time.Time { return time.UnixMicro(t.now) }})
			if t.plan, err = sluice.Compile("accuracy", l); err != nil {
				return
			}
			*into = append(*into, t)
		}
	}
	safe := base.WithBurst(max(q/2, 1))
	safe.Quota = max(q-safe.Burst, 1)
	onClock := []sluice.Limit{base.WithAlgorithm(sluice.FixedWindow{})}
	for _, conservative := range []bool{false, true} {
		for _, n := range []int{1, 6, 10, 60}[map[bool]int{true: 1}[conservative]:] {
			onClock = append(onClock, counter(base, n, conservative))
		}
	}
	for i, l := range slices.Concat(onClock, []sluice.Limit{
		base.WithAlgorithm(sluice.SlidingLog{}), base.WithAlgorithm(sluice.SlidingHistogram{Precision: 12}), base.WithAlgorithm(sluice.SlidingHistogram{}),
		base.WithBurst(q), base.WithBurst(max(q/10, 1)), safe,
	}) {
		runs := 1
		if i < len(onClock) {
			runs = phases
		}
		if l.Validate() == nil { // else it is a log of a large quota
			add(&a.trials, l, len(a.rows), runs)
			a.rows = append(a.rows, l)
		}
	}
	for _, n := range []int{1, 10, 60} {
		l := counter(sluice.Limit{Quota: sluice.MaxQuota / 128, Window: a.limit.Window}, n, false)
		add(&a.estimates, l, l.Algorithm.(sluice.SlidingCounter).SubWindows, estimatePhases) //nolint:forcetypeassert // counter has set it
	}
	return err
}

// take charges a key at the trial's own time.
func (t *trial) take(ctx context.Context, at int64, key string, cost int64) (sluice.Decision, error) {
	t.now = at + t.shift
	return t.store.Take(ctx, sluice.Request{Charge: sluice.Charge{Plan: t.plan, Key: key, Cost: cost}})
}

// arrival decides a request in all trials.
func (a *accuracy) arrival(ctx context.Context, at int64, name string, cost int64) error {
	key, known := a.keys[name]
	if n := len(a.trials); !known {
		key = len(a.keys)
		a.keys[strings.Clone(name)] = key
		a.sums = append(a.sums, make([]int64, n+2))
	}
	a.advance(at)
	sums, quota := a.sums[key], a.limit.Quota
	ofExact, ofAll := &sums[len(sums)-2], &sums[len(sums)-1]
	isExact := *ofExact+cost <= quota
	now := admission{at: at, cost: cost, key: key}
	if a.Requests++; isExact {
		now.by = 1 << exact
		a.admitted += cost
		*ofExact += cost
	} else {
		a.ExactDenied++
	}
	for i, t := range a.trials {
		d, err := t.take(ctx, at, name, cost)
		if err != nil {
			return err
		}
		over := sums[i] + cost - quota
		switch {
		case d.Allowed:
			now.by |= 1 << i
			sums[i] += cost
			t.admitted += cost
			if t.worst = max(t.worst, over); over > 0 {
				t.falseAllow++
			}
		case over <= 0:
			t.falseDeny++
		}
		if d.Allowed != isExact {
			t.differs++
		}
	}
	a.live = append(a.live, now)
	if *ofAll += cost; *ofAll > quota {
		a.OverLimit++
	}
	for _, t := range a.estimates {
		d, err := t.take(ctx, at, name, cost*scale)
		if err != nil {
			return err
		}
		estimate, count := float64(t.plan.Term(0).Quota-d.Remaining)/scale, float64(*ofAll)
		if (estimate > float64(quota)) != (*ofAll > quota) {
			t.differs++
		}
		if count >= 2 {
			t.estimated++
			t.deviation += math.Abs(estimate-count) / count
		}
	}
	return nil
}

// advance drops the arrivals that are no longer in the window.
func (a *accuracy) advance(at int64) {
	for ; a.head < len(a.live) && a.live[a.head].at <= at-a.window; a.head++ {
		old := &a.live[a.head]
		sums := a.sums[old.key]
		for i := range a.trials {
			sums[i] -= old.cost * int64(old.by>>i&1)
		}
		sums[len(sums)-2] -= old.cost * int64(old.by>>exact)
		sums[len(sums)-1] -= old.cost
	}
	if a.head > 1<<12 && a.head > len(a.live)/2 {
		a.live, a.head = a.live[:copy(a.live, a.live[a.head:])], 0
	}
}

// measure notes the memory of the states.
func (a *accuracy) measure() {
	for _, t := range a.trials {
		if s := t.store.Stats(); s.States > 0 {
			t.bytes = max(t.bytes, float64(s.Bytes)/float64(s.States))
		}
	}
}

// finish sums up the trials.
func (a *accuracy) finish() {
	a.Keys, a.Algorithms = len(a.keys), make([]Algorithm, len(a.rows))
	share := func(part, of int64, runs int) float64 { return float64(part) / float64(max(of, 1)) / float64(runs) }
	for _, t := range a.trials {
		r, runs := &a.Algorithms[t.row], 1
		switch a.rows[t.row].Algorithm.(type) {
		case sluice.FixedWindow, sluice.SlidingCounter:
			runs = phases
		default:
		}
		r.Limit = a.rows[t.row].String()
		r.Differs += share(t.differs, a.Requests, runs)
		r.FalseAllow += share(t.falseAllow, a.Requests, runs)
		r.FalseDeny += share(t.falseDeny, a.Requests, runs)
		r.WorstExcess = max(r.WorstExcess, share(t.worst, a.limit.Quota, 1))
		r.Admitted += share(t.admitted, a.admitted, runs)
		r.DiffersPerDenied += share(t.differs, a.ExactDenied, runs)
		r.BytesPerKey = max(r.BytesPerKey, t.bytes)
	}
	for i, t := range a.estimates {
		if i%estimatePhases == 0 {
			a.Estimates = append(a.Estimates, Estimate{SubWindows: t.row})
		}
		e := &a.Estimates[len(a.Estimates)-1]
		e.Wrong += share(t.differs, a.Requests, estimatePhases)
		e.PerOver += share(t.differs, a.OverLimit, estimatePhases)
		e.Deviation += t.deviation / max(t.estimated, 1) / estimatePhases
	}
}
