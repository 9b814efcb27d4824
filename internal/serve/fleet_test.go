// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/server/admin"
)

const fleetRules = "rules: [{name: api, by: header.X-User, limits: 3/h sliding-log}]\n"

// node starts a node on a store; the sample app stands for the service.
func node(t *testing.T, url string, more ...func(*Options)) *running {
	t.Helper()
	return start(t, fmt.Sprintf("store: {redis: {url: %q}}\n", url)+fleetRules, more...)
}

func nodes(t *testing.T, url string, n int) []*running {
	t.Helper()
	all := make([]*running, n)
	for i := range all {
		all[i] = node(t, url)
	}
	return all
}

// tell asks a node for a change of user ada's override, and returns its answer.
func (r *running) tell(t *testing.T, method, more string) (answer, admin.OverrideDone) {
	t.Helper()
	a := r.ask(t, method, "/v1/override", `{"rule": "api", "parts": {"header.X-User": "ada"}, "reason": "ticket", "author": "ops"`+more+"}")
	var done admin.OverrideDone
	if a.status == http.StatusOK {
		if err := json.Unmarshal([]byte(a.body), &done); err != nil {
			t.Fatal(err)
		}
	}
	return a, done
}

// mustTell tells a node as soon as it is connected.
func (r *running) mustTell(t *testing.T, method, more string) (done admin.OverrideDone) {
	t.Helper()
	var a answer
	until(t, "a connection", func() bool {
		a, done = r.tell(t, method, more)
		return a.status != http.StatusServiceUnavailable || !strings.Contains(a.body, "there is no connection yet")
	})
	if a.status != http.StatusOK {
		t.Fatalf("%s: %d %s", method, a.status, a.body)
	}
	return done
}

// full returns how many units ada's key has when it is unused, by the node's rules; 0
// while the store does not answer.
func (r *running) full(t *testing.T) int64 {
	t.Helper()
	a := r.ask(t, http.MethodGet, "/v1/key?rule=api&header.X-User=ada", "")
	var states admin.KeyStates
	if err := json.Unmarshal([]byte(a.body), &states); err != nil {
		t.Fatal(err)
	}
	if a.status != http.StatusOK {
		return 0
	}
	return states.Keys[0].Limits[0].Full
}

// allFull waits until ada has n units on all nodes, and logs how long that took.
func allFull(t *testing.T, n int64, all ...*running) {
	t.Helper()
	begin := time.Now()
	for i, r := range all {
		until(t, fmt.Sprintf("%d units on node %d", n, i+1), func() bool { return r.full(t) == n })
	}
	t.Logf("%d units on all nodes after %v", n, time.Since(begin))
}

// TestFleetOverride: what one node is told holds on all, and after a restart of all; an
// operator who has not seen another's change is told of it; and any node lists who
// changed what.
func TestFleetOverride(t *testing.T) {
	redis := redistest.Start(t, redistest.Redis(t))
	url := redis.URL()
	all := nodes(t, url, 3)
	first := all[0].mustTell(t, http.MethodPut, `, "limits": ["100/h"]`)
	if first.ThisNodeOnly || first.Version == "" || first.Replaced != nil || first.Key.Limits[0].Full != 100 {
		t.Errorf("answer %+v", first)
	}
	allFull(t, 100, all...)
	second := all[1].mustTell(t, http.MethodPut, `, "limits": ["200/h"], "version": "`+first.Version+`"`)
	if second.Replaced == nil || second.Replaced.Limits[0] != "100/hour sliding-log" {
		t.Errorf("it replaced %+v", second.Replaced)
	}
	a, _ := all[2].tell(t, http.MethodPut, `, "limits": ["300/h"], "version": "`+first.Version+`"`)
	if a.status != http.StatusConflict || !strings.Contains(a.body, "as ops gave this key [200/hour sliding-log] at ") || !strings.Contains(a.body, `"version": "`+second.Version) {
		t.Errorf("a change by who has not seen another: %d %s", a.status, a.body)
	}
	allFull(t, 200, all...)
	for i, r := range all {
		var list admin.Audit
		until(t, "three entries", func() bool {
			a := r.ask(t, http.MethodGet, "/v1/audit?n=3", "")
			if err := json.Unmarshal([]byte(a.body), &list); err != nil || a.status != http.StatusOK {
				t.Fatalf("audit: %d %s, %v", a.status, a.body, err)
			}
			return len(list.Entries) == 3 && list.Entries[0].Error != ""
		})
		if e := list.Entries[2]; list.ThisNodeOnly || e.Action != "override" || e.Author != "ops" || e.Node != hostName() || e.NodeID == "" || e.NodeID == list.Entries[1].NodeID {
			t.Errorf("node %d lists %+v", i+1, list)
		}
	}
	for _, r := range all {
		r.end(t)
	}
	all = nodes(t, url, 2)
	allFull(t, 200, all...)
	all[1].mustTell(t, http.MethodDelete, "")
	allFull(t, 3, all...)
}

// TestFleetOutage: while a node cannot reach the store it goes on with what it has,
// refuses what is for all nodes, and takes what is for itself; then it learns what the
// others did, and brings nothing back that they removed.
func TestFleetOutage(t *testing.T) {
	redis := redistest.Start(t, redistest.Redis(t))
	client := redis.Client(t)
	network := redistest.StartProxy(t, redis.Addr)
	file := filepath.Join(t.TempDir(), "overrides.json")
	a, b := node(t, redis.URL()), node(t, "redis://"+network.Addr+"?timeout=50ms", func(o *Options) { o.Overrides = file })
	b.mustTell(t, http.MethodPut, `, "limits": ["100/h"]`)
	allFull(t, 100, a, b)

	network.Set(redistest.Swallowing)
	until(t, "the node to say that it is alone", func() bool {
		return strings.Contains(fetch(t, http.DefaultClient, b.admin+"/readyz").body, "overrides: as this node has them")
	})
	got, _ := b.tell(t, http.MethodPut, `, "limits": ["7/h"]`)
	if got.status != http.StatusServiceUnavailable || !strings.Contains(got.body, "--this-node") {
		t.Errorf("a change for all: %d %s", got.status, got.body)
	}
	list := func() (s admin.Status) {
		a := b.ask(t, http.MethodGet, "/policy", "")
		if err := json.Unmarshal([]byte(a.body), &s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	if s := list(); !s.Unconfirmed || len(s.Overrides) != 1 || s.Overrides[0].Limits[0] != "100/hour sliding-log" || s.Overrides[0].ThisNodeOnly {
		t.Errorf("in the outage: %+v", s.Overrides)
	}
	if got, _ := b.tell(t, http.MethodPut, `, "limits": ["7/h"], "this_node": true`); got.status != http.StatusOK || !strings.Contains(got.body, `"this_node_only": true`) {
		t.Errorf("a change for this node: %d %s", got.status, got.body)
	}
	if s := list(); len(s.Overrides) != 1 || s.Overrides[0].Limits[0] != "7/hour sliding-log" || !s.Overrides[0].ThisNodeOnly {
		t.Errorf("with a change for this node: %+v", s.Overrides)
	}
	// Nothing changed for the key elsewhere: the node's own holds on, also over a restart.
	network.Set(redistest.Faithful)
	allFull(t, 7, b)
	b.end(t)
	b = node(t, "redis://"+network.Addr+"?timeout=50ms", func(o *Options) { o.Overrides = file })
	allFull(t, 7, b)
	allFull(t, 100, a)

	// What was removed while a node could not ask does not come back with it, not even
	// into an empty store.
	network.Set(redistest.Swallowing)
	until(t, "the node to be alone", func() bool { return list().Unconfirmed })
	a.mustTell(t, http.MethodDelete, "")
	if err := client.Do(t.Context(), client.B().Flushall().Build()).Error(); err != nil {
		t.Fatal(err)
	}
	network.Set(redistest.Faithful)
	allFull(t, 3, a, b)
	b.end(t)
	b = node(t, "redis://"+network.Addr+"?timeout=50ms", func(o *Options) { o.Overrides = file })
	allFull(t, 3, a, b)
}

// TestFleetDissolved: a node whose store is in its memory by now has the overrides that
// it had, and can end them.
func TestFleetDissolved(t *testing.T) {
	file := filepath.Join(t.TempDir(), "overrides.json")
	kept := func(o *Options) { o.Overrides = file }
	r := node(t, redistest.Start(t, redistest.Redis(t)).URL(), kept)
	r.mustTell(t, http.MethodPut, `, "limits": ["100/h"]`)
	r.end(t)
	r = start(t, fleetRules, kept)
	allFull(t, 100, r)
	if done := r.mustTell(t, http.MethodDelete, ""); !done.ThisNodeOnly || done.Replaced == nil || done.Replaced.Version != "" {
		t.Errorf("answer %+v", done)
	}
	allFull(t, 3, r)
	r.end(t)
	allFull(t, 3, start(t, fleetRules, kept))
}

// TestFleetRestartedStore: a store that comes back empty, or fails over, is given what
// the nodes have.
func TestFleetRestartedStore(t *testing.T) {
	redis := redistest.Start(t, redistest.Redis(t))
	all := nodes(t, redis.URL(), 2)
	all[0].mustTell(t, http.MethodPut, `, "limits": ["100/h"]`)
	allFull(t, 100, all...)
	redis.Kill(t)
	redis.Run(t)
	client := redis.Client(t)
	until(t, "the override to be put back", func() bool {
		n, err := client.Do(t.Context(), client.B().Hlen().Key("sluice{fleet}!overrides").Build()).AsInt64()
		return err == nil && n == 2
	})
	allFull(t, 100, append(all, node(t, redis.URL()))...)
	// What the store evicts is put back, too.
	evict(t, client)
	allFull(t, 100, append(all, node(t, redis.URL()))...)
}

// evict fills the server until it forgets the overrides.
func evict(t *testing.T, client rueidis.Client) {
	t.Helper()
	do := func(words ...string) rueidis.RedisResult {
		res := client.Do(t.Context(), client.B().Arbitrary(words...).Build())
		if err := res.Error(); err != nil {
			t.Fatal(err)
		}
		return res
	}
	do("CONFIG", "SET", "maxmemory-policy", "allkeys-lru", "maxmemory", "4mb")
	junk := strings.Repeat("x", 4096)
	for i := range 100_000 {
		do("SET", fmt.Sprint("junk", i), junk)
		if n, err := do("EXISTS", "sluice{fleet}!overrides").AsInt64(); err == nil && n == 0 {
			t.Logf("evicted after %d keys", i)
			do("CONFIG", "SET", "maxmemory", "0")
			return
		}
	}
	t.Fatal("the server has not evicted the overrides")
}

// TestFleetFailover: over sentinels a change holds after the master is gone, and another
// one can be made.
func TestFleetFailover(t *testing.T) {
	s := redistest.StartSentinel(t, redistest.Redis(t))
	s.Hasten(t)
	all := nodes(t, fmt.Sprintf("redis-sentinel://%s,%s,%s/%s", s.Sentinels[0].Addr, s.Sentinels[1].Addr, s.Sentinels[2].Addr, redistest.MasterSet), 2)
	all[0].mustTell(t, http.MethodPut, `, "limits": ["100/h"]`)
	allFull(t, 100, all...)
	s.Master.Kill(t)
	until(t, "a change after the failover", func() bool {
		a, _ := all[1].tell(t, http.MethodPut, `, "limits": ["200/h"]`)
		return a.status == http.StatusOK
	})
	allFull(t, 200, all...)
}

// TestFleetReset: a reset on one node takes from the others the units that they have
// leased of the key, as these are in what is given anew.
func TestFleetReset(t *testing.T) {
	redis := redistest.Start(t, redistest.Redis(t))
	const rules = "rules: [{name: api, by: header.X-User, limits: 100/h sliding-log, lease: {units: 20, ttl: 30s}}]\n"
	yaml := fmt.Sprintf("store: {redis: {url: %q}}\n", redis.URL()) + rules
	a, b := start(t, yaml), start(t, yaml)
	take := func(r *running) int { return r.get(t, "/?userId=u", "X-User", "ada").status }
	for range 4 {
		if got := take(b); got != http.StatusOK {
			t.Fatalf("got %d", got)
		}
	}
	asked := b.ask(t, http.MethodPost, "/v1/key/reset", `{"rule": "unknown", "parts": {"header.X-User": "ada"}, "author": "ops"}`)
	if asked.status != http.StatusBadRequest {
		t.Errorf("a reset of no rule: %d", asked.status)
	}
	got := a.ask(t, http.MethodPost, "/v1/key/reset", `{"rule": "api", "parts": {"header.X-User": "ada"}, "author": "ops"}`)
	if got.status != http.StatusOK || !strings.Contains(got.body, `"this_node_only": false`) || strings.Contains(got.body, "not_told") {
		t.Fatalf("reset: %d %s", got.status, got.body)
	}
	heard := time.Now()
	until(t, "the other node to hear of it", func() bool {
		a := b.ask(t, http.MethodGet, "/v1/audit?n=1", "")
		return strings.Contains(a.body, `"reset"`) && time.Since(heard) > 2*time.Second
	})
	passed := 0
	for range 110 {
		if take(a) == http.StatusOK {
			passed++
		}
	}
	for range 30 {
		if take(b) == http.StatusOK {
			passed++
		}
	}
	if passed > 100 || passed < 60 { // some may be on lease, and unused
		t.Errorf("%d passed after the reset, want 100 at most", passed)
	}
}

// TestFleetConfigurations: an override that a node's rules have no use for is listed
// there as unused, and holds when the rules have it.
func TestFleetConfigurations(t *testing.T) {
	redis := redistest.Start(t, redistest.Redis(t))
	store := fmt.Sprintf("store: {redis: {url: %q}}\n", redis.URL())
	a := start(t, store+fleetRules)
	b := start(t, store+"rules: [{name: other, by: ip, limits: 3/h}]\n")
	a.mustTell(t, http.MethodPut, `, "limits": ["100/h"]`)
	until(t, "the other node to list it", func() bool {
		return strings.Contains(b.ask(t, http.MethodGet, "/policy", "").body, `"unused": "the configuration has no such rule or level"`)
	})
	if logs := b.logs.String(); !strings.Contains(logs, "an override is left out") {
		t.Errorf("the log does not say so:\n%s", logs)
	}
	b.changeTo(t, store+fleetRules)
	allFull(t, 100, a, b)
	b.mustTell(t, http.MethodDelete, "")
	allFull(t, 3, a, b)
}

// TestFleetOperatorsAtOnce: of changes at once on all nodes each is made or refused,
// and all nodes have one of those that were made.
func TestFleetOperatorsAtOnce(t *testing.T) {
	redis := redistest.Start(t, redistest.Redis(t))
	all := nodes(t, redis.URL(), 3)
	allFull(t, 3, all...)
	var mu sync.Mutex
	var made []int64
	var group sync.WaitGroup
	for i := range 12 {
		group.Go(func() {
			a, _ := all[i%3].tell(t, http.MethodPut, fmt.Sprintf(`, "limits": ["%d/h"]`, 100+i))
			mu.Lock()
			defer mu.Unlock()
			switch a.status {
			case http.StatusOK:
				made = append(made, int64(100+i))
			case http.StatusConflict:
			default:
				t.Errorf("%d %s", a.status, a.body)
			}
		})
	}
	group.Wait()
	until(t, "one of them on all nodes", func() bool {
		n := all[0].full(t)
		return slices.Contains(made, n) && all[1].full(t) == n && all[2].full(t) == n
	})
}
