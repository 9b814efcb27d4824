// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/redisurl"
	"github.com/sluicegate/sluice/internal/serve"
)

// Gateways that name one store share one budget, however its address was given.
func TestStoreIsShared(t *testing.T) {
	server := redistest.Start(t, redistest.Redis(t))
	passed, asked := 0, 0
	starts(t, nil, []string{"--store", server.URL(), "--limit", "10/min sliding-log"}, func(t *testing.T, r *running) {
		for range 15 {
			asked++
			if a := r.get(t, "/?userId=u"); a.status == http.StatusOK {
				passed++
			} else if a.status != http.StatusTooManyRequests {
				t.Errorf("status %d: %s", a.status, a.body)
			}
		}
		if want := min(asked, 10); passed != want {
			t.Errorf("%d of %d passed, want %d", passed, asked, want)
		}
		m := r.metrics(t)
		if up := m[`sluice_store_up{store="redis"}`]; up != 1 {
			t.Errorf("sluice_store_up is %v, want 1", up)
		}
		if _, held := m[`sluice_keys{store="memory"}`]; held {
			t.Error("sluice_keys is reported, though no key is held here")
		}
		until(t, "it to have what other nodes have", func() bool {
			a := ready(t, r)
			return a.status == http.StatusOK && strings.HasPrefix(a.body, "ready\nstore: up\nconfig: ")
		})
		if want := "  store  redis://" + server.Addr + "; while it is unavailable requests are let through\n"; !strings.Contains(r.banner, want) {
			t.Errorf("the banner %q lacks %q", r.banner, want)
		}
	})
}

// While the store is unavailable the policy decides, this is reported once, and afterwards
// all is as before.
func TestStoreOutage(t *testing.T) {
	const asked = 300
	for _, c := range []struct {
		policy string
		passed int // of those asked during the outage; the limit is 5, 4 of it spent
		status int // of the others
		ready  int
	}{
		{"open", asked, 0, http.StatusOK},
		{"local", 5, http.StatusTooManyRequests, http.StatusOK},
		{"closed", 0, http.StatusServiceUnavailable, http.StatusServiceUnavailable},
	} {
		t.Run(c.policy, func(t *testing.T) {
			server := redistest.Start(t, redistest.Redis(t))
			outer := t
			starts(t, nil, []string{"--store", server.URL(), "--failure", c.policy, "--limit", "5/h sliding-log"}, func(t *testing.T, r *running) {
				user := "/?userId=" + filepath.Base(t.Name())
				for range 4 {
					if a := r.get(t, user); a.status != http.StatusOK {
						t.Fatalf("status %d: %s", a.status, a.body)
					}
				}
				until(t, "it to have what other nodes have", func() bool { return !strings.Contains(ready(t, r).body, "overrides: ") })
				server.Kill(t)
				counts := make(map[int]int)
				for range asked {
					counts[r.get(t, user).status]++
				}
				if counts[http.StatusOK] != c.passed || counts[http.StatusOK]+counts[c.status] != asked {
					t.Errorf("statuses %v, want %d passed and the others %d", counts, c.passed, c.status)
				}
				until(t, "the store to be marked down", func() bool { return r.metrics(t)[`sluice_store_up{store="redis"}`] == 0 })
				if a := ready(t, r); a.status != c.ready || !strings.Contains(a.body, "store: down; ") {
					t.Errorf("readyz: %d %q, want %d", a.status, a.body, c.ready)
				}
				if got := r.metrics(t)[fmt.Sprintf("sluice_degraded_total{policy=%q,store=\"redis\"}", c.policy)]; got != asked {
					t.Errorf("%v decisions are reported to be degraded, want %d", got, asked)
				}
				if n := strings.Count(r.logs.String(), "level=WARN"); n > 2 {
					t.Errorf("%d lines were logged:\n%s", n, r.logs)
				}
				server.Run(outer)
				until(t, "the store to be back", func() bool { return r.metrics(t)[`sluice_store_up{store="redis"}`] == 1 })
				if a := ready(t, r); a.status != http.StatusOK || !strings.HasPrefix(a.body, "ready\nstore: up\n") {
					t.Errorf("readyz: %d %q", a.status, a.body)
				}
				if n := strings.Count(r.logs.String(), "\n"); n > 4 {
					t.Errorf("%d lines were logged:\n%s", n, r.logs)
				}
				if a := r.get(t, user+"2"); a.status != http.StatusOK {
					t.Errorf("afterwards: status %d: %s", a.status, a.body)
				}
			})
		})
	}
}

// A node comes up while the store is unavailable, and finds it later.
func TestStoreAwayAtStart(t *testing.T) {
	server := redistest.Start(t, redistest.Redis(t))
	server.Kill(t)
	starts(t, nil, []string{"--store", server.URL(), "--limit", "2/h sliding-log"}, func(t *testing.T, r *running) {
		user := "/?userId=" + filepath.Base(t.Name())
		for range 10 {
			if a := r.get(t, user); a.status != http.StatusOK {
				t.Errorf("status %d: %s", a.status, a.body)
			}
		}
		if a := ready(t, r); !strings.HasPrefix(a.body, "ready\nstore: down; requests are let through; last failure: ") || !strings.Contains(a.body, "connection refused") {
			t.Errorf("readyz: %q", a.body)
		}
		server.Run(t)
		until(t, "the store to be found", func() bool { return strings.HasPrefix(ready(t, r).body, "ready\nstore: up\n") })
		until(t, "it to decide", func() bool { return r.get(t, user).status == http.StatusTooManyRequests })
		server.Kill(t)
	})
}

// Over TLS with a user and a password, which nothing reports: no answer, no log
// line, no metric, no error.
func TestStoreSecrets(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte(redistest.Password+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, before, after, user, password string }{
		{"environment", "", "", redistest.User, redistest.Password},
		{"file", redistest.User + "@", "&password_file=" + file, "", ""},
		{"URL in a variable", url.UserPassword(redistest.User, redistest.Password).String() + "@", "", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv(redisurl.UserVariable, c.user)
			t.Setenv(redisurl.PasswordVariable, c.password)
			server := redistest.StartTLS(t, redistest.Redis(t))
			store := "rediss://" + c.before + server.Addr + "?ca_file=" + filepath.Join(server.Dir, "cert.pem") + c.after
			if strings.Contains(c.before, ":") {
				t.Setenv("REDIS_URL", store)
				store = "env:REDIS_URL"
			}
			outer := t
			starts(t, nil, []string{"--store", store, "--limit", "1/h sliding-log", "--failure", "closed"}, func(t *testing.T, r *running) {
				user := "/?userId=" + filepath.Base(t.Name())
				for i, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
					if a := r.get(t, user); a.status != want {
						t.Errorf("request %d: status %d: %s, want %d", i, a.status, a.body, want)
					}
				}
				server.Kill(t)
				until(t, "an outage", func() bool { // which requests find out
					return r.get(t, user).status == http.StatusServiceUnavailable && ready(t, r).status == http.StatusServiceUnavailable
				})
				if want := "store  rediss://" + server.Addr; !strings.Contains(r.banner, want) {
					t.Errorf("the banner %q lacks %q", r.banner, want)
				}
				reported := r.banner + r.logs.String() + ready(t, r).body + r.get(t, user).body + fetch(t, http.DefaultClient, r.admin+"/metrics").body
				if strings.Contains(reported, redistest.Password) || strings.Contains(reported, url.PathEscape(redistest.Password)) || strings.Contains(reported, redistest.User) {
					t.Errorf("user or password are reported:\n%s", reported)
				}
				server.Run(outer)
			})
		})
	}
}

// What will not pass by itself ends the start, with the reason and not the
// password.
func TestStoreRefuses(t *testing.T) {
	const wrong = "not the password"
	server := redistest.StartTLS(t, redistest.Redis(t))
	ca := filepath.Join(server.Dir, "cert.pem")
	for _, c := range []struct{ name, url, want string }{
		{"wrong password", "rediss://" + redistest.User + "@" + server.Addr + "?ca_file=" + ca, "WRONGPASS"},
		{"unknown authority", "rediss://" + redistest.User + "@" + server.Addr, "certificate"},
		{"variable that is not set", "env:SLUICE_TEST_NO_SUCH_URL", "SLUICE_TEST_NO_SUCH_URL is not set"},
		{"no such file", "rediss://" + server.Addr + "?ca_file=/does/not/exist", "ca_file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv(redisurl.PasswordVariable, wrong)
			_, conf, err := parseArgs([]string{"--store", c.url, "--listen", "127.0.0.1:0", "--admin", "off"})
			if err != nil {
				t.Fatal(err)
			}
			var logs, out syncBuffer
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // if it starts all the same
			defer cancel()
			err = serve.Run(ctx, serve.Options{Config: conf, Out: &out, Log: slog.New(slog.NewTextHandler(&logs, nil))})
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "store") {
				t.Fatalf("error %v, want one with %q; logged: %s", err, c.want, &logs)
			}
			if reported := err.Error() + logs.String() + out.String(); strings.Contains(reported, wrong) {
				t.Errorf("the password is reported: %s", reported)
			}
		})
	}
}
