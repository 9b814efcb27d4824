// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package rls

import (
	"math"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/sluicegate/sluice/server/internal/front/rls/ratelimit"
)

// mostSeries is the most series of statistics. Hits beyond them count under the domain "other".
const mostSeries = 10_000

// mostPath is the most bytes of a path whose levels are labels. The rest has no effect.
const mostPath = 256

// nearRatio is the part of a limit above which hits are near it.
const nearRatio float32 = 0.8

// The statistics of a limit, counted in hits.
const (
	totalHits = iota
	overLimit
	nearLimit
	overLimitWithLocalCache // always 0: there is no such cache
	withinLimit
	shadowMode
	limitStatistics
)

// The statistics of the front.
const (
	loadSuccess = iota
	loadError
	redisError
	serviceError
	frontStatistics
)

// Statistics are those that the service counts, under its names. They are safe for concurrent
// use.
type Statistics struct {
	known  sync.Map // of labels to *hits
	series atomic.Int64
	front  [frontStatistics]atomic.Int64
}

// labels are those of a limit's statistics.
type labels struct{ domain, key1, key2 string }

// hits are the statistics of a limit.
type hits [limitStatistics]atomic.Int64

// Each passes each statistic to put: its name after ratelimit_service_, its labels in their
// order, and its value.
func (s *Statistics) Each(put func(name string, value int64, labels ...string)) {
	s.known.Range(func(key, value any) bool {
		l, h := key.(labels), value.(*hits)
		for i, name := range [...]string{"total_hits", "over_limit", "near_limit", "over_limit_with_local_cache", "within_limit", "shadow_mode"} {
			put("rate_limit_"+name, h[i].Load(), l.domain, l.key1, l.key2)
		}
		return true
	})
	put("config_load_success", s.front[loadSuccess].Load())
	put("config_load_error", s.front[loadError].Load())
	put("should_rate_limit_error", s.front[redisError].Load(), "redis_error")
	put("should_rate_limit_error", s.front[serviceError].Load(), "service_error")
}

// add adds to a statistic of the front.
func (s *Statistics) add(statistic int) { s.front[statistic].Add(1) }

// of returns the statistics of a limit by their path, of which the first three levels are labels.
func (s *Statistics) of(path string) *hits {
	if len(path) > mostPath {
		path = strings.ToValidUTF8(path[:mostPath], "")
	}
	levels := append(strings.SplitN(clean(path), ".", 4), "", "")
	l := labels{levels[0], levels[1], levels[2]}
	if known, ok := s.known.Load(l); ok {
		return known.(*hits)
	}
	if s.series.Load() >= mostSeries {
		l = labels{domain: "other"}
	}
	known, loaded := s.known.LoadOrStore(l, new(hits))
	if !loaded {
		s.series.Add(1)
	}
	return known.(*hits)
}

var (
	ipv4   = regexp.MustCompile(`\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}`)
	barred = strings.NewReplacer(":", "_", "|", "_")
)

// clean returns a path without the characters that separate statistics.
func clean(path string) string {
	return ipv4.ReplaceAllStringFunc(barred.Replace(path), func(ip string) string { return strings.ReplaceAll(ip, ".", "_") })
}

// count counts the hits of a decided request.
func (s *Statistics) count(d *decision) {
	for i := range d.descriptors {
		k := &d.descriptors[i]
		if k.limit == nil || k.negative {
			continue
		}
		of := d.request.GetDescriptors()[i]
		path := ratelimit.Brought(d.request.GetDomain(), of.GetEntries())
		if of.GetLimit() == nil {
			path = ratelimit.Path(d.limits.files, d.request.GetDomain(), of.GetEntries(), k.shared)
		}
		s.of(path).count(k)
	}
}

// count counts the hits of a descriptor. Those of a request that exceeds the limit are over it
// from there on, and near it below.
func (h *hits) count(k *descriptor) {
	limit, after := int64(k.limit.PerUnit), k.standing.after
	if t := k.standing.taken; t != nil { // hits that are denied have not been taken
		limit = k.limit.Slots.Cap
		if k.limit.plan != nil {
			limit = k.limit.plan.Term(k.standing.binding).Full
		}
		if after = limit - t.Remaining; !t.Allowed {
			limit, after = 0, k.hits
		}
	}
	before, near := after-k.hits, int64(math.Floor(float64(float32(limit)*nearRatio)))
	h[totalHits].Add(k.hits)
	if !k.standing.over(k) {
		h[withinLimit].Add(k.hits)
		if after > near {
			h[nearLimit].Add(after - max(near, before))
		}
		return
	}
	over := after - max(limit, before)
	h[overLimit].Add(over)
	if before < limit {
		h[nearLimit].Add(limit - max(near, before))
	}
	if k.limit.Shadow {
		h[shadowMode].Add(over)
	}
}
