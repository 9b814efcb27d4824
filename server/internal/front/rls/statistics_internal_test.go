// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package rls

import (
	"fmt"
	"strings"
	"testing"
	"time"

	commonpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typepb "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/server/internal/front"
	"github.com/sluicegate/sluice/server/internal/front/rls/ratelimit"
)

// TestHits: hits are near a limit from 80 % of it on, and over it above it.
func TestHits(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		limit       uint32
		before, hit int64
		shadow      bool
		want        string // total, over, near, over with local cache, within, shadow
	}{
		{5, 2, 5, false, "5 2 1 0 0 0"},
		{15, 10, 1, false, "1 0 0 0 1 0"},
		{15, 12, 1, false, "1 0 1 0 1 0"},
		{15, 15, 1, false, "1 1 0 0 0 0"},
		{15, 10, 4, false, "4 0 2 0 4 0"},
		{10, 9, 3, true, "3 2 1 0 0 2"},
		{10, 12, 3, true, "3 3 0 0 0 3"},
		{0, 0, 1, false, "1 1 0 0 0 0"},
		{10, 9, 0, false, "0 0 0 0 0 0"},
	} {
		var h hits
		h.count(&descriptor{hits: tc.hit, standing: standing{after: tc.before + tc.hit}, limit: &limit{Limit: &ratelimit.Limit{PerUnit: tc.limit, Shadow: tc.shadow}}})
		got := ""
		for i := range h {
			got += fmt.Sprint(" ", h[i].Load())
		}
		if got[1:] != tc.want {
			t.Errorf("%+v: %s", tc, got)
		}
	}
}

// TestTakenHits: hits that a take denies are over the limit, all of them.
func TestTakenHits(t *testing.T) {
	t.Parallel()
	of := newLimit(&ratelimit.Limit{Path: "d.k", Limits: []sluice.Limit{sluice.MustParseLimit("10/min sliding-log")}}, false)
	for _, tc := range []struct {
		hit, left int64
		denied    bool
		want      string
	}{
		{3, 7, false, "3 0 0 0 3 0"},
		{5, 1, false, "5 0 1 0 5 0"},
		{1, 0, false, "1 0 1 0 1 0"},
		{3, 2, true, "3 3 0 0 0 0"},
		{0, 0, false, "0 0 0 0 0 0"},
	} {
		var h hits
		h.count(&descriptor{hits: tc.hit, standing: standing{taken: &sluice.Outcome{Allowed: !tc.denied, Remaining: tc.left}}, limit: of})
		got := ""
		for i := range h {
			got += fmt.Sprint(" ", h[i].Load())
		}
		if got[1:] != tc.want {
			t.Errorf("%+v: %s", tc, got)
		}
	}
}

// TestManyBrought: however many limits requests bring, there are few states and few statistics.
func TestManyBrought(t *testing.T) {
	t.Parallel()
	for _, together := range []bool{false, true} {
		var a active
		a.Snapshot = &front.Snapshot{Store: memstore.New(memstore.Options{MaxKeys: 1000}), Now: time.Now}
		a.statistics = new(Statistics)
		files, _, err := ratelimit.Parse([]ratelimit.File{{Name: "f", Data: []byte("domain: d")}}, false)
		if err != nil {
			t.Fatal(err)
		}
		a.limits = &limits{RLS: &config.RLS{EnvoyNames: true, Together: together}, files: files}
		for i := range mostSeries + 4096 {
			_, err := a.decide(t.Context(), &pb.RateLimitRequest{Domain: "d", Descriptors: []*commonpb.RateLimitDescriptor{{
				Entries: []*commonpb.RateLimitDescriptor_Entry{{Key: "k", Value: fmt.Sprint(i)}},
				Limit:   &commonpb.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: uint32(i), Unit: typepb.RateLimitUnit(1 + i%6)},
			}}}, "")
			if err != nil {
				t.Fatal(err)
			}
		}
		if n := a.statistics.series.Load(); n != mostSeries+1 {
			t.Errorf("together %v: %d series", together, n)
		}
		if got := a.Store.(*memstore.Store).Stats(); got.States > 1000 {
			t.Errorf("together %v: %d states", together, got.States)
		}
	}
}

// TestSeries: the first three levels of a path are labels, and there are no more than a number
// of series.
func TestSeries(t *testing.T) {
	t.Parallel()
	var s Statistics
	for _, path := range []string{"d.k_v", "d.k_v.sub.more", "d.k_v.sub", "d.ip_10.0.0.1", "d.a:b|c", "d." + strings.Repeat("ä", 9000)} {
		s.of(path)[totalHits].Add(1)
	}
	for i := range mostSeries {
		s.of(fmt.Sprint("d.", i))[totalHits].Add(1)
	}
	got := make(map[labels]int64)
	s.Each(func(name string, value int64, l ...string) {
		if name == "rate_limit_total_hits" {
			got[labels{l[0], l[1], l[2]}] += value
		}
	})
	for l, want := range map[labels]int64{{"d", "k_v", ""}: 1, {"d", "k_v", "sub"}: 2, {"d", "ip_10_0_0_1", ""}: 1, {"d", "a_b_c", ""}: 1, {"d", strings.Repeat("ä", mostPath/2-1), ""}: 1, {domain: "other"}: 5} {
		if got[l] != want {
			t.Errorf("%v: %d, want %d", l, got[l], want)
		}
	}
	if len(got) != mostSeries+1 {
		t.Errorf("%d series", len(got))
	}
}
