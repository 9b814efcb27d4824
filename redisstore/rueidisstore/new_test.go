// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package rueidisstore_test

import (
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	_ "time/tzdata" // zones of calendar windows

	"github.com/redis/rueidis"

	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/redisstore"
	"github.com/sluicegate/sluice/redisstore/redisurl"
	"github.com/sluicegate/sluice/redisstore/rueidisstore"
	"github.com/sluicegate/sluice/storetest"
)

// connect returns a client of the servers that a URL names, closed when the test ends. It waits
// for a busy machine. change may be nil.
func connect(t *testing.T, at string, change func(*rueidis.ClientOption)) rueidis.Client {
	t.Helper()
	u, err := redisurl.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	option, err := rueidisstore.ClientOption(u)
	if err != nil {
		t.Fatal(err)
	}
	option.ConnWriteTimeout, option.Dialer.Timeout, option.Dialer.KeepAlive = testkit.Ceiling, testkit.Ceiling, testkit.Ceiling
	if change != nil {
		change(&option)
	}
	var client rueidis.Client
	testkit.Until(t, at+" to accept connections", func() bool {
		client, err = rueidis.NewClient(option)
		return err == nil
	})
	t.Cleanup(client.Close)
	return client
}

// newStore returns a Store over a client, closed when the test ends.
func newStore(t *testing.T, client rueidis.Client) *redisstore.Store {
	t.Helper()
	s, err := rueidisstore.New(client, redisstore.Options{Timeout: testkit.Ceiling})
	if err != nil {
		t.Fatal(err)
	}
	return testkit.Closed(t, s)
}

// sentinelURL returns the URL of the master that sentinels watch.
func sentinelURL(s *redistest.Sentinel) string {
	var hosts []string
	for _, n := range s.Sentinels {
		hosts = append(hosts, n.Addr)
	}
	return "redis-sentinel://" + strings.Join(hosts, ",") + "/" + redistest.MasterSet
}

// conform runs the suite on an empty store under a prefix of its own for each part.
func conform(t *testing.T, at string, options redisstore.Options, servers ...*redistest.Server) {
	t.Helper()
	client := connect(t, at, nil)
	storetest.Test(t, func(t *testing.T, _ func() time.Time) storetest.Harness {
		options.Prefix, options.Timeout = t.Name(), testkit.Ceiling // other tests keep the machine busy
		s, err := rueidisstore.New(client, options)
		if err != nil {
			t.Fatal(err)
		}
		testkit.Closed(t, s)
		h := storetest.Harness{Store: s, Slots: s, OwnClock: true, Steps: testkit.Steps(1000, 3000), Stall: func(t *testing.T) func() {
			t.Helper()
			return redistest.HoldUp(t, servers...)
		}}
		if len(servers) > 1 {
			h.Together = 500 * time.Millisecond // beyond that each server may decide at an instant of its own
		}
		return h
	})
}

func TestConformance(t *testing.T) {
	for _, b := range redistest.Binaries(t) {
		t.Run(b.Name, func(t *testing.T) {
			t.Run("single", func(t *testing.T) {
				t.Parallel()
				server := redistest.Start(t, b)
				conform(t, "redis://"+server.Addr, redisstore.Options{}, server)
			})
			t.Run("cluster", func(t *testing.T) {
				testkit.Long(t)
				t.Parallel()
				cluster := redistest.StartCluster(t, b, 3, false)
				conform(t, cluster.URL(), redisstore.Options{Secret: []byte("a secret of sixteen")}, cluster.Masters...)
			})
		})
	}
}

// shareSecret checks that Stores that ask for a secret at the same time share it.
func shareSecret(t *testing.T, at string) {
	t.Helper()
	const racers = 4
	var race sync.WaitGroup
	secrets := make([][32]byte, racers)
	for i := range secrets {
		s := newStore(t, connect(t, at, nil))
		race.Go(func() {
			var err error
			if secrets[i], err = s.HashSecret(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	race.Wait()
	for _, other := range secrets {
		if other != secrets[0] || other == [32]byte{} {
			t.Error("stores that share all have several secrets, or none")
		}
	}
}

// TestNothingIsSentTwice: a request whose reply is lost may have been decided, so it is not
// sent again.
func TestNothingIsSentTwice(t *testing.T) {
	for _, retry := range []bool{false, true} {
		server := redistest.Start(t, redistest.Redis(t))
		proxy := redistest.StartProxy(t, server.Addr)
		s := newStore(t, connect(t, "redis://"+proxy.Addr, func(o *rueidis.ClientOption) { o.DisableRetry = !retry }))
		direct := newStore(t, connect(t, "redis://"+server.Addr, nil))
		for _, text := range []string{"1000/day", "1000/day sliding-log", "1000/366day sliding-counter"} {
			l, look := testkit.Limiter(t, s, "scope", text), testkit.Limiter(t, direct, "scope", text)
			if _, err := l.Take(t.Context(), "k", 1); err != nil {
				t.Fatal(err)
			}
			proxy.CutNext()
			if _, err := l.Take(t.Context(), "k", 10); err == nil {
				t.Errorf("%s: got no error though the reply was lost", text)
			}
			if proxy.CutWaits() {
				t.Fatal("no script was sent")
			}
			if d, err := look.Peek(t.Context(), "k", 1); err != nil || d.Remaining != 1000-1-10 {
				t.Errorf("%s with the client's retries %t: got %+v, %v, want 989 remaining", text, retry, d, err)
			}
		}
	}
}

// TestSentinelAndTLS covers the ways to connect that tests of a single server do not.
func TestSentinelAndTLS(t *testing.T) {
	for _, b := range redistest.Binaries(t) {
		for name, start := range map[string]func() (url string){
			"sentinel": func() string { return sentinelURL(redistest.StartSentinel(t, b)) },
			"TLS": func() string {
				server := redistest.StartTLS(t, b)
				return "rediss://" + url.UserPassword(redistest.User, redistest.Password).String() + "@" + server.Addr +
					"?ca_file=" + filepath.Join(server.Dir, "cert.pem")
			},
		} {
			t.Run(b.Name+" "+name, func(t *testing.T) {
				at := start()
				if name == "sentinel" { // the other user has no permission for it
					shareSecret(t, at)
				}
				s := newStore(t, connect(t, at, nil))
				for _, text := range []string{"2/day", "2/day sliding-log", "2/366day sliding-counter", "2/day sliding-histogram", "2/year calendar UTC"} {
					l := testkit.Limiter(t, s, "scope", text)
					for i, want := range []bool{true, true, false} {
						if d, err := l.Take(t.Context(), "k", 1); err != nil || d.Allowed != want {
							t.Errorf("%s: take %d: got %+v, %v, want allowed %t", text, i+1, d, err, want)
						}
					}
				}
			})
		}
	}
}
