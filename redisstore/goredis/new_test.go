// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package goredis_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/redisstore"
	"github.com/sluicegate/sluice/redisstore/goredis"
)

// TestRefusedClients: the error of New names the accepted clients, and the reason why it
// refuses a ring.
func TestRefusedClients(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Redis(t))
	ring := testkit.Closed(t, redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": server.Addr}}))
	for _, c := range []struct {
		name   string
		client redis.UniversalClient
		want   []string
	}{
		{"ring", ring, []string{"*redis.Ring", "start anew", "redis.NewClusterClient", "redis.NewFailoverClient"}},
		{"none", nil, []string{"<nil>", "*redis.Client"}},
		{"unknown", struct{ *redis.Client }{newSingle(server.Addr)}, []string{"struct", "*redis.ClusterClient"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := goredis.New(c.client, redisstore.Options{})
			if err == nil {
				t.Fatal("got no error")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want it to say %q", err, want)
				}
			}
		})
	}
	if _, err := goredis.New(testkit.Closed(t, newSingle("127.0.0.1:1")), redisstore.Options{}); err == nil {
		t.Error("got a store of no server")
	}
	if _, err := goredis.New(testkit.Closed(t, newSingle(server.Addr)), redisstore.Options{Timeout: -1}); err == nil || !strings.Contains(err.Error(), "Timeout") {
		t.Errorf("got %v, want the option that is wrong", err)
	}
}

// TestClientsThatReadFromReplicas: scripts go to masters, also over clients with the option to
// read from replicas.
func TestClientsThatReadFromReplicas(t *testing.T) {
	t.Parallel()
	binary := redistest.Redis(t)
	cluster := redistest.StartCluster(t, binary, 3, true)
	sentinel := redistest.StartSentinel(t, binary)
	ofCluster := func(change func(*redis.ClusterOptions)) redis.UniversalClient {
		o := clusterOptions(cluster)
		change(o)
		return redis.NewClusterClient(o)
	}
	failover := &redis.FailoverOptions{MasterName: redistest.MasterSet, RouteByLatency: true}
	for _, s := range sentinel.Sentinels {
		failover.SentinelAddrs = append(failover.SentinelAddrs, s.Addr)
	}
	for name, client := range map[string]redis.UniversalClient{
		"ReadOnly":              ofCluster(func(o *redis.ClusterOptions) { o.ReadOnly = true }),
		"RouteByLatency":        ofCluster(func(o *redis.ClusterOptions) { o.RouteByLatency = true }),
		"RouteRandomly":         ofCluster(func(o *redis.ClusterOptions) { o.RouteRandomly = true }),
		"FailoverClusterClient": redis.NewFailoverClusterClient(failover),
	} {
		t.Run(name, func(t *testing.T) {
			s := testkit.Closed(t, open(t, client, redisstore.Options{Prefix: name, Timeout: testkit.Ceiling}))
			l := testkit.Limiter(t, s, "scope", "20/day")
			for n := range 20 {
				for _, key := range []string{"a", "b", "c"} {
					if d, err := l.Take(t.Context(), key, 1); err != nil || !d.Allowed {
						t.Fatalf("take %d of %s: got %+v, %v, want allowed", n, key, d, err)
					}
				}
			}
			if d, err := l.Take(t.Context(), "a", 1); err != nil || d.Allowed {
				t.Errorf("got %+v, %v, want denied", d, err)
			}
		})
	}
}

// TestHooksSeeScripts: a client's hooks see the commands of the store, and may drop them;
// dropped requests return a NotSentError.
func TestHooksSeeScripts(t *testing.T) {
	t.Parallel()
	client := testkit.Closed(t, newSingle(redistest.Start(t, redistest.Redis(t)).Addr))
	s := testkit.Closed(t, newStore(t, client, redisstore.Options{Timeout: testkit.Ceiling}))
	h := &hook{}
	client.AddHook(h)
	l := testkit.Limiter(t, s, "scope", "20/day")
	if _, err := l.Take(t.Context(), "k", 1); err != nil {
		t.Fatal(err)
	}
	if len(h.seen) == 0 || !strings.HasPrefix(h.seen[0], "evalsha ") || !strings.Contains(h.seen[0], "{1scope/k}") {
		t.Errorf("the hook has seen %q, want EVALSHA with the key", h.seen)
	}
	h.keeps = true
	_, err := l.Take(t.Context(), "k", 1)
	if _, unsent := errors.AsType[*sluice.NotSentError](err); !unsent {
		t.Errorf("kept by the hook: got %v, want a %T", err, &sluice.NotSentError{})
	}
}

// hook records the commands, or drops them.
type hook struct {
	seen  []string
	keeps bool
}

func (*hook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		h.seen = append(h.seen, cmd.String())
		if h.keeps {
			return nil
		}
		return next(ctx, cmd)
	}
}

func (*hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
