// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/serve"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// denying serves rules that deny every upload: by requests, by bytes, and by the size of a
// body.
func denying(t *testing.T) *servetest.Gateway {
	t.Helper()
	g := servetest.Start(t, fmt.Sprintf(`
listen: [127.0.0.1:0]
upstream:
  - {path: /large, url: %[1]s, max_body: 100000}
  - {path: /, url: %[1]s}
rules:
  - {name: requests, match: {path: /denied}, limits: 1/h}
  - {name: bytes, match: {path: /metered}, limits: 100KB/h, cost: request-bytes}
`, servetest.Named(t, "app")))
	g.Get(t, "/denied")
	return g
}

// answers checks the output of an uploading program: n answers that all match want.
func answers(t *testing.T, out []byte, n int, want string) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != n {
		t.Errorf("got %d answers, want %d", len(lines), n)
	}
	for _, line := range lines {
		if !regexp.MustCompile(`^\w+ \d+ ` + want + `$`).MatchString(line) {
			t.Errorf("got %q, want %s", line, want)
		}
	}
}

// uploader runs a program that uploads bodies of 1, 5 and 50 MB in three ways.
func uploader(t *testing.T, g *servetest.Gateway, path string, program ...string) []byte {
	t.Helper()
	args := append(slices.Clone(program[1:]), strings.TrimPrefix(g.URL, "http://"), path, "1")
	cmd := exec.CommandContext(t.Context(), program[0], args...)
	cmd.Dir = filepath.Join("testdata", "uploads")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", program, err, &stderr)
	}
	return out
}

// TestDenialReachesLateReaders: a client that reads no answer before the end of its upload
// still gets the denial.
func TestDenialReachesLateReaders(t *testing.T) {
	g := denying(t)
	times := testkit.Steps(1, 20)
	for _, c := range []struct {
		name    string
		path    string
		program []string
		n       int
		want    string
	}{
		{"python", "/denied", []string{"python3", "upload.py"}, 9, `429 \d+`},
		{"node", "/denied", []string{"node", "upload.mjs"}, 9, `429 \d+`},
		{"java", "/denied", []string{"java", "Upload.java"}, 9, `429 \d+`},
		// Also after a part of the body was read, by a rule that counts its bytes or for the
		// upstream.
		{"bytes", "/metered", []string{"python3", "upload.py"}, 9, `(429|413) (\d+|None)`},
		{"size", "/large", []string{"python3", "upload.py"}, 9, "413 None"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name == "java" {
				testkit.Long(t)
				if _, err := exec.LookPath("javac"); err != nil {
					t.Skip("this machine has no JDK")
				}
			}
			t.Parallel()
			for range times {
				answers(t, uploader(t, g, c.path, c.program...), c.n, c.want)
			}
		})
	}
	t.Run("curl", func(t *testing.T) {
		t.Parallel()
		for range times {
			answers(t, curl(t, g), 9, `429 \d+`)
		}
	})
	t.Run("go", func(t *testing.T) {
		t.Parallel()
		for range times {
			answers(t, goUploads(t, g), 6, `429 \d+`)
		}
	})
}

// TestLingeringLeavesOthersAlone: of connections that send on after their denial, at most a
// quarter of all connections linger, and others are served meanwhile.
func TestLingeringLeavesOthersAlone(t *testing.T) {
	const connections, attackers = 64, 48
	g := servetest.Start(t, fmt.Sprintf(`
listen: [127.0.0.1:0]
max_connections: %d
upstream: %s
rules:
  - {name: requests, match: {path: /denied}, limits: 1/h}
`, connections, servetest.Named(t, "app")))
	g.Get(t, "/denied")
	for i := range attackers {
		conn := servetest.Dial(t, g.URL, "")
		fields := []string{"Content-Length: 1000000000", "Transfer-Encoding: chunked"}[i%2]
		if _, err := fmt.Fprintf(conn, "POST /denied HTTP/1.1\r\nHost: a\r\n%s\r\n\r\n", fields); err != nil {
			t.Fatal(err)
		}
		go func() {
			part := []byte("8000\r\n" + strings.Repeat("x", 0x8000) + "\r\n")
			for err := error(nil); err == nil; { // it is closed in the end
				_, err = conn.Write(part)
				time.Sleep(10 * time.Millisecond)
			}
		}()
	}
	var most float64
	testkit.Until(t, "more to linger than may", func() bool {
		g.Want(t, http.StatusOK, "/other")
		m := g.Metrics(t)
		most = max(most, m["sluice_lingering_connections"])
		return m[`sluice_lingering_total{end="full"}`] >= attackers/2
	})
	if most < 1 || most > connections/4 {
		t.Errorf("%v lingered at once, want at most %d", most, connections/4)
	}
}

// trickle sends a byte after each pause following a denied request, until its connection is
// closed.
func trickle(t *testing.T, g *servetest.Gateway) (closed chan struct{}) {
	t.Helper()
	conn := servetest.Dial(t, g.URL, "POST /denied HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n")
	closed = make(chan struct{})
	go func() {
		defer close(closed)
		for err := error(nil); err == nil; {
			time.Sleep(100 * time.Millisecond)
			_, err = conn.Write([]byte("x"))
		}
	}()
	return closed
}

// TestTricklersTakeNoPlaces: clients that trickle take all places of lingering connections,
// and answers to other uploads still arrive.
func TestTricklersTakeNoPlaces(t *testing.T) {
	t.Parallel()
	g := servetest.Start(t, fmt.Sprintf(`
listen: [127.0.0.1:0]
max_connections: 40
upstream: %s
rules:
  - {name: requests, match: {path: /denied}, limits: 1/h}
`, servetest.Named(t, "app")))
	g.Get(t, "/denied")
	for range 12 {
		trickle(t, g)
	}
	testkit.Until(t, "all places to be taken", func() bool {
		m := g.Metrics(t)
		return m["sluice_lingering_connections"] == 10 && m[`sluice_lingering_total{end="full"}`] == 2
	})
	answers(t, uploader(t, g, "/denied", "python3", "upload.py"), 9, `429 \d+`)
}

// TestStopEndsLingering: a stop waits at most 5 s for lingering connections, long before it
// would cut off requests, and closes them.
func TestStopEndsLingering(t *testing.T) {
	for name, c := range map[string]struct {
		drain time.Duration
		cut   bool
	}{"in time": {25 * time.Second, false}, "at the end of a short drain": {10 * time.Millisecond, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := servetest.Start(t, `
listen: [127.0.0.1:0]
rules:
  - {name: requests, match: {path: /denied}, limits: 1/h}
`, func(o *serve.Options) { o.Drain = c.drain })
			g.Get(t, "/denied")
			var all []chan struct{}
			for range 3 {
				all = append(all, trickle(t, g))
			}
			testkit.Until(t, "the connections to linger", func() bool { return g.Metrics(t)["sluice_lingering_connections"] == 3 })
			g.End(t)
			if cut := strings.Contains(g.Logs.String(), "requests are cut off"); cut != c.cut {
				t.Errorf("requests were cut off: %v, want %v", cut, c.cut)
			}
			for _, closed := range all {
				<-closed
			}
		})
	}
}

// curl uploads with a length, in chunks, and with Expect.
func curl(t *testing.T, g *servetest.Gateway) (out []byte) {
	t.Helper()
	for _, mb := range []int{1, 5, 50} {
		file := testkit.TempFile(t, "upload", make([]byte, mb<<20))
		for name, args := range map[string][]string{
			"length": {"-H", "Expect:", "--data-binary", "@" + file}, "chunked": {"-H", "Expect:", "-H", "Transfer-Encoding: chunked", "-X", "POST", "-T", file},
			"expect": {"-H", "Expect: 100-continue", "--data-binary", "@" + file},
		} {
			args = append([]string{"-sS", "--http1.1", "-m", "60", "-o", "/dev/null", "-w", name + " " + fmt.Sprint(mb) + " %{response_code} %header{retry-after}\n"}, args...)
			line, err := exec.CommandContext(t.Context(), "curl", append(args, g.URL+"/denied")...).CombinedOutput()
			if err != nil {
				t.Errorf("curl %v: %v", args, err)
			}
			out = append(out, line...)
		}
	}
	return out
}

// goUploads uploads with a length and in chunks.
func goUploads(t *testing.T, g *servetest.Gateway) (out []byte) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for _, mb := range []int{1, 5, 50} {
		for name, body := range map[string]io.Reader{"length": bytes.NewReader(make([]byte, mb<<20)), "chunked": io.MultiReader(bytes.NewReader(make([]byte, mb<<20)))} {
			r := servetest.Request(t.Context(), t, http.MethodPost, g.URL+"/denied", body)
			a, err := servetest.Send(client, r)
			if err != nil {
				out = fmt.Appendln(out, name, mb, err)
				continue
			}
			out = fmt.Appendln(out, name, mb, a.Status, a.Header.Get("Retry-After"))
		}
	}
	return out
}
