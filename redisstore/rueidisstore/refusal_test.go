// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package rueidisstore_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/redisstore"
	"github.com/sluicegate/sluice/redisstore/redisurl"
	"github.com/sluicegate/sluice/redisstore/rueidisstore"
)

// TestWhoRefuses: the error of a wrong password names the sentinel or the master that refused
// it, and where to put the right one.
func TestWhoRefuses(t *testing.T) {
	master, sentinel := redistest.StartTLSSentinel(t, redistest.Redis(t))
	right, wrong := write(t, redistest.Password), write(t, "another")
	for _, c := range []struct {
		name, user, password, sentinelPassword string
		want                                   []string
	}{
		{"sentinel", redistest.User, right, wrong, []string{"sentinel " + sentinel.Addr + " refuses", "WRONGPASS", "sentinel_password_file"}},
		{"master", redistest.User, wrong, right, []string{"the master, as the sentinels name it, refuses", "WRONGPASS", redisurl.PasswordVariable}},
		{"both", redistest.User, wrong, wrong, []string{"sentinel " + sentinel.Addr + " refuses", "WRONGPASS"}},
		{"master's user", "nobody", right, right, []string{"the master, as the sentinels name it, refuses", "WRONGPASS"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			url := fmt.Sprintf("rediss-sentinel://%s@%s/%s?ca_file=%s&password_file=%s&sentinel_user=%s&sentinel_password_file=%s",
				c.user, sentinel.Addr, redistest.MasterSet, filepath.Join(master.Dir, "cert.pem"), c.password, redistest.User, c.sentinelPassword)
			var err error
			testkit.Until(t, "an answer", func() bool { // on a busy machine it may take longer than Open waits
				var store *rueidisstore.Store
				if store, err = rueidisstore.Open(t.Context(), url, redisstore.Options{}); err == nil {
					_ = store.Close() // it should not have opened
				}
				return err != nil
			})
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %q, want %q", err, want)
				}
			}
			if rueidisstore.Temporary(err) || strings.Contains(err.Error(), "another") {
				t.Errorf("%q passes by itself or reports the password", err)
			}
		})
	}
}
