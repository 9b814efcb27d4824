// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/internal/wire"
	"github.com/sluicegate/sluice/server/internal/front"
)

// record returns the record of a request that has been decided.
func record(r *http.Request) *front.Record {
	of := new(wire.Attributes)
	of.Reset(r, netip.Addr{}, nil)
	rec := &front.Record{Request: of}
	rec.FromHTTP(r)
	return rec
}

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
				p.Record(t.Context(), record(r))
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
		rec := record(r)
		if n := testing.AllocsPerRun(100, func() { p.Record(t.Context(), rec) }); n > 0 {
			t.Errorf("a request that is not reported allocates %v times", n)
		}
	})
}
