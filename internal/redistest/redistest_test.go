// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redistest_test

import (
	"testing"

	"github.com/redis/rueidis"

	"github.com/sluicegate/sluice/internal/redistest"
)

// write sets and reads a key, to see that a client reaches a server.
func write(t *testing.T, client rueidis.Client) {
	t.Helper()
	if err := client.Do(t.Context(), client.B().Set().Key("sluice").Value("1").Build()).Error(); err != nil {
		t.Fatal(err)
	}
	if got, err := client.Do(t.Context(), client.B().Get().Key("sluice").Build()).ToString(); err != nil || got != "1" {
		t.Fatalf("got %q, %v, want 1", got, err)
	}
}

func TestServersStart(t *testing.T) {
	for _, b := range redistest.Binaries(t) {
		t.Run(b.Name, func(t *testing.T) {
			t.Run("single", func(t *testing.T) {
				s := redistest.Start(t, b)
				write(t, s.Client(t))
				s.Kill(t)
				s.Run(t)
				write(t, s.Client(t))
			})
			t.Run("cluster", func(t *testing.T) {
				c := redistest.StartCluster(t, b, 3, true)
				write(t, c.Client(t))
				for _, s := range c.Replicas {
					client := s.Client(t)
					role, err := client.Do(t.Context(), client.B().Role().Build()).ToArray()
					if err != nil {
						t.Fatal(err)
					}
					if got, err := role[0].ToString(); err != nil || got != "slave" {
						t.Errorf("got %q, %v, want a replica", got, err)
					}
				}
			})
			t.Run("sentinel", func(t *testing.T) {
				write(t, redistest.Connect(t, redistest.StartSentinel(t, b).Option()))
			})
			t.Run("TLS", func(t *testing.T) {
				s := redistest.StartTLS(t, b)
				write(t, s.Client(t))
				o := s.Option()
				o.Password = "wrong"
				if client, err := rueidis.NewClient(o); err == nil {
					client.Close()
					t.Error("a wrong password was let in")
				}
			})
		})
	}
}
