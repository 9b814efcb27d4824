// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package docs_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/config/cases"
	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/redisstore"
	"github.com/sluicegate/sluice/redisstore/goredis"
)

// TestComingFrom: each file of coming-from.md decides as testdata/coming-from says of the other
// limiter. envoy.yaml is run by TestCommands.
func TestComingFrom(t *testing.T) {
	n := 0
	for name, text := range files(t, "coming-from.md") {
		if name == "nginx.conf" || name == "limits.yaml" || name == "envoy.yaml" {
			continue
		}
		n++
		t.Run(name, func(t *testing.T) { decides(t, name, text) })
	}
	if n != 5 {
		t.Errorf("%d files", n)
	}
}

// TestComingFromNginx: nginx.yaml decides as the conversion of nginx.conf.
func TestComingFromNginx(t *testing.T) {
	conf := filepath.Join(t.TempDir(), "nginx.conf")
	if err := os.WriteFile(conf, []byte(files(t, "coming-from.md")["nginx.conf"]), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), filepath.Join(build(t), "sluice"), "convert", "nginx", conf).Output()
	if err != nil {
		t.Fatal(err)
	}
	decides(t, "nginx.yaml", string(out))
}

// decides runs the cases of a file.
func decides(t *testing.T, name, text string) {
	t.Helper()
	c, err := config.Parse(name, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	data := "../tests/docs/testdata/coming-from/" + strings.TrimSuffix(name, ".yaml") + ".cases.yaml"
	results, err := cases.Run(t.Context(), c, data, []byte(read(t, data)), func(now func() time.Time) sluice.Store {
		return memstore.New(memstore.Options{Now: now})
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results.Cases {
		for _, f := range r.Failures {
			t.Errorf("%s: %v", r.Name, f)
		}
	}
}

func newLogin(client redis.UniversalClient) (*sluice.Limiter, error) {
	store, err := goredis.New(client, redisstore.Options{})
	if err != nil {
		return nil, err
	}
	return sluice.New(store, "login", sluice.PerHour(5))
}

func allowLogin(ctx context.Context, login *sluice.Limiter, user string) (bool, time.Duration, error) {
	d, err := login.Take(ctx, user, 1)
	return d.Allowed, d.RetryAfter, err
}

func limited(store sluice.Store, mux http.Handler) (http.Handler, error) {
	mw, err := httplimit.New(httplimit.Options{
		Store:  store, // memstore.New(memstore.Options{})
		Rules:  []policy.Rule{policy.NewRule("api", policy.IP(), sluice.MustParseLimit("100/min fixed-window anchor first"))},
		Fields: httplimit.XRateLimitEpoch,
	})
	if err != nil {
		return nil, err
	}
	return mw.Wrap(mux), nil
}

// TestComingFromRedisRate: five log-ins pass at once, and one more each twelve minutes.
func TestComingFromRedisRate(t *testing.T) {
	server := redistest.StartClocked(t, redistest.Redis(t), 0)
	client := redis.NewClient(&redis.Options{Addr: server.Addr})
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	login, err := newLogin(client)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(want bool) {
		t.Helper()
		allowed, wait, err := allowLogin(t.Context(), login, "ada")
		if err != nil || allowed != want || allowed != (wait == 0) || wait > 12*time.Minute {
			t.Errorf("got %t, %v, %v; want %t", allowed, wait, err, want)
		}
	}
	for range 5 {
		ask(true)
	}
	ask(false)
	server.SetAhead(t, 12*time.Minute)
	ask(true)
	ask(false)
}

// TestComingFromUlule: a hundred pass in the minute that the first request begins, and the
// fields say so.
func TestComingFromUlule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, err := limited(memstore.New(memstore.Options{}), http.NotFoundHandler())
		if err != nil {
			t.Fatal(err)
		}
		ask := func(status, left int, window time.Time) {
			t.Helper()
			r := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			got := fmt.Sprint(w.Code)
			for _, name := range []string{"Limit", "Remaining", "Reset"} {
				got += fmt.Sprint(" ", w.Header()["X-RateLimit-"+name])
			}
			if want := fmt.Sprintf("%d [100] [%d] [%d]", status, left, window.Add(time.Minute).Unix()); got != want {
				t.Fatalf("got %s, want %s", got, want)
			}
		}
		time.Sleep(30 * time.Second) // no window of the clock
		first := time.Now()
		for left := 99; left >= 0; left-- {
			ask(404, left, first)
		}
		ask(429, 0, first)
		time.Sleep(59 * time.Second)
		ask(429, 0, first)
		time.Sleep(time.Second)
		ask(404, 99, time.Now())
	})
}
