// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package oracle compares the front with the service that it replaces, whose own code decides the
// same random requests under the same random files. It is a module of its own, as that service
// requires much that nothing else does.
//
// The version that can be had has no patterns with a star before their end, no metadata, no
// negative hits, and another quota_mode: the tests of the front have the vectors of these.
package oracle

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	commonpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typepb "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	theirs "github.com/envoyproxy/ratelimit/src/config"
	"github.com/envoyproxy/ratelimit/src/provider"
	"github.com/envoyproxy/ratelimit/src/redis"
	service "github.com/envoyproxy/ratelimit/src/service"
	"github.com/envoyproxy/ratelimit/src/settings"
	"github.com/envoyproxy/ratelimit/src/stats"
	gostats "github.com/lyft/gostats"
	"github.com/mediocregopher/radix/v4"
	"github.com/sirupsen/logrus"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/server/internal/front"
	"github.com/sluicegate/sluice/server/internal/front/rls"
	"github.com/sluicegate/sluice/server/internal/gateway"
	"github.com/sluicegate/sluice/server/internal/httpserver"
)

// clock is the clock of both.
type clock struct{ now int64 }

func (c *clock) UnixNow() int64 { return c.now }

// counts is Redis as the service uses it.
type counts map[string]uint64

// command is a command in a pipeline.
type command struct{ run func() }

func (command) Properties() radix.ActionProperties            { return radix.ActionProperties{} }
func (command) Perform(_ context.Context, _ radix.Conn) error { return nil }

func (c counts) PipeAppend(p redis.Pipeline, into any, name, key string, args ...any) redis.Pipeline {
	return append(p, redis.PipelineAction{Key: key, Action: command{func() {
		if name == "INCRBY" {
			c[key] += args[0].(uint64)
			*into.(*uint64) = c[key]
		}
	}}})
}

func (counts) PipeDo(p redis.Pipeline) error {
	for _, a := range p {
		a.Action.(command).run()
	}
	return nil
}

func (counts) DoCmd(any, string, string, ...any) error { return nil }
func (counts) Close() error                            { return nil }
func (counts) NumActiveConns() int                     { return 0 }

// sums are the statistics of the service, by name.
type sums map[string]uint64

func (s sums) FlushCounter(name string, value uint64) { s[name] += value }
func (sums) FlushGauge(string, uint64)                {}
func (sums) FlushTimer(string, float64)               {}

// byLabels returns the statistics of limits that are not 0, by the labels that they have in
// Prometheus: the first three levels of their names.
func (s sums) byLabels() sums {
	to := make(sums)
	for name, value := range s {
		rest, of := strings.CutPrefix(name, "ratelimit.service.rate_limit.")
		levels := strings.Split(rest, ".")
		last := len(levels) - 1
		if !of || value == 0 || levels[last] == "domain_not_found" {
			continue
		}
		to[strings.TrimRight(strings.Join(levels[:min(last, 3)], "."), ".")+" "+levels[last]] += value
	}
	return to
}

// update is a configuration of the service.
type update struct{ c theirs.RateLimitConfig }

func (u update) GetConfig() (theirs.RateLimitConfig, any) { return u.c, nil }

// updates is a provider of no configuration.
type updates chan provider.ConfigUpdateEvent

func (u updates) ConfigUpdateEvent() <-chan provider.ConfigUpdateEvent { return u }
func (updates) Stop()                                                  {}

// world draws files and requests.
type world struct {
	*rand.Rand
	b strings.Builder
}

func (w *world) one(of ...string) string { return of[w.IntN(len(of))] }
func (w *world) flag(name string, in int) {
	if w.IntN(in) == 0 {
		fmt.Fprintf(&w.b, ", %s: %s", name, w.one("true", "yes", "false"))
	}
}

// file draws a file.
func (w *world) file() string {
	w.b.Reset()
	w.b.WriteString("domain: d\ndescriptors:")
	w.descriptors(3)
	return w.b.String()
}

func (w *world) descriptors(deep int) {
	w.b.WriteString(" [")
	seen := make(map[string]bool)
	for range 1 + w.IntN(4) {
		key, value := w.one("a", "b", "c", "c", "a", "b", "a_x", "k*"), ""
		if key != "k*" && w.IntN(2) == 0 { // else the star is not at the end
			value = w.one("x", "y", "xy", "x*", "xy*", "*", "y*")
		}
		if seen[key+"_"+value] && w.IntN(30) > 0 {
			continue
		}
		seen[key+"_"+value] = true
		fmt.Fprintf(&w.b, "{key: %s, value: %q", key, value)
		for name, in := range map[string]int{"shadow_mode": 6, "detailed_metric": 6, "value_to_metric": 6} {
			w.flag(name, in)
		}
		if strings.Contains(key+value, "*") || w.IntN(60) == 0 {
			w.flag("share_threshold", 3)
		}
		switch w.IntN(60) / 5 {
		case 0:
			w.b.WriteString(", rate_limit: {unlimited: true")
			w.replaces()
			w.b.WriteString("}")
		case 1, 2:
		case 3:
			if w.IntN(5) > 0 {
				break
			}
			fmt.Fprintf(&w.b, ", rate_limit: {unit: %s, unlimited: %s, requests_per_unit: %s}", w.one("day", "eon", "", "unknown", "day"), w.one("true", "off"), w.one("1", "0x2", "-1", "x", "1.5", `"1"`, "1_0"))
		default:
			fmt.Fprintf(&w.b, ", rate_limit: {unit: %s, requests_per_unit: %d", w.one("second", "MINUTE", "Hour", "day", "week", "month", "year"), w.IntN(6))
			w.replaces()
			w.b.WriteString("}")
		}
		if deep > 1 && w.IntN(3) == 0 {
			w.b.WriteString(", descriptors:")
			w.descriptors(deep - 1)
		}
		w.b.WriteString("},")
	}
	w.b.WriteString("]")
}

func (w *world) replaces() {
	if w.IntN(3) == 0 {
		fmt.Fprintf(&w.b, ", name: %s", w.one("n", "m", "o"))
	}
	if w.IntN(8) == 0 {
		fmt.Fprintf(&w.b, ", replaces: [{name: %s}]", w.one("n", "m", "o"))
	}
}

// request draws a request.
func (w *world) request() *pb.RateLimitRequest {
	q := &pb.RateLimitRequest{Domain: w.one("d", "d", "d", "d", "d", "d", "d", "other", ""), HitsAddend: uint32(w.IntN(3))}
	for range w.IntN(5) {
		of := &commonpb.RateLimitDescriptor{}
		for range 1 + w.IntN(3) {
			of.Entries = append(of.Entries, &commonpb.RateLimitDescriptor_Entry{Key: w.one("a", "b", "c", "k"), Value: w.one("", "x", "y", "xy", "xyz", "z")})
		}
		if w.IntN(4) == 0 {
			of.HitsAddend = wrapperspb.UInt64(uint64(w.IntN(4)))
		}
		if w.IntN(12) == 0 {
			of.Limit = &commonpb.RateLimitDescriptor_RateLimitOverride{Unit: typepb.RateLimitUnit(1 + w.IntN(7)), RequestsPerUnit: uint32(w.IntN(6))}
		}
		q.Descriptors = append(q.Descriptors, of)
	}
	return q
}

// load has the service read a file. Its text is why it refuses the file.
func load(m stats.Manager, file string) (c theirs.RateLimitConfig, refused string) {
	defer func() {
		if why := recover(); why != nil {
			c, refused = nil, fmt.Sprint(why)
		}
	}()
	root := theirs.ConfigFileContentToYaml("f", file)
	return theirs.NewRateLimitConfigImpl([]theirs.RateLimitConfigToLoad{{Name: "f", ConfigYaml: root}}, m, false), ""
}

// TestOracle: both accept the same files, and answer the same requests alike.
func TestOracle(t *testing.T) {
	t.Setenv("LIMIT_RESPONSE_HEADERS_ENABLED", "true")
	logrus.SetOutput(io.Discard)
	files, requests := 1300, 100
	if testing.Short() {
		files = 100
	}
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	w, at := &world{Rand: rand.New(rand.NewPCG(uint64(seed), 0))}, &clock{}
	counted := make(sums)
	manager := stats.NewStatManager(gostats.NewStore(counted, false), settings.NewSettings())
	held := counts{}
	cache := redis.NewFixedRateLimitCacheImpl(held, nil, at, nil, 0, nil, 0.8, "", manager, false)
	reference := service.NewService(cache, updates(make(chan provider.ConfigUpdateEvent)), manager, nil, at, false, true, false)
	shared := new(rls.RLS)
	kind := shared.Kind(&httpserver.Bounds{Log: slog.New(slog.DiscardHandler), Lingering: gateway.NewLingering(10)})
	path := filepath.Join(t.TempDir(), "limits.yaml")
	l := &config.Listener{RLS: config.RLS{
		Files: []string{path}, EnvoyNames: true, Headers: true, LimitHeader: "RateLimit-Limit", RemainingHeader: "RateLimit-Remaining", ResetHeader: "RateLimit-Reset",
	}}
	ours, err := kind.New(l)
	if err != nil {
		t.Fatal(err)
	}
	now := func() time.Time { return time.Unix(at.now, 0) }
	accepted, asked, over := 0, 0, 0
	for range files {
		file := w.file()
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		at.now = 1_700_000_000 + w.Int64N(100_000_000)
		use, err := ours.Prepare(&front.Snapshot{
			Config: &config.Config{}, Listener: l, Store: memstore.New(memstore.Options{Now: now, MaxKeys: 10_000}), Now: now, OnError: func(context.Context, error) {},
		})
		c, refused := load(manager, file)
		if (err == nil) != (refused == "") {
			t.Fatalf("ours: %v\ntheirs: %s\n%s", err, refused, file)
		}
		if err != nil {
			// Theirs reports the first fault that it comes to, ours reports all.
			if said, _, _ := strings.Cut(strings.ReplaceAll(strings.TrimPrefix(refused, "f: "), "ending with", "containing"), ":"); !strings.Contains(said, "error loading") && !strings.Contains(err.Error(), said) {
				t.Fatalf("ours: %v\ntheirs: %s\n%s", err, refused, file)
			}
			continue
		}
		accepted++
		use()
		reference.SetConfig(update{c}, false)
		clear(held)
		for range requests {
			at.now = apart(at.now + int64(w.IntN(3))*int64(w.IntN(5000)))
			q := w.request()
			want, theirErr := reference.ShouldRateLimit(t.Context(), q)
			got, ourErr := ours.(pb.RateLimitServiceServer).ShouldRateLimit(t.Context(), q)
			if (theirErr == nil) != (ourErr == nil) || ourErr == nil && !proto.Equal(got, want) {
				t.Fatalf("ours: %v %v\ntheirs: %v %v\n%v\n%s", protojson.Format(got), ourErr, protojson.Format(want), theirErr, q, file)
			}
			asked++
			if got.GetOverallCode() == pb.RateLimitResponse_OVER_LIMIT {
				over++
			}
		}
	}
	manager.GetStatsStore().Flush()
	want, got := counted.byLabels(), make(sums)
	shared.Statistics.Each(func(name string, value int64, labels ...string) {
		if statistic, of := strings.CutPrefix(name, "rate_limit_"); of && value > 0 {
			got[strings.TrimRight(strings.Join(labels, "."), ".")+" "+statistic] = uint64(value)
		}
	})
	if !maps.Equal(got, want) || len(want) < 20 {
		t.Errorf("statistics\n%v\nwant\n%v", got, want)
	}
	t.Logf("%d of %d files accepted, %d requests, %d denied", accepted, files, asked, over)
}

// apart returns the first second from now on at which no two units have windows that began at
// the same second: their counters would have the same key in Redis.
func apart(now int64) int64 {
	units := []int64{1, 60, 3600, 86400, 604800, 2592000, 31536000}
	for i := 0; i < len(units); i++ {
		for _, short := range units[:i] {
			if now%short == now%units[i] {
				now, i = now-now%short+short, 0
				break
			}
		}
	}
	return now
}
