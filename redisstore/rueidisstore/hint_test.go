// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package rueidisstore_test

import (
	"strings"
	"testing"

	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/redisstore"
	"github.com/sluicegate/sluice/redisstore/rueidisstore"
)

// TestTLSAtTheWrongPort: the error says how to change the URL.
func TestTLSAtTheWrongPort(t *testing.T) {
	b := redistest.Redis(t)
	plain, secure := redistest.Start(t, b).Addr, redistest.StartTLS(t, b).Addr
	for _, c := range []struct{ url, want string }{
		{"rediss://" + plain, "if the server speaks no TLS at this port, begin the URL with redis://"},
		{"rediss-cluster://" + plain, "begin the URL with redis-cluster://"},
		{"rediss-sentinel://" + plain + "/m", "begin the URL with redis-sentinel://"},
		{"redis://" + secure, "if the server speaks TLS at this port, begin the URL with rediss://"},
		{"redis-cluster://" + secure, "begin the URL with rediss-cluster://"},
		{"redis-sentinel://" + secure + "/m", "begin the URL with rediss-sentinel://"},
		{"rediss://" + secure, "by ca_file"},
	} {
		scheme, _, _ := strings.Cut(c.url, ":")
		t.Run(scheme, func(t *testing.T) {
			store, err := rueidisstore.Open(t.Context(), c.url, redisstore.Options{})
			if err == nil {
				testkit.Closed(t, store)
				testkit.Until(t, "an error that says "+c.want, func() bool {
					err = store.Err()
					return err != nil && strings.Contains(err.Error(), c.want)
				})
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}
