// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
)

// Of 1,001 requests of a user exactly 1,000 pass, whichever node answers, and
// though one is killed and restarted. Where nodes share nothing the users of
// one that dies get their quota once more.
var rows = regexp.MustCompile(`^fleet of three .*
shared store +1001 +1000 +1 +0 +3
shared store, node killed and restarted +1001 +1000 +1 +0 +[34]
sticky sessions +1001 +1000 +1 +0 +1
sticky sessions, node killed +2002 +2000 +2 +0 +2
$`)

func testRun(t *testing.T, store string) {
	t.Helper()
	var out bytes.Buffer
	if err := run(t.Context(), store, &out); err != nil || !rows.Match(out.Bytes()) {
		t.Errorf("printed, %v:\n%s\nwant %s", err, out.String(), rows)
	}
}

func TestRun(t *testing.T) { testRun(t, "") }

func TestRunOnCluster(t *testing.T) {
	testkit.Long(t)
	testRun(t, clusterURL(t))
}

func clusterURL(t *testing.T) string {
	t.Helper()
	var addresses []string
	for _, master := range redistest.StartCluster(t, redistest.Redis(t), 3, true).Masters {
		addresses = append(addresses, master.Addr)
	}
	return "redis-cluster://" + strings.Join(addresses, ",") + redistest.Patient
}

func startTest(t *testing.T, store string, program [nodes]string) *fleet {
	t.Helper()
	f, err := startFleet(t.Context(), t.TempDir(), anyNode, store, program)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.stop)
	return f
}

// buildAll compiles sluice for all nodes.
func buildAll(t *testing.T) [nodes]string {
	t.Helper()
	program, err := build(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return [nodes]string{program, program, program}
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
	testkit.Long(t) // it compiles the standard library anew
	programs := buildAll(t)
	programs[0] = buildWrong(t)
	for name, url := range map[string]string{"single": redistest.Start(t, redistest.Redis(t)).URL(), "cluster": clusterURL(t)} {
		t.Run(name, func(t *testing.T) {
			f := startTest(t, url, programs)
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
				t.Errorf("passed %d, denied %d, failed %d, passed by %v; want %d, 1, none, the first too",
					got.passed, got.denied, got.failed, got.by, quota)
			}
		})
	}
}

// A node that dies with requests in it takes them along: what they had taken is
// spent, so that less may pass, by one for each connection, and never more.
func TestKilledUnderLoad(t *testing.T) {
	f := startTest(t, redistest.Start(t, redistest.Redis(t)).URL(), buildAll(t))
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
