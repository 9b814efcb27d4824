// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package attack_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/testkit"
)

// keys is the number of keys that a gateway has to write.
const keys = 300

// TestKillsWhileStateIsWritten: whenever a gateway is killed, the next one finds the state of
// the last clean stop or a newer one, and never a part of one.
func TestKillsWhileStateIsWritten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, state := filepath.Join(dir, "sluice.yaml"), filepath.Join(dir, "sluice.state")
	yaml := fmt.Sprintf(`
listen: {address: "127.0.0.1:0", proxy_protocol: 127.0.0.0/8}
admin: off
upstream: %s
store: {memory: {state: %q}}
rules: [{name: user, by: header.X-Key, limits: 1/day sliding-log}]
`, newUpstream(t).url(), state)
	if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	// Spend units before the first stop, which is a clean one.
	g := launch(t, file)
	if got := spend(t, g, 0); got != keys {
		t.Fatalf("%d keys were let in at first", got)
	}
	g.signal(t, syscall.SIGTERM)
	if <-g.exited; g.failed != nil {
		t.Fatalf("ended with %v\n%s", g.failed, g.logs)
	}
	cut := 0
	for kill := 0; kill < testkit.Steps(4, 12) || cut == 0; kill++ {
		if kill == 100 {
			t.Fatal("no gateway was cut off while it wrote")
		}
		g := launch(t, file)
		if got := spend(t, g, 0); got != 0 {
			t.Errorf("after %d kills: %d keys were let in again", kill, got)
		}
		spend(t, g, kill+1) // more to write each time
		g.signal(t, syscall.SIGTERM)
		for ended := kill%3 == 0; !ended && !writing(t, dir); { // or before the writing has begun
			select {
			case <-g.exited: // the process has ended
				ended = true
			default:
			}
		}
		g.signal(t, syscall.SIGKILL)
		<-g.exited
		g.sane(t)
		if writing(t, dir) {
			cut++
		}
	}
	t.Logf("cut off while they wrote: %d", cut)
}

// writing reports whether a file in a folder is being replaced, or was when a process was
// killed. The next process removes such leftovers.
func writing(t *testing.T, dir string) bool {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(dir, "*.tmp"))
	if err != nil {
		t.Fatal(err)
	}
	return len(left) > 0
}

// spend sends one request for each key and returns how many passed.
func spend(t *testing.T, g *gate, generation int) (in int) {
	t.Helper()
	raw := ""
	for key := range keys {
		raw += fmt.Sprintf("GET / HTTP/1.1\r\nHost: x\r\nX-Key: %d-%d\r\n\r\n", generation, key)
	}
	c := g.client(address())
	conn := c.dial(t)
	defer func() { _ = conn.Close() }() // never fails
	go c.write(t, conn, raw)
	from := bufio.NewReader(conn)
	for range keys {
		r, err := readReply(from)
		if err != nil {
			t.Fatal(err)
		}
		if r.status == passes {
			in++
		}
	}
	return in
}

// TestStopUnderLoad: answers of the upstream reach the client although the gateway is stopped
// meanwhile.
func TestStopUnderLoad(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name   string
		answer string // of the upstream
	}{{"quick answers", "200 0 0"}, {"slow answers", "200 50 0"}} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			u := newUpstream(t)
			dir := t.TempDir()
			file := filepath.Join(dir, "sluice.yaml")
			yaml := fmt.Sprintf("listen: {address: \"127.0.0.1:0\", proxy_protocol: 127.0.0.0/8}\nadmin: off\nupstream: %s\nrules: [{name: all, limits: 1000000/h}]\n", u.url())
			if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
				t.Fatal(err)
			}
			g := launch(t, file)
			var answered atomic.Int64
			var load sync.WaitGroup
			for range 8 {
				load.Go(func() {
					for open := true; open; {
						open = press(g, row.answer, &answered)
					}
				})
			}
			testkit.Until(t, "requests", func() bool { return answered.Load() > 100 })
			g.signal(t, syscall.SIGTERM)
			load.Wait()
			if <-g.exited; g.failed != nil {
				t.Errorf("ended with %v\n%s", g.failed, g.logs)
			}
			g.sane(t)
			if got, want := int(answered.Load()), len(u.of("load")); got != want {
				t.Errorf("%d requests were answered, and the upstream has processed %d", got, want)
			}
		})
	}
}

// press sends requests on one connection until the gateway closes it, and reports whether the
// gateway accepts another one.
func press(g *gate, answer string, answered *atomic.Int64) bool {
	conn, err := net.Dial("tcp", g.addresses[0])
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }() // the other side may have
	if conn.SetDeadline(time.Now().Add(patience)) != nil {
		return false
	}
	if _, err := io.WriteString(conn, "PROXY TCP4 203.0.113.1 192.0.2.1 1 2\r\n"); err != nil {
		return true
	}
	for in := bufio.NewReader(conn); ; {
		if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\nX-Row: load\r\nX-Answer: "+answer+"\r\n\r\n"); err != nil {
			return true
		}
		r, err := readReply(in)
		if err != nil {
			return true
		}
		if r.status == http.StatusOK {
			answered.Add(1)
		}
	}
}

// TestReloadsUnderLoad: a file that changes all the time loses no request, and resets no
// budget.
func TestReloadsUnderLoad(t *testing.T) {
	t.Parallel()
	u := newUpstream(t)
	yaml := func(quota int) string {
		return fmt.Sprintf("listen: {address: \"127.0.0.1:0\", proxy_protocol: 127.0.0.0/8}\nadmin: off\nupstream: %s\nrules: [{name: all, limits: %d/day sliding-log}]\n", u.url(), quota)
	}
	g := start(t, yaml(100))
	var allowed, other atomic.Int64
	stop := make(chan struct{})
	var load sync.WaitGroup
	end := sync.OnceFunc(func() {
		close(stop)
		load.Wait()
	})
	defer end()
	for range 4 {
		c := g.client(address())
		load.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				switch c.get(t, "reload", "/").status {
				case passes:
					allowed.Add(1)
				case charged:
				default:
					other.Add(1)
				}
			}
		})
	}
	reads := func() int {
		logs := g.logs.String()
		return strings.Count(logs, "the configuration has been read again") + strings.Count(logs, "a new configuration is active")
	}
	for i := range testkit.Steps(100, 300) {
		next := g.file + ".next"
		if err := os.WriteFile(next, []byte(yaml(100-i%2)), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, g.file); err != nil {
			t.Fatal(err)
		}
		before := reads()
		g.signal(t, syscall.SIGHUP)
		testkit.Until(t, "the file to be read again", func() bool { return reads() > before })
	}
	testkit.Until(t, "the budget to be spent", func() bool { return allowed.Load() >= 99 })
	end()
	if got := other.Load(); got > 0 {
		t.Errorf("%d requests were neither let in nor denied", got)
	}
	if got := allowed.Load(); got > 100 || int(got) != len(u.of("reload")) {
		t.Errorf("%d requests were let in, want 100 at most; %d arrived", got, len(u.of("reload")))
	}
}
