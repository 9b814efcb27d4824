// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/internal/testkit"
)

// TestUntrustedProxyFlood: a flood from many addresses causes one line an hour.
func TestUntrustedProxyFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := config.Parse("sluice.yaml", []byte("rules: [{name: api, by: ip, limits: 1/min}]"))
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		p, err := newProxies(c, slog.New(slog.NewTextHandler(&out, nil)), nil)
		if err != nil {
			t.Fatal(err)
		}
		flood := func() {
			for i := range 1000 {
				r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
				r.RemoteAddr = fmt.Sprintf("[2001:db8::%x]:1", i)
				r.Header.Set("X-Forwarded-For", "192.0.2.1")
				p.look(r)
			}
		}
		for range 10 {
			flood()
			time.Sleep(6 * time.Minute)
		}
		flood()
		if got := strings.Count(out.String(), "\n"); got != 2 {
			t.Errorf("got %d lines within an hour and at its end, want 2:\n%s", got, &out)
		}
		testkit.Contains(t, out.String(), "trusted: ['2001:db8::/128']")
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
		r.Header.Set("X-Forwarded-For", "192.0.2.1")
		if n := testing.AllocsPerRun(100, func() { p.look(r) }); n > 0 {
			t.Errorf("a request that is not reported allocates %v times", n)
		}
	})
}
