// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package serve_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/serve"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// decision holds the fields of a decision log line that tests check.
type decision struct {
	Path, Host, Verdict, Method, Config string
	Status                              int
	Bytes                               int64
	Duration                            int64 `json:"duration_us"`
	Delay                               int64 `json:"delay_us"`
	Broken                              bool
	Upstream                            struct {
		Status int
		Error  string
		Bytes  int64
	}
	Rules []struct {
		Rule, Mode, Verdict, Failure string
		Binds                        bool
	}
}

// decisions reads the lines of a log, all of which must be complete.
func decisions(t *testing.T, path string) (all []decision) {
	t.Helper()
	text := testkit.ReadFile(t, path)
	for line := range strings.Lines(string(text)) {
		var d decision
		if err := json.Unmarshal([]byte(line), &d); err != nil || !strings.HasSuffix(line, "}\n") {
			t.Fatalf("%q: %v", line, err)
		}
		all = append(all, d)
	}
	return all
}

// written waits until n lines of a log are written.
func written(t *testing.T, r *servetest.Gateway, log string, n float64) {
	t.Helper()
	testkit.Until(t, fmt.Sprint(n, " lines"), func() bool { return r.Metrics(t)["sluice_"+log+`_log_lines_total{result="written"}`] >= n })
}

// say sends text over a new connection, and reads up to until.
func say(t *testing.T, url, text, until string) net.Conn {
	t.Helper()
	conn := servetest.Dial(t, url, text)
	if until == "" {
		return conn
	}
	lines := bufio.NewReader(conn)
	for {
		line, err := lines.ReadString('\n')
		if strings.Contains(line, until) {
			return conn
		}
		if err != nil {
			t.Fatalf("read %q: %v", line, err)
		}
	}
}

// TestRequestsAreLogged: both logs have one line of each request, with its outcome.
func TestRequestsAreLogged(t *testing.T) {
	t.Parallel()
	t.Run("memory", func(t *testing.T) { requestsAreLogged(t, "") })
	t.Run("redis", func(t *testing.T) {
		requestsAreLogged(t, fmt.Sprintf("store: {redis: {url: %q}}\n", redistest.Start(t, redistest.Redis(t)).URL()))
	})
}

func requestsAreLogged(t *testing.T, store string) {
	t.Helper()
	there, release := make(chan struct{}, 1), make(chan struct{})
	up := servetest.Backend(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/switch":
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\nhello\n")
			_ = conn.Close()
		case "/early": // before the body's end
			c := http.NewResponseController(w)
			if err := c.EnableFullDuplex(); err != nil {
				t.Error(err)
			}
			w.Header().Set("Connection", "close") // net/http serves no further request after half a body
			w.WriteHeader(http.StatusForbidden)
			if err := c.Flush(); err != nil {
				t.Error(err)
			}
		case "/hangup":
			there <- struct{}{}
			<-release
		default:
			_, _ = io.WriteString(w, "ok")
		}
	})
	dir := t.TempDir()
	file, access := filepath.Join(dir, "decisions"), filepath.Join(dir, "access")
	s := servetest.Start(t, fmt.Sprintf(`
upstream: [{url: %q, path: /down}, %s]
decision_log: {file: %q}
access_log: %q
%srules:
  - {name: one, match: {path: /one}, limits: 1/day}
  - {name: key, match: {path: /key}, by: query.u, missing: refuse, limits: 1/day}
  - {name: dry, match: {path: /dry}, mode: shadow, limits: 1/day}
  - {name: waits, match: {path: /hangup}, by: ip, limits: 9/day, when: {response: [401]}}
`, servetest.Nobody, up, file, access, store))
	for _, path := range []string{"/one?secret", "/one", "/key", "/dry", "/dry", "/down", "/%22%0a", "/.well-known/ratelimit"} {
		s.Get(t, path, "User-Agent", `a"gent`)
	}
	n := 7.0
	wait := func() {
		n++
		written(t, s, "decision", n)
	}
	if err := say(t, s.URL, "GET /switch HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n", "hello").Close(); err != nil {
		t.Error(err)
	}
	wait()
	if err := say(t, s.URL, "POST /early HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\npart", "403").Close(); err != nil {
		t.Error(err)
	}
	wait()
	left := say(t, s.URL, "GET /hangup HTTP/1.1\r\nHost: x\r\n\r\n", "")
	<-there
	if err := left.Close(); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "the leave", func() bool { return s.Metrics(t)["sluice_abandoned"] == 1 })
	close(release)
	wait()
	h2 := &http.Transport{Protocols: new(http.Protocols)}
	h2.Protocols.SetUnencryptedHTTP2(true)
	servetest.Fetch(t, &http.Client{Transport: h2}, s.URL+"/two")
	wait()
	h2.CloseIdleConnections()
	s.End(t)

	want := []string{
		"/one allowed 200 2 one=allowed",
		"/one denied 429 - one=denied!",
		"/key refused 400 - key=refused",
		"/dry allowed 200 2 dry=allowed",
		"/dry allowed 200 2 dry=denied",
		"/down allowed 502 - failed",
		"/%22%0a allowed 200 2",
		"/switch allowed 101 6",
		"/early allowed 403 0",
		"/hangup allowed 499 0 waits=allowed!",
		"/two allowed 200 2",
	}
	got := decisions(t, file)
	for i, d := range got {
		text := fmt.Sprintf("%s %s %d", d.Path, d.Verdict, d.Status)
		if d.Upstream.Status == d.Status || d.Status == 499 || d.Status == 101 {
			text += fmt.Sprint(" ", d.Bytes)
		} else if text += " -"; d.Upstream.Error != "" {
			text += " failed"
		}
		for _, r := range d.Rules {
			if text += " " + r.Rule + "=" + r.Verdict; r.Binds && r.Mode == "enforced" && (d.Verdict == "denied" || d.Status == 499) {
				text += "!"
			}
		}
		if i >= len(want) || text != want[i] {
			t.Errorf("line %d: got %q, want %q", i, text, append(want, "none")[min(i, len(want))])
		}
		if d.Duration <= 0 || d.Config != s.Banner[strings.Index(s.Banner, "version ")+8:][:12] {
			t.Errorf("line %d: %d µs, version %s", i, d.Duration, d.Config)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d lines, want %d", len(got), len(want))
	}
	text := testkit.ReadFile(t, access)
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	if len(lines) != len(want)+1 || !strings.Contains(lines[0], `"GET /one?secret HTTP/1.1" 200 2 "-" "a\x22gent"`) ||
		!strings.Contains(lines[len(lines)-1], `"GET /two HTTP/2.0" 200 2`) {
		t.Errorf("%d lines, want %d: %s", len(lines), len(want)+1, text)
	}
}

// TestLogsAreOpenedAgain: SIGHUP reopens files that were moved or removed, also while the
// configuration has faults, and a changed configuration changes the files.
func TestLogsAreOpenedAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	yaml := fmt.Sprintf("decision_log: %q\naccess_log: %q\nrules: [{name: a, limits: 1000/min}]\n", at("decisions"), at("access"))
	s := servetest.Start(t, yaml, func(o *serve.Options) { o.Audit = at("audit") })
	s.Get(t, "/")
	written(t, s, "access", 1)
	written(t, s, "decision", 1)
	exists := func(name string) bool { _, err := os.Stat(at(name)); return err == nil }
	for _, name := range []string{"decisions", "audit"} {
		if err := os.Rename(at(name), at(name+".1")); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(at("access")); err != nil {
		t.Fatal(err)
	}
	s.Write(t, "rules: [{nmae: a}]\n")
	s.Again <- syscall.SIGHUP
	testkit.Until(t, "the files", func() bool { return exists("decisions") && exists("audit") && exists("access") })
	s.ExpectLog(t, "stays active")
	s.Get(t, "/")
	written(t, s, "decision", 2)
	s.Ask(t, http.MethodPost, "/v1/key/reset", `{"rule": "a", "parts": {}, "author": "eve"}`)
	if one, two := decisions(t, at("decisions.1")), decisions(t, at("decisions")); len(one) != 1 || len(two) != 1 {
		t.Errorf("%d lines in the file before, %d in the new one", len(one), len(two))
	}
	if text, err := os.ReadFile(at("audit")); err != nil || !strings.Contains(string(text), "eve") {
		t.Errorf("the audit log: %q, %v", text, err)
	}
	// Another file, without a restart, and then none.
	before := s.Hash(t)
	changed := func(yaml string) {
		t.Helper()
		s.Write(t, yaml)
		s.Again <- syscall.SIGHUP
		testkit.Until(t, "the change", func() bool { return s.Hash(t) != before })
		before = s.Hash(t)
	}
	changed(strings.ReplaceAll(yaml, "decisions", "others"))
	s.Get(t, "/")
	written(t, s, "decision", 3)
	if n := len(decisions(t, at("others"))); n != 1 {
		t.Errorf("%d lines in the other file", n)
	}
	changed("rules: [{name: a, limits: 1000/min}]\n")
	s.Get(t, "/")
	if n := s.Metrics(t)[`sluice_decision_log_lines_total{result="written"}`]; n != 3 {
		t.Errorf("%v lines when there is no log", n)
	}
	// A log that cannot be opened changes nothing.
	s.Change(t, fmt.Sprintf("decision_log: %q\nrules: [{name: a, limits: 1/min}]\n", at("none/file")), "no such file")
	s.ExpectLog(t, "stays active")
	if got := s.Get(t, "/").Status; got != http.StatusBadRequest { // of the sample app
		t.Errorf("got %d", got)
	}
}

// TestLogWithoutRoom: a full disk, or a pipe whose reader has stopped, delays no request and
// ends nothing; dropped lines are counted.
func TestLogWithoutRoom(t *testing.T) {
	t.Parallel()
	stopped := filepath.Join(t.TempDir(), "pipe")
	servetest.Pipe(t, stopped)
	reader, err := os.OpenFile(stopped, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	testkit.Closed(t, reader)
	s := servetest.Start(t, fmt.Sprintf("decision_log: /dev/full\naccess_log: %q\nrules: [{name: a, limits: 1000000/min}]\n", stopped))
	const n = 500 // lines, more than a pipe holds
	agent := strings.Repeat("x", 1000)
	for range n {
		if got := s.Get(t, "/?userId=u", "User-Agent", agent).Status; got != http.StatusOK {
			t.Fatalf("got %d", got)
		}
	}
	testkit.Until(t, "the log to say so", func() bool {
		return strings.Contains(s.Logs.String(), `log="decision log" file=/dev/full error="write /dev/full: no space left on device"`)
	})
	if err := s.Wait(); err != nil {
		t.Error(err)
	}
}
