// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package rueidisstore_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/redisstore"
	"github.com/sluicegate/sluice/redisstore/rueidisstore"
)

// TestTLSAndUser: sentinels and a Cluster over TLS, with a user that has exactly the rights in
// docs/operating.md.
func TestTLSAndUser(t *testing.T) {
	b := redistest.Redis(t)
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte(redistest.Password), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		url  func(t *testing.T) string
	}{
		{"cluster", func(t *testing.T) string {
			var hosts []string
			nodes := redistest.StartTLSCluster(t, b)
			for _, s := range nodes {
				hosts = append(hosts, s.Addr)
			}
			return fmt.Sprintf("rediss-cluster://%s@%s?ca_file=%s&password_file=%s",
				redistest.User, strings.Join(hosts, ","), filepath.Join(nodes[0].Dir, "cert.pem"), password)
		}},
		{"sentinel", func(t *testing.T) string {
			master, sentinel := redistest.StartTLSSentinel(t, b)
			return fmt.Sprintf("rediss-sentinel://%s@%s/%s?ca_file=%s&password_file=%s&sentinel_user=%[1]s&sentinel_password_file=%[5]s",
				redistest.User, sentinel.Addr, redistest.MasterSet, filepath.Join(master.Dir, "cert.pem"), password)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			store, err := rueidisstore.Open(t.Context(), c.url(t), redisstore.Options{Timeout: testkit.Ceiling})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := store.Close(); err != nil {
					t.Error(err)
				}
			}()
			plan := testkit.Compile(t, "scope", sluice.PerHour(2))
			key, decided := 0, 0
			testkit.Until(t, "decisions on 20 keys", func() bool {
				key++ // in slots of all masters
				for i, want := range []bool{true, true, false} {
					d, err := store.Take(t.Context(), sluice.Request{Charge: sluice.Charge{Plan: plan, Key: fmt.Sprint(key), Cost: 1}})
					if err != nil { // on a busy machine a request may exceed the client's timeout
						t.Log(err)
						return false
					}
					if d.Allowed != want {
						t.Errorf("take %d of key %d: allowed %v, want %v", i+1, key, d.Allowed, want)
					}
				}
				decided++
				return decided == 20
			})
			slots, err := sluice.NewSlots(store, "slots", sluice.SlotLimit{Cap: 1, TTL: sluice.MaxWindow})
			if err != nil {
				t.Fatal(err)
			}
			testkit.Until(t, "a slot", func() bool {
				d, err := slots.Acquire(t.Context(), "k", "ann", 1)
				if err != nil || !d.Allowed {
					t.Logf("slots: %+v, %v", d, err)
				}
				return err == nil && d.Allowed
			})
		})
	}
}
