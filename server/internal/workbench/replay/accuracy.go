// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"context"
	"fmt"
	"math"
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
	// WorstExcess is the most units above the quota in a true window, in parts of the quota.
	WorstExcess float64 `json:"worst_excess"`
	// Admitted is the number of admitted units in parts of those of the exact log.
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
)

// trial is one run of an algorithm. Its counts are those of Algorithm.
type trial struct {
	row                          int // in Algorithms
	plan                         *sluice.Plan
	store                        *memstore.Store
	now, shift                   int64
	differs, falseAllow          int64
	falseDeny, admitted          int64
	worst                        int64 // units above the quota
	bytes                        float64
	estimated, wrong, deviations float64
}

// admission is an arrival in the window, with a bit for each trial that admitted it.
type admission struct {
	at, cost int64
	key      int32
	by       uint64
}

// accuracy compares the algorithms.
type accuracy struct {
	ctx       context.Context //nolint:containedctx // of Accuracy
	policy    *policy.Policy
	matches   policy.Matches
	limit     sluice.Limit
	window    int64
	rows      []sluice.Limit
	trials    []*trial // 63 at most; bit 63 of an admission is the exact log's
	estimates []*trial

	keys     map[string]int32
	sums     []int64 // for each key: of each trial, of the exact log, of all requests
	live     []admission
	head     int
	result   *AccuracyResult
	admitted int64 // by the exact log
}

// Accuracy compares all algorithms with the exact log, for the quota and the window of a
// limit, by the key of the first rule.
func Accuracy(ctx context.Context, log *arrivals.Log, p *policy.Policy, limit sluice.Limit, show func(requests int64)) (*AccuracyResult, error) {
	limit = limit.Filled()
	a := &accuracy{ctx: ctx, policy: p, limit: limit, window: limit.Window.Microseconds(), keys: make(map[string]int32), result: &AccuracyResult{Limit: limit.String()}}
	if err := a.prepare(); err != nil {
		return nil, err
	}
	err := log.All(ctx, func(of *arrivals.Arrival) error {
		if a.result.Requests%progressEvery == 0 {
			a.measure()
			if show != nil {
				show(a.result.Requests)
			}
		}
		return a.arrival(of)
	})
	if err != nil {
		return nil, err
	}
	a.measure()
	a.finish()
	a.result.Log = log.Report
	return a.result, nil
}

// variant is an algorithm and the number of its runs.
type variant struct {
	limit sluice.Limit
	runs  int
}

// divisor returns the least number of sub-windows, n or more, that divides the window.
func (a *accuracy) divisor(n int) int {
	for a.window%int64(n) != 0 {
		n++
	}
	return n
}

// prepare makes the trials of all algorithms that can have the quota.
func (a *accuracy) prepare() error {
	q := a.limit.Quota
	base := sluice.Limit{Quota: q, Unit: a.limit.Unit, Window: a.limit.Window}
	add := func(l sluice.Limit, runs int) error {
		if l.Validate() != nil {
			return nil // such as a log of a large quota
		}
		a.rows = append(a.rows, l)
		for phase := range runs {
			t := &trial{row: len(a.rows) - 1, shift: int64(phase) * a.window / int64(runs)}
			if err := t.prepare(l); err != nil {
				return err
			}
			a.trials = append(a.trials, t)
		}
		return nil
	}
	all := []variant{{base.WithAlgorithm(sluice.SlidingLog{}), 1}, {base.WithAlgorithm(sluice.FixedWindow{}), phases}}
	for _, conservative := range []bool{false, true} {
		for _, n := range []int{1, 6, 10, 60} {
			if n > 1 || !conservative {
				all = append(all, variant{base.WithAlgorithm(sluice.SlidingCounter{SubWindows: a.divisor(n), Conservative: conservative}), phases})
			}
		}
	}
	for _, k := range []int{12, 27} {
		all = append(all, variant{base.WithAlgorithm(sluice.SlidingHistogram{Precision: k}), 1})
	}
	safe := base.WithBurst(max(q/2, 1))
	safe.Quota = max(q-safe.Burst, 1)
	for _, l := range []sluice.Limit{base.WithBurst(q), base.WithBurst(max(q/10, 1)), safe} {
		all = append(all, variant{l, 1})
	}
	for _, of := range all {
		if err := add(of.limit, of.runs); err != nil {
			return err
		}
	}
	for _, n := range []int{1, 10, 60} {
		l := sluice.Limit{Quota: sluice.MaxQuota / 128, Window: a.limit.Window}.WithAlgorithm(sluice.SlidingCounter{SubWindows: a.divisor(n)})
		for phase := range estimatePhases {
			t := &trial{row: a.divisor(n), shift: int64(phase) * a.window / estimatePhases}
			if err := t.prepare(l); err != nil {
				return err
			}
			a.estimates = append(a.estimates, t)
		}
	}
	return nil
}

func (t *trial) prepare(l sluice.Limit) (err error) {
	t.store = memstore.New(memstore.Options{MaxKeys: 1 << 22, Now: func() time.Time { return time.UnixMicro(t.now) }})
	t.plan, err = sluice.Compile("accuracy", l)
	return err
}

// take charges a key at the trial's own time.
func (t *trial) take(ctx context.Context, at int64, key string, cost int64) (sluice.Decision, error) {
	t.now = at + t.shift
	return t.store.Take(ctx, sluice.Request{Charge: sluice.Charge{Plan: t.plan, Key: key, Cost: cost}})
}

// exact is the bit of the exact log, and of its sum; all is the sum of all requests.
const exact = 63

// arrival decides an arrival in all trials.
func (a *accuracy) arrival(of *arrivals.Arrival) error {
	a.policy.Match(&attributes{of: of, lacks: make(lacks)}, &a.matches)
	if a.matches.Len() == 0 {
		return nil
	}
	name, ok, err := a.matches.Key(0, &a.policy.Levels(a.matches.At(0))[0])
	if err != nil || !ok {
		return nil //nolint:nilerr // the request is refused, and decides nothing
	}
	cost := max(of.Cost, 1)
	size := len(a.trials) + 2
	key, known := a.keys[name]
	if !known {
		key = int32(len(a.keys))
		a.keys[string(append([]byte(nil), name...))] = key
		a.sums = append(a.sums, make([]int64, size)...)
	}
	a.advance(of.At, size)
	sums := a.sums[int(key)*size : int(key+1)*size]
	quota := a.limit.Quota
	a.result.Requests++
	now := admission{at: of.At, cost: cost, key: key}
	isExact := sums[size-2]+cost <= quota
	if isExact {
		now.by |= 1 << exact
		a.admitted += cost
	} else {
		a.result.ExactDenied++
	}
	for i, t := range a.trials {
		d, err := t.take(a.ctx, of.At, name, cost)
		if err != nil {
			return err
		}
		room := sums[i]+cost <= quota
		switch {
		case d.Allowed:
			now.by |= 1 << i
			t.admitted += cost
			if !room {
				t.falseAllow++
				t.worst = max(t.worst, sums[i]+cost-quota)
			}
		case room:
			t.falseDeny++
		}
		if d.Allowed != isExact {
			t.differs++
		}
	}
	a.live = append(a.live, now)
	for i := range a.trials {
		if now.by&(1<<i) != 0 {
			sums[i] += cost
		}
	}
	if isExact {
		sums[size-2] += cost
	}
	sums[size-1] += cost
	return a.estimate(of.At, name, cost, sums[size-1])
}

// estimate compares the estimates of the counters with the true count.
func (a *accuracy) estimate(at int64, key string, cost, count int64) error {
	if count > a.limit.Quota {
		a.result.OverLimit++
	}
	if cost > math.MaxInt32 {
		return fmt.Errorf("--accuracy: a cost of %d is more than it can compare", cost)
	}
	for _, t := range a.estimates {
		d, err := t.take(a.ctx, at, key, cost*scale)
		if err != nil {
			return err
		}
		estimated := float64(t.plan.Term(0).Quota-d.Remaining) / scale
		if estimated > float64(a.limit.Quota) != (count > a.limit.Quota) {
			t.wrong++
		}
		if count >= 2 {
			t.estimated++
			t.deviations += math.Abs(estimated-float64(count)) / float64(count)
		}
	}
	return nil
}

// advance drops the arrivals that are no longer in the window.
func (a *accuracy) advance(at int64, size int) {
	for a.head < len(a.live) && a.live[a.head].at <= at-a.window {
		old := &a.live[a.head]
		sums := a.sums[int(old.key)*size : int(old.key+1)*size]
		for i := range a.trials {
			if old.by&(1<<i) != 0 {
				sums[i] -= old.cost
			}
		}
		if old.by&(1<<exact) != 0 {
			sums[size-2] -= old.cost
		}
		sums[size-1] -= old.cost
		a.head++
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
	f := a.result
	f.Keys = len(a.keys)
	all := float64(max(f.Requests, 1))
	denied, over := float64(max(f.ExactDenied, 1)), float64(max(f.OverLimit, 1))
	f.Algorithms = make([]Algorithm, len(a.rows))
	runs := make([]float64, len(a.rows))
	for _, t := range a.trials {
		runs[t.row]++
	}
	for _, t := range a.trials {
		r, n := &f.Algorithms[t.row], runs[t.row]
		r.Limit = a.rows[t.row].String()
		r.Differs += float64(t.differs) / all / n
		r.FalseAllow += float64(t.falseAllow) / all / n
		r.FalseDeny += float64(t.falseDeny) / all / n
		r.WorstExcess = max(r.WorstExcess, float64(t.worst)/float64(a.limit.Quota))
		r.Admitted += float64(t.admitted) / float64(max(a.admitted, 1)) / n
		r.DiffersPerDenied += float64(t.differs) / denied / n
		r.BytesPerKey = max(r.BytesPerKey, t.bytes)
	}
	for i, t := range a.estimates {
		if i%estimatePhases == 0 {
			f.Estimates = append(f.Estimates, Estimate{SubWindows: t.row})
		}
		e := &f.Estimates[len(f.Estimates)-1]
		e.Wrong += t.wrong / all / estimatePhases
		e.PerOver += t.wrong / over / estimatePhases
		e.Deviation += t.deviations / max(t.estimated, 1) / estimatePhases
	}
}
