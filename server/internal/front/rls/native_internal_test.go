// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package rls

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	commonpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/server/internal/front"
)

// meeting is a store that answers once so many calls wait for it.
type meeting struct {
	sluice.Store
	calls sync.WaitGroup
}

func (m *meeting) Take(ctx context.Context, q sluice.Request) (sluice.Decision, error) {
	m.calls.Done()
	met := make(chan struct{})
	go func() { m.calls.Wait(); close(met) }()
	select {
	case <-met:
		return m.Store.Take(ctx, q)
	case <-ctx.Done():
		return sluice.Decision{}, ctx.Err()
	}
}

// TestAtOnce: the rules decide the descriptors of a request at the same time where the store is
// shared, and at the same time as the files do.
func TestAtOnce(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "limits.yaml")
	if err := os.WriteFile(name, []byte("domain: d\ndescriptors: [{key: k, value: a, rate_limit: {unit: hour, requests_per_unit: 9}}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Parse("f", []byte("listen: {address: 127.0.0.1:1, serve: rls, rls: {files: "+name+"}}\nstore: {redis: {url: \"redis://127.0.0.1\"}}\nrules: [{name: r, match: {descriptor: {k: \"*\"}}, by: descriptor.k, failure: closed, limits: 1/hour}]"))
	if err != nil {
		t.Fatal(err)
	}
	store := &meeting{Store: memstore.New(memstore.Options{})}
	store.calls.Add(4) // three of the rule, and one of the files
	s := &front.Snapshot{Config: c, Listener: &c.Listen[0], Policy: c.PolicyOf(&c.Listen[0]), Store: store, Now: time.Now, OnError: func(_ context.Context, err error) { t.Error(err) }}
	a := &active{Snapshot: s, statistics: new(Statistics)}
	if a.limits, err = newLimits(&s.Listener.RLS); err != nil {
		t.Fatal(err)
	}
	if a.rules, err = newRules(s); err != nil {
		t.Fatal(err)
	}
	q := &pb.RateLimitRequest{Domain: "d"}
	for _, value := range []string{"a", "b", "c"} {
		q.Descriptors = append(q.Descriptors, &commonpb.RateLimitDescriptor{Entries: []*commonpb.RateLimitDescriptor_Entry{{Key: "k", Value: value}}})
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if got, err := a.decide(ctx, q, ""); err != nil || got.GetOverallCode() != pb.RateLimitResponse_OK {
		t.Errorf("%v, %v", got, err)
	}
}
