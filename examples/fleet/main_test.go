// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/redistest"
)

// compiled is sluice, built once for all tests.
var compiled [nodes]string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "fleet")
		if err == nil {
			compiled[0], err = build(context.Background(), dir)
			compiled[1], compiled[2] = compiled[0], compiled[0]
		}
		if err != nil {
			_, _ = os.Stderr.WriteString(err.Error() + "\n")
			return 1
		}
		code := m.Run()
		if err := os.RemoveAll(dir); err != nil {
			_, _ = os.Stderr.WriteString(err.Error() + "\n")
			return 1
		}
		return code
	}())
}

func startTest(t *testing.T, conf, store string, program [nodes]string) *fleet {
	t.Helper()
	f, err := startFleet(t.Context(), t.TempDir(), conf, store, program)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.stop)
	return f
}

// stores are where the nodes share their limits.
func stores(t *testing.T) []struct{ name, url string } {
	t.Helper()
	redis := redistest.Redis(t)
	var cluster []string
	for _, master := range redistest.StartCluster(t, redis, 3, true).Masters {
		cluster = append(cluster, master.Addr)
	}
	return []struct{ name, url string }{
		{"single", redistest.Start(t, redis).URL()},
		{"cluster", "redis-cluster://" + strings.Join(cluster, ",") + redistest.Patient},
	}
}

// Of 1,001 requests of a user exactly 1,000 pass, whichever node answers, and
// though one is killed and restarted. Where nodes share nothing the users of
// one that dies get their quota once more.
func TestFleet(t *testing.T) {
	wants := map[string]struct{ passed, denied, least int }{
		"shared store": {quota, 1, nodes},
		"shared store, node killed and restarted": {quota, 1, nodes},
		"sticky sessions":                         {quota, 1, 1},
		"sticky sessions, node killed":            {2 * quota, 2, 2},
	}
	for _, store := range stores(t) {
		for _, s := range scenarios {
			url := store.url
			if s.conf == &sameNode {
				if store.name == "cluster" {
					continue // there is none in it
				}
				url = ""
			}
			t.Run(store.name+"/"+s.name, func(t *testing.T) {
				want, ok := wants[s.name]
				if !ok {
					t.Fatal("the test does not know what to expect")
				}
				f := startTest(t, *s.conf, url, compiled)
				got, err := s.play(t.Context(), f, userOf(s.name))
				if err != nil {
					t.Fatal(err)
				}
				if got.passed != want.passed || got.denied != want.denied || got.failed != 0 || len(got.by) < want.least {
					t.Errorf("passed %d, denied %d, failed %d, answered by %v; want %d, %d, none, at least %d nodes",
						got.passed, got.denied, got.failed, got.by, want.passed, want.denied, want.least)
				}
			})
		}
	}
}

// wrongBy is how far ahead a wrong clock is.
const wrongBy = time.Hour

// buildWrong compiles sluice with a time.Now that is an hour ahead: all that
// the program ever learns of the time of day is wrong.
func buildWrong(t *testing.T) string {
	t.Helper()
	root, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	source := filepath.Join(strings.TrimSpace(string(root)), "src", "time", "time.go")
	text, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	const reading = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	if !bytes.Contains(text, []byte(reading)) {
		t.Fatalf("%s reads the clock in another way than this test knows; teach it", source)
	}
	dir := t.TempDir()
	wrong := filepath.Join(dir, "time.go")
	text = bytes.Replace(text, []byte(reading), []byte(reading+"\tsec += 3600\n"), 1)
	if err := os.WriteFile(wrong, text, 0o600); err != nil {
		t.Fatal(err)
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {source: wrong}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	program, err := build(t.Context(), dir, "-overlay", file)
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// The clock of a node does not enter: the store's counts.
func TestClockOfANodeIsWrong(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the standard library anew")
	}
	programs := compiled
	programs[0] = buildWrong(t)
	for _, store := range stores(t) {
		t.Run(store.name, func(t *testing.T) {
			f := startTest(t, anyNode, store.url, programs)
			resp, err := http.Get("http://" + f.address[0] + "/")
			if err != nil {
				t.Fatal(err)
			}
			if err := resp.Body.Close(); err != nil {
				t.Error(err)
			}
			date, err := http.ParseTime(resp.Header.Get("Date"))
			if ahead := time.Until(date); err != nil || ahead < wrongBy/2 {
				t.Fatalf("the node's clock is %v ahead (%v), want about %v", ahead, err, wrongBy)
			}
			got, err := undisturbed(t.Context(), f, "u")
			if err != nil {
				t.Fatal(err)
			}
			if got.passed != quota || got.denied != 1 || got.by[f.name(0)] == 0 {
				t.Errorf("passed %d, denied %d, failed %d, answered by %v; want %d, 1, none, the first too",
					got.passed, got.denied, got.failed, got.by, quota)
			}
		})
	}
}

// A node that dies with requests in it takes them along: what they had taken is
// spent, so that less may pass, by one for each connection, and never more.
func TestKilledUnderLoad(t *testing.T) {
	server := redistest.Start(t, redistest.Redis(t))
	f := startTest(t, anyNode, server.URL(), compiled)
	const asked = 2 * quota
	var seen atomic.Int64
	reached, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		<-reached
		f.nodes[1].kill()
	}()
	got, err := askSeen(t.Context(), f.url, "u", asked, func() {
		if seen.Add(1) == quota/2 {
			close(reached)
		}
	})
	<-over
	if err != nil {
		t.Fatal(err)
	}
	if got.passed > quota || got.passed < quota-connections || got.passed+got.denied+got.failed != asked || got.failed > 0 {
		t.Errorf("passed %d, denied %d, failed %d; want %d to %d passed, the others denied", got.passed, got.denied, got.failed, quota-connections, quota)
	}
	t.Logf("passed %d of %d", got.passed, quota)
}
