// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/server/admin"
)

// manyOverrides writes a node's file with n overrides that all nodes have.
func manyOverrides(t *testing.T, n int) (file string) {
	t.Helper()
	var doc struct {
		Version   int                    `json:"version"`
		Confirmed time.Time              `json:"confirmed"`
		Overrides []admin.StoredOverride `json:"overrides"`
	}
	doc.Version, doc.Confirmed = 1, time.Now()
	for i := range n {
		doc.Overrides = append(doc.Overrides, admin.StoredOverride{
			Rule: "api", Key: []string{fmt.Sprintf("customer-%08d", i)}, Limits: []string{"500/min sliding-log"},
			Reason: "ticket 4711, until the contract is signed", Author: "ops", Added: doc.Confirmed, Version: fmt.Sprintf("%d.NODE", i+1),
		})
	}
	text, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "overrides.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// change changes 20 overrides on a node, and says how long each took.
func change(t *testing.T, r *running) string {
	t.Helper()
	var took []time.Duration
	for i := range 20 {
		document := fmt.Sprintf(`{"rule": "api", "parts": {"header.X-User": "customer-%08d"}, "limits": ["%d/min"], "reason": "ticket", "author": "ops"}`, i, 600+i)
		begin := time.Now()
		if got := r.ask(t, http.MethodPut, "/v1/override", document); got.status != http.StatusOK {
			t.Fatalf("a change: %d %s", got.status, got.body)
		}
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	return fmt.Sprintf("median %v, most %v", took[len(took)/2], took[len(took)-1])
}

// TestFleetOfManyOverrides: as many overrides as there may be are put back into an empty
// store, learnt by another node, and changed; with -v it prints what that costs.
func TestFleetOfManyOverrides(t *testing.T) {
	n := 10_000
	if testing.Short() {
		n = 1000
	}
	redis := redistest.Start(t, redistest.Redis(t))
	client := redis.Client(t)
	file := manyOverrides(t, n)
	a := node(t, redis.URL(), func(o *Options) { o.Overrides = file })
	number := func(words ...string) int64 {
		t.Helper()
		got, err := client.Do(t.Context(), client.B().Arbitrary(words...).Build()).AsInt64()
		if err != nil && !rueidis.IsRedisNil(err) {
			t.Fatal(err)
		}
		return got
	}
	begin := time.Now()
	until(t, "the store to have all", func() bool { return number("HLEN", "sluice{fleet}!overrides") == int64(n)+1 })
	t.Logf("put back into the store: %v", time.Since(begin))
	begin = time.Now()
	b := node(t, redis.URL())
	has := func(r *running, n int) bool {
		return strings.Contains(r.ask(t, http.MethodGet, "/v1/overview", "").body, fmt.Sprintf(`"overrides": %d`, n))
	}
	until(t, "the other node to have all", func() bool { return has(b, n) })
	t.Logf("learnt by a node that starts: %v", time.Since(begin))

	t.Logf("a change of one with a file: %v", change(t, a))
	until(t, "the other node to learn the changes", func() bool {
		return strings.Contains(b.ask(t, http.MethodGet, "/v1/key?rule=api&header.X-User=customer-00000019", "").body, `"full": 619`)
	})
	t.Logf("a change of one without: %v", change(t, b))
	one := `{"rule": "api", "parts": {"header.X-User": "one-more"}, "limits": ["1/min"], "reason": "ticket", "author": "ops"}`
	if got := a.ask(t, http.MethodPut, "/v1/override", one); n == 10_000 && (got.status != http.StatusBadRequest || !strings.Contains(got.body, "there are 10000 already")) {
		t.Errorf("one more: %d %s", got.status, got.body)
	}
	t.Logf("in the store: %d bytes of overrides, %d of the log", number("MEMORY", "USAGE", "sluice{fleet}!overrides", "SAMPLES", "0"),
		number("MEMORY", "USAGE", "sluice{fleet}!log", "SAMPLES", "0"))
	info := func() (bytes, cpu float64) {
		text, err := client.Do(t.Context(), client.B().Info().Build()).ToString()
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(text) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
			got, _ := strconv.ParseFloat(value, 64) // other lines are no numbers
			switch name {
			case "total_net_input_bytes", "total_net_output_bytes":
				bytes += got
			case "used_cpu_sys", "used_cpu_user":
				cpu += got
			}
		}
		return bytes, cpu
	}
	if testing.Verbose() {
		const span = 10 * time.Second
		bytes, cpu := info()
		time.Sleep(span) // of a real server
		bytes2, cpu2 := info()
		t.Logf("two idle nodes: %.0f bytes/s each, %.2f %% of a core of the server", (bytes2-bytes)/2/span.Seconds(), 100*(cpu2-cpu)/span.Seconds())
	}
}

// TestFleetExpiry: an override ends on all nodes at its time.
func TestFleetExpiry(t *testing.T) {
	redis := redistest.Start(t, redistest.Redis(t))
	url := redis.URL()
	all := nodes(t, url, 2)
	all[0].mustTell(t, http.MethodPut, `, "limits": ["100/h"]`)
	allFull(t, 100, all...)
	all[0].mustTell(t, http.MethodPut, fmt.Sprintf(`, "limits": ["100/h"], "expires": %q`, time.Now().Add(time.Second).UTC().Format(time.RFC3339Nano)))
	allFull(t, 3, all...)
}

// TestFleetRights: the user that the guide names may do all that a node does.
func TestFleetRights(t *testing.T) {
	redis := redistest.Start(t, redistest.Redis(t))
	client := redis.Client(t)
	words := strings.Fields("ACL SETUSER node on >0123456789abcdef resetkeys ~sluice{1* ~sluice{fleet}!* resetchannels -@all +@read +@write +@scripting +@connection +time +info")
	if err := client.Do(t.Context(), client.B().Arbitrary(words...).Build()).Error(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("0123456789abcdef"), 0o600); err != nil {
		t.Fatal(err)
	}
	all := nodes(t, "redis://node@"+redis.Addr+redistest.Patient+"&password_file="+file, 2)
	all[0].mustTell(t, http.MethodPut, `, "limits": ["100/h"]`)
	allFull(t, 100, all...)
	if got := all[1].get(t, "/?userId=u", "X-User", "ada"); got.status != http.StatusOK {
		t.Errorf("got %d", got.status)
	}
}
