// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/fleet"
)

// member is a node whose records are texts "NAME=VALUE".
type member struct {
	*fleet.Records
	stop  func()
	ticks atomic.Int64

	mu     sync.Mutex
	have   map[string]fleet.Record
	heard  []string
	missed int
}

func nameOf(body []byte) (string, error) {
	name, _, ok := strings.Cut(string(body), "=")
	if !ok {
		return "", errors.New("no name")
	}
	return name, nil
}

// join starts a node that has a copy.
func join(t *testing.T, url, id string, have map[string]fleet.Record) *member {
	t.Helper()
	c := connect(t, url, id)
	m := &member{have: maps.Clone(have)}
	if m.have == nil {
		m.have = map[string]fleet.Record{}
	}
	m.Records = fleet.NewRecords(c, fleet.Copy{
		NameOf: nameOf,
		Get: func(name string) fleet.Record {
			m.mu.Lock()
			defer m.mu.Unlock()
			return m.have[name]
		},
		Versions: func() map[string]fleet.Version {
			m.mu.Lock()
			defer m.mu.Unlock()
			all := map[string]fleet.Version{}
			for name, r := range m.have {
				all[name] = r.Version
			}
			return all
		},
		Learn: func(all []fleet.Record) {
			m.mu.Lock()
			defer m.mu.Unlock()
			for _, r := range all {
				if r.Version > m.have[r.Name].Version {
					m.have[r.Name] = r
				}
			}
		},
		Drop: func(names []string) {
			m.mu.Lock()
			defer m.mu.Unlock()
			for _, name := range names {
				delete(m.have, name)
			}
		},
		Expired: func(time.Time) (names []string) {
			m.mu.Lock()
			defer m.mu.Unlock()
			for name, r := range m.have {
				if strings.HasSuffix(string(r.Body), "=expired") {
					names = append(names, name)
				}
			}
			return names
		},
		Heard: func(e fleet.Entry) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.heard = append(m.heard, string(e.Body))
		},
		Missed: func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.missed++
		},
		PutBack: func(n int) []byte { return fmt.Appendf(nil, "put back %d", n) },
	})
	c.Register(fleet.Part{Tick: func(context.Context, fleet.Tick) { m.ticks.Add(1) }})
	m.stop = run(t, c)
	testkit.Until(t, "the node to be as the store", m.Synced)
	return m
}

// set changes the record that m has.
func (m *member) set(t *testing.T, name, value string) error {
	t.Helper()
	return m.change(t, name, []byte(name+"="+value), name+" is "+value)
}

// remove removes the record that m has.
func (m *member) remove(t *testing.T, name string) error {
	t.Helper()
	return m.change(t, name, nil, name+" is gone")
}

func (m *member) change(t *testing.T, name string, body []byte, entry string) error {
	t.Helper()
	m.mu.Lock()
	was := m.have[name].Version
	m.mu.Unlock()
	_, err := m.Change(t.Context(), name, was, body, []byte(entry))
	return err
}

func (m *member) must(t *testing.T, name, value string) {
	t.Helper()
	if err := m.set(t, name, value); err != nil {
		t.Fatal(err)
	}
}

func (m *member) texts() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []string
	for _, r := range m.have {
		all = append(all, string(r.Body))
	}
	slices.Sort(all)
	return all
}

// agree waits until all have these records, and no others.
func agree(t *testing.T, want string, all ...*member) {
	t.Helper()
	for _, m := range all {
		testkit.Until(t, "records "+want, func() bool { return strings.Join(m.texts(), " ") == want && m.Synced() })
	}
}

func do(t *testing.T, client rueidis.Client, words ...string) rueidis.RedisResult {
	t.Helper()
	res := client.Do(t.Context(), client.B().Arbitrary(words...).Build())
	if err := res.Error(); err != nil && !rueidis.IsRedisNil(err) {
		t.Fatal(err)
	}
	return res
}

const (
	hash = "sluice{fleet}!overrides"
	list = "sluice{fleet}!log"
)

// dial returns a client of the server, closed when the test ends.
func dial(t testing.TB, server *redistest.Server) rueidis.Client {
	t.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr}, ForceSingleClient: true, DisableCache: true, DisableRetry: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// fresh starts a server and returns its URL, and a client.
func fresh(t *testing.T) (url string, client rueidis.Client) {
	t.Helper()
	t.Parallel()
	server := redistest.Start(t, redistest.Redis(t))
	return "redis://" + server.Addr, dial(t, server)
}
