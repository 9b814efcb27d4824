// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/redisstore/redisurl"
	"github.com/sluicegate/sluice/redisstore/rueidisstore"
)

// plainCopy is a copy of records that one goroutine uses.
type plainCopy map[string]Record

// unpolled returns Records on a connection that does not poll.
func unpolled(t *testing.T, url, id string, have plainCopy) *Records {
	t.Helper()
	target, err := redisurl.Parse(url)
	if err != nil {
		t.Fatal(err)
	}
	option, err := rueidisstore.ClientOption(target)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := rueidisstore.Secret(target)
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(Options{Target: target, Client: option, Secret: secret, Connect: rueidisstore.Connect, Node: Node{ID: id, Name: id}, Timeout: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	r := NewRecords(c, Copy{
		NameOf: func(body []byte) (string, error) {
			name, _, ok := strings.Cut(string(body), "=")
			if !ok {
				return "", errors.New("no name")
			}
			return name, nil
		},
		Get: func(name string) Record { return have[name] },
		Versions: func() map[string]Version {
			all := make(map[string]Version)
			for name, record := range have {
				all[name] = record.Version
			}
			return all
		},
		Learn: func(records []Record) {
			for _, record := range records {
				if record.Version > have[record.Name].Version {
					have[record.Name] = record
				}
			}
		},
		Drop: func(names []string) {
			for _, name := range names {
				delete(have, name)
			}
		},
		Expired: func(time.Time) []string { return nil },
		Heard:   func(Entry) {}, Missed: func() {},
		PutBack: func(n int) []byte { return fmt.Appendf(nil, "put back %d", n) },
	})
	if err := c.connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.failure.Store(&failure{nil})
	t.Cleanup(c.close)
	catchUp(t, r)
	return r
}

func catchUp(t *testing.T, r *Records) {
	t.Helper()
	if err := r.catchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func change(ctx context.Context, t *testing.T, r *Records, was Version, value string) Version {
	t.Helper()
	var body []byte
	if value != "" {
		body = []byte("k=" + value)
	}
	v, err := r.Change(ctx, "k", was, body, []byte("now "+value))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestRemovedBetween: a removal between the reading of the log and that of the records stays.
func TestRemovedBetween(t *testing.T) {
	url := "redis://" + redistest.Start(t, redistest.Redis(t)).Addr
	here, there := plainCopy{}, plainCopy{}
	a, b := unpolled(t, url, "A", here), unpolled(t, url, "B", there)
	v := change(t.Context(), t, a, 0, "1")
	catchUp(t, b)
	log, err := b.since(t.Context(), b.revision(), MostEntries)
	if err != nil {
		t.Fatal(err)
	}
	change(t.Context(), t, a, v, "")
	if err := b.compare(t.Context(), log, true); !errors.Is(err, errChanged) {
		t.Errorf("compare: got %v, want %v", err, errChanged)
	}
	catchUp(t, b)
	catchUp(t, a)
	if len(here)+len(there) > 0 {
		t.Errorf("the record is back: %v, %v", here, there)
	}
}

// TestChangedBetween: a change of a node while it follows the log of the record's removal stays
// active there.
func TestChangedBetween(t *testing.T) {
	url := "redis://" + redistest.Start(t, redistest.Redis(t)).Addr
	here := plainCopy{}
	a, b := unpolled(t, url, "A", here), unpolled(t, url, "B", plainCopy{})
	change(t.Context(), t, b, change(t.Context(), t, b, 0, "1"), "")
	versions, changed := a.copy.Versions, false
	a.copy.Versions = func() map[string]Version { // between the reading and the removal
		if !changed {
			changed = true
			change(t.Context(), t, a, 0, "2")
		}
		return versions()
	}
	catchUp(t, a)
	if string(here["k"].Body) != "k=2" {
		t.Errorf("the node that changed it has %v", here)
	}
}
