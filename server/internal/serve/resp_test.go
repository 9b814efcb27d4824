// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/redis/rueidis"

	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// respYAML serves the Redis protocol at a TLS address, too.
const respYAML = `
listen:
  - {address: "127.0.0.1:0", serve: resp, name: plain}
  - {address: "127.0.0.2:0", serve: resp, name: secure, tls: {cert: %q, key: %q}}
decision_log: {file: %q, keys: plain}
access_log: %q
rules:
  - {name: user, by: header.X-User, limits: 3/h sliding-log}
`

// TestRESP: clients of Redis connect and decide, with and without TLS, and each decision is in
// the metrics and in the decision log, but not in that of HTTP.
func TestRESP(t *testing.T) {
	t.Parallel()
	cert, key, _ := testkit.CertificateFiles(t)
	folder := t.TempDir()
	decisions, access := filepath.Join(folder, "decisions.log"), filepath.Join(folder, "access.log")
	s := servetest.Start(t, fmt.Sprintf(respYAML, cert, key, decisions, access), servetest.Stopped)
	plain, secure := strings.TrimPrefix(s.URLs[0], "redis://"), strings.TrimPrefix(s.URLs[1], "rediss://")
	run := func(name string, args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
		if err != nil {
			t.Errorf("%s %q: %v\n%s", name, args, err, out)
		}
		return string(out)
	}
	host, port, _ := strings.Cut(plain, ":")
	cli := []string{"-h", host, "-p", port}
	if got := run("redis-cli", append(cli, "CL.THROTTLE", "cli", "15", "30", "60")...); got != "0\n16\n15\n-1\n2\n" {
		t.Errorf("redis-cli: %q", got)
	}
	if got := run("redis-cli", append(cli, "-3", "SLUICE.TAKE", "user", "ada")...); !strings.HasPrefix(got, "1\n2\n0\n3600000\n0\nallowed\nuser\n") {
		t.Errorf("redis-cli -3: %q", got)
	}
	s.Override(t, "user", "header.X-User", "eve", "7/h sliding-log")
	if got := run("redis-cli", append(cli, "SLUICE.TAKE", "user", "eve")...); !strings.HasPrefix(got, "1\n6\n") {
		t.Errorf("a key with an override: %q", got)
	}
	host2, port2, _ := strings.Cut(secure, ":")
	if got := run("redis-cli", "-h", host2, "-p", port2, "--tls", "--insecure", "CL.THROTTLE", "cli", "15", "30", "60"); got != "0\n16\n14\n-1\n4\n" {
		t.Errorf("redis-cli --tls: %q", got)
	}
	if got := run("redis-benchmark", append(cli, "-n", "1000", "-P", "16", "-q", "CL.THROTTLE", "key:__rand_int__", "15", "30", "60")...); strings.Contains(got, "rror") {
		t.Errorf("redis-benchmark: %q", got)
	}
	if got := run("/usr/bin/python3", "-c", `
import redis, sys
r = redis.Redis(host=sys.argv[1], port=int(sys.argv[2]), client_name="py", health_check_interval=1)
print(r.ping(), r.client_getname(), r.execute_command("CL.THROTTLE", "py", 15, 30, 60))
p = r.pipeline(transaction=False)
for _ in range(3): p.execute_command("SLUICE.TAKE", "user", "bob")
print([a[:3] + [a[5]] for a in p.execute()])
try: r.get("a")
except redis.ResponseError as e: print(e)
`, host, port); got != "True py [0, 16, 15, -1, 2]\n[[1, 2, 0, b'allowed'], [1, 1, 0, b'allowed'], [1, 0, 0, b'allowed']]\nunknown command 'GET', with args beginning with: 'a' \n" {
		t.Errorf("redis-py: %s", got)
	}
	for _, noCache := range []bool{false, true} {
		c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{plain}, DisableCache: noCache})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		var many rueidis.Commands
		for range 3 {
			many = append(many, c.B().Arbitrary("CL.THROTTLE").Keys(fmt.Sprint("rueidis", noCache)).Args("1", "1", "60").Build())
		}
		var first []int64
		for _, r := range c.DoMulti(t.Context(), many...) {
			n, err := r.AsIntSlice()
			if err != nil {
				t.Fatal(err)
			}
			first = append(first, n[0])
		}
		if !slices.Equal(first, []int64{0, 0, 1}) {
			t.Errorf("rueidis: %v", first)
		}
	}
	testkit.Until(t, "all commands to be counted", func() bool {
		m := s.Metrics(t)
		return m[`sluice_rule_requests_total{rule="user",verdict="allowed"}`] == 5 && m[`sluice_decisions_total{limit="throttle",scope="resp",verdict="denied"}`] >= 2 &&
			m[`sluice_resp_refused_total{reason="command"}`] >= 1 && m[`sluice_http_responses_total{class="other",route="resp"}`] == 0
	})
	s.End(t)
	log := string(testkit.ReadFile(t, decisions))
	testkit.Contains(t, log, `"method":"SLUICE.TAKE"`, `"rule":"user"`, `"key":"ada"`, `"method":"CL.THROTTLE"`)
	if text := testkit.ReadFile(t, access); len(text) > 0 {
		t.Errorf("the log of HTTP requests has %q", text)
	}
}

// TestRESPTokens: clients authenticate by the tokens of the API, whose holds are the same, and the
// file is read again.
func TestRESPTokens(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "tokens.json")
	write := func(text string) { servetest.Replace(t, file, text) }
	const shop, ops = `{"name": "shop", "secret": "shop-0123456789abcdef"}`, `{"name": "ops", "secret": "ops-0123456789abcdef", "operations": ["take", "reset"], "own_limits": true}`
	write(`{"tokens": [` + shop + `, ` + ops + `]}`)
	s := servetest.Start(t, fmt.Sprintf(`
listen:
  - {address: "127.0.0.1:0", serve: resp, tokens_file: %[1]q}
  - {address: "127.0.0.2:0", serve: api, tokens_file: %[1]q}
rules:
  - {name: user, by: header.X-User, limits: 10/h sliding-log}
`, file), servetest.Stopped)
	c := servetest.Dial(t, s.URLs[0], "")
	ask := func(command, want string) {
		t.Helper()
		if _, err := io.WriteString(c, command+"\r\n"); err != nil {
			t.Fatal(err)
		}
		answer := make([]byte, 512)
		n, err := c.Read(answer)
		if err != nil || !strings.HasPrefix(string(answer[:n]), want) {
			t.Errorf("%s: got %q, %v, want %q", command, answer[:n], err, want)
		}
	}
	ask("SLUICE.TAKE user ada", "-NOAUTH")
	ask("AUTH shop wrong", "-WRONGPASS")
	ask("AUTH shop shop-0123456789abcdef", "+OK")
	ask("SLUICE.HOLD user ada chat-1 4 60000", "*8\r\n:1\r\n:6\r\n")
	ask("SLUICE.RESET user ada", "-NOPERM")
	ask("CL.THROTTLE a 1 1 1", "-NOPERM")
	if a := (apiClient{url: s.URLs[1], secret: "shop-0123456789abcdef"}).call(t, "/v1/settle", `{"rule": "user", "headers": {"X-User": ["ada"]}, "id": "chat-1", "cost": 1}`); a.Hold != "settled" {
		t.Errorf("settled by the API: %+v", a)
	}
	ask("SLUICE.PEEK user ada", "*8\r\n:1\r\n:9\r\n")
	ask("AUTH ops-0123456789abcdef", "+OK")
	ask("CL.THROTTLE a 1 1 1", "*5\r\n:0\r\n")
	ask("SLUICE.RESET user ada", "+OK")
	write(`{"tokens": [` + shop + `]}`)
	testkit.Until(t, "the token to be gone", func() bool {
		if _, err := io.WriteString(c, "PING\r\n"); err != nil {
			t.Fatal(err)
		}
		answer := make([]byte, 512)
		n, err := c.Read(answer)
		return err == nil && strings.HasPrefix(string(answer[:n]), "-NOAUTH")
	})
}

// TestRESPShared: on Redis, too, a pipeline is answered in order, with keys that come again and
// with other limits.
func TestRESPShared(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t, redistest.Redis(t))
	s := servetest.Start(t, fmt.Sprintf("listen: {address: \"127.0.0.1:0\", serve: resp}\nstore: {redis: {url: %q}}\nrules: [{name: user, by: header.X-User, limits: 20/day sliding-log}]\n", redis.URL()))
	c := servetest.Dial(t, s.URLs[0], "")
	var send, want strings.Builder
	for i := range 8 {
		fmt.Fprintf(&send, "CL.THROTTLE k 15 1 86400\r\nSLUICE.TAKE user ada\r\nCL.THROTTLE other%d 15 1 86400\r\nCL.THROTTLE k 15 2 86400 0\r\n", i)
		fmt.Fprintf(&want, "0 %d 1 %d 0 15 0 %d ", 15-i, 19-i, 15-i)
	}
	if _, err := io.WriteString(c, send.String()); err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	r := bufio.NewReader(c)
	line := func() string {
		t.Helper()
		text, err := r.ReadString('\n')
		if err != nil {
			t.Fatal(got.String(), err)
		}
		return strings.TrimSpace(text)
	}
	for range 32 {
		head := line()
		first := line()
		switch head {
		case "*5":
			line()
			fmt.Fprintf(&got, "%s %s ", first[1:], line()[1:])
			line()
			line()
		case "*8":
			fmt.Fprintf(&got, "%s %s ", first[1:], line()[1:])
			for range 3 + 2*3 {
				line()
			}
		default:
			t.Fatalf("after %q: %s %s", got.String(), head, first)
		}
	}
	if got.String() != want.String() {
		t.Errorf("got  %s\nwant %s", got.String(), want.String())
	}
}
