// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package attack_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/sluicegate/sluice/internal/testkit"
)

// TestKillsWhileOverridesAreWritten: whenever a gateway is killed, the next one has every
// override that was confirmed.
func TestKillsWhileOverridesAreWritten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "sluice.yaml")
	yaml := fmt.Sprintf(`
listen: {address: "127.0.0.1:0", proxy_protocol: 127.0.0.0/8}
admin: {address: "127.0.0.1:0", overrides_file: %q, audit_file: %q}
upstream: %s
rules: [{name: user, by: header.X-Key, limits: 1/day sliding-log}]
`, filepath.Join(dir, "overrides.json"), filepath.Join(dir, "audit.jsonl"), newUpstream(t).url())
	if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	var answered atomic.Int64 // keys with a raised limit
	cut := 0
	for kill := 0; kill < testkit.Steps(4, 12) || cut == 0; kill++ {
		if kill == 100 {
			t.Fatal("no gateway was cut off while it wrote")
		}
		g := launch(t, file)
		over, before := make(chan struct{}), answered.Load()
		go func() {
			defer close(over)
			for g.raise(answered.Load()) {
				answered.Add(1)
			}
		}()
		testkit.Until(t, "overrides", func() bool { return answered.Load() > before+int64(kill) })
		for ended := false; !ended && !writing(t, dir); {
			select {
			case <-over:
				t.Error("an override is refused")
				ended = true
			default:
			}
		}
		g.signal(t, syscall.SIGKILL)
		<-over
		<-g.exited
		g.sane(t)
		if writing(t, dir) {
			cut++
		}
	}
	g := start(t, yaml)
	for n := range answered.Load() {
		c := g.client(address())
		key := fmt.Sprintf("X-Key: k%d", n)
		if a, b := c.get(t, "raised", "/", key), c.get(t, "raised", "/", key); a.status != passes || b.status != passes {
			t.Errorf("k%d: got %d and %d: its override is lost", n, a.status, b.status)
		}
	}
	t.Logf("%d overrides were answered for; cut off while they wrote: %d", answered.Load(), cut)
}

// raise doubles a key's limit, and reports whether that was confirmed.
func (g *gate) raise(n int64) bool {
	body := fmt.Sprintf(`{"rule":"user","parts":{"header.X-Key":"k%d"},"limits":["2/day sliding-log"],"reason":"x","author":"y"}`, n)
	req, err := http.NewRequest(http.MethodPut, "http://"+g.admin+"/v1/override", strings.NewReader(body))
	if err != nil {
		return false
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}).Do(req)
	if err != nil {
		return false
	}
	return resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
}
