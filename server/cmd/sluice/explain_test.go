// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/policy/evaluate"
	"github.com/sluicegate/sluice/server/internal/admin"
	"github.com/sluicegate/sluice/server/internal/cli"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

const explainRules = `
rules:
  - {name: api, by: [header.X-User, ip], limits: [3/min sliding-log, 100/h sliding-log], candidates: {tight: 1/min sliding-log}}
  - {name: trial, by: ip, limits: 2/min sliding-log, mode: shadow}
  - {name: login, match: {method: POST, path: /login}, by: ip, limits: 1/min fixed-window}
`

// upFor is for how long a node is up, in what status says.
var upFor = regexp.MustCompile(`(up|\d+s) +(last seen|this node)`)

// TestExplainCommand: the explanation is the decision of the next request, with a store
// in this process and with a shared one, and it changes no number that the program shows.
func TestExplainCommand(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, store string }{
		{"memory", ""},
		{"redis", "store: {redis: {url: " + redistest.Start(t, redistest.Redis(t)).URL() + "}}\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := servetest.Start(t, c.store+fmt.Sprintf("upstream: %q\n", servetest.Named(t, "up"))+explainRules, servetest.Stopped)
			at := "--admin=" + s.Admin
			explain := func(want ...string) string {
				t.Helper()
				out, _ := command(t, cli.OK, "explain", "/", "--client=127.0.0.1", "--header", "X-User: ada", at)
				testkit.Contains(t, out, want...)
				return out
			}
			shown := func() string {
				var status string
				testkit.Until(t, "the store", func() bool {
					status, _ = command(t, cli.OK, "status", at)
					return !strings.Contains(status, "The store cannot be reached")
				})
				status = upFor.ReplaceAllString(status, "$2")
				var lines []string
				for name, value := range s.Metrics(t) {
					if strings.HasPrefix(name, "sluice_") && !strings.Contains(name, "seconds") && name != `sluice_tcp_open_connections{listener="127.0.0.1:0"}` {
						lines = append(lines, fmt.Sprint(name, " ", value))
					}
				}
				slices.Sort(lines)
				return status + strings.Join(lines, "\n")
			}
			for i, want := range []int{200, 200, 200, 429} {
				before := shown()
				switch i {
				case 0:
					explain("allowed\n", "header.X-User=ada ip=127.0.0.1", "counts 0 of 3: 3 left", "candidate: tight would allow", "login: path: / is not /login; method: GET is not POST")
				case 2:
					explain("allowed; in shadow mode it would be denied by", "counts 2 of 3: 1 left", "costs 1: allowed, 0 left after it")
				case 3:
					explain("denied by", "counts 3 of 3: 0 left", "it would pass in", "would pass with a quota of 4, in place of 3")
				}
				if got := shown(); got != before {
					t.Errorf("before:\n%s\nbehind:\n%s", before, got)
				}
				s.Want(t, want, "/", "X-User", "ada")
			}
			out, _ := command(t, cli.OK, "explain", "POST", "/login", "--client=192.0.2.1", "--body-bytes=12", "--json", at)
			var e evaluate.Explanation
			if err := json.Unmarshal([]byte(out), &e); err != nil || e.Verdict != "refused" || e.Why != "header X-User is missing" {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

// TestExplainListener: a request is explained as at a listener, which has rules and clients of its
// own.
func TestExplainListener(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "sluice.yaml")
	testkit.WriteFile(t, file, `
listen:
  - {address: "127.0.0.1:1", rules: [a], deny: 192.0.2.0/24}
  - {address: "127.0.0.1:3", serve: api, rules: [b], name: third}
rules: [{name: a, limits: 5/min}, {name: b, limits: 5/min}]
`)
	for listener, want := range map[string]string{"": "rule a", "third": "rule b", "127.0.0.1:1": "not allowed", "none": "use one of 127.0.0.1:1, third"} {
		args := []string{"explain", "/x", "--config", file, "--client", "192.0.2.7"}
		if listener != "" {
			args = append(args, "--listener", listener)
		}
		code := 0
		if listener == "none" {
			code = cli.Failed
		}
		out, errs := command(t, code, args...)
		if text := out + errs; !strings.Contains(text, want) || listener == "third" && strings.Contains(text, "rule a") {
			t.Errorf("%q: %s, want %s", listener, text, want)
		}
	}
}

// TestExplainDescriptor: a descriptor is explained by the rules of the listener for descriptors.
func TestExplainDescriptor(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "sluice.yaml")
	testkit.WriteFile(t, file, `
listen: ["127.0.0.1:1", {address: "127.0.0.1:2", serve: rls}]
rules: [{name: ip, by: ip, limits: 5/min}, {name: user, match: {descriptor: {user: "*"}}, by: descriptor.user, limits: 5/min}]
`)
	out, _ := command(t, cli.OK, "explain", "http://shop/", "--descriptor", "user=ada", "--config", file)
	if !strings.HasPrefix(out, "allowed\n") || strings.Contains(out, "rule ip") {
		t.Error(out)
	}
}

// TestExplainFile: without a running program, the configuration file is explained.
func TestExplainFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	key := filepath.Join(dir, "key")
	testkit.WriteFile(t, key, strings.Repeat("k", 32))
	file := filepath.Join(dir, "sluice.yaml")
	err := os.WriteFile(file, fmt.Appendf(nil, `
tokens: {hmac_file: %q}
deny: [203.0.113.0/24]
rules:
  - {name: users, by: claim.sub, limits: 10/min, match: {host: api.example}}
  - {name: spiffe, by: cert.uri, missing: skip, limits: 10/min}
  - {name: upload, match: {method: PUT}, cost: request-bytes, by: ip, limits: 1MB/min}
  - {name: office, exempt: {networks: 198.51.100.0/24}, by: ip, limits: 5/min}
`, key), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		args []string
		want []string
	}{
		{"a claim", []string{"https://api.example/", "--claim=sub=7", "--client=192.0.2.1"}, []string{"allowed\n", "claim.sub=7", "costs 1: allowed, 9 left after it"}},
		{"another host", []string{"https://b.example/", "--client=192.0.2.1"}, []string{"users: host: b.example is not api.example"}},
		{"a token that is none", []string{"https://api.example/", "--client=192.0.2.1", "-H=Authorization: Bearer x.y.z"}, []string{"refused: ", "token"}},
		{"a certificate", []string{"/", "--client=192.0.2.1", "--cert=uri=spiffe://a/b"}, []string{"cert.uri=spiffe://a/b"}},
		{"bytes", []string{"PUT", "/", "--client=192.0.2.1", "--body-bytes=1000001"}, []string{"denied by", "it never passes", "denied for good, as the limit never has more than 1000000", "a cost of 1000000 at most"}},
		{"not let in", []string{"/", "--client=203.0.113.7"}, []string{"refused: requests from this network are not allowed"}},
		{"exempt", []string{"/", "--client=198.51.100.7"}, []string{"matches, and exempts the client's network"}},
		{"a request that others read differently", []string{"/", "--client=192.0.2.1", "-H=Host: a b"}, []string{"refused: the request's host is not a name"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, _ := command(t, cli.OK, append([]string{"explain", "--config=" + file}, c.args...)...)
			testkit.Contains(t, out, c.want...)
		})
	}
	for _, c := range []struct {
		name string
		code int
		args []string
		want string
	}{
		{"no URL", cli.Usage, nil, "expected a URL"},
		{"three words", cli.Usage, []string{"GET", "/", "x"}, "got 3 arguments"},
		{"a header that is none", cli.Usage, []string{"/", "--header=x"}, `expected one such as "X-User: ada"`},
		{"a claim twice", cli.Usage, []string{"/", "--claim=a=1", "--claim=a=2"}, "expected each once"},
		{"a size that is none", cli.Usage, []string{"/", "--body-bytes=-1"}, "expected a number of bytes"},
		{"a file and a program", cli.Usage, []string{"/", "--admin=x"}, "give one of them"},
		{"no path", cli.Failed, []string{"orders"}, "use a path such as /orders"},
		{"another scheme", cli.Failed, []string{"ftp://x/"}, "is not of http"},
		{"an address that is none", cli.Failed, []string{"/", "--client=home"}, `client "home" is not an address`},
		{"a method that is none", cli.Failed, []string{"G T", "/"}, "is not one word"},
		{"a field that is none", cli.Failed, []string{"/", "--header=a b: c"}, "is not a header field's name"},
	} {
		t.Run(c.name, func(t *testing.T) {
			failsWith(t, c.code, c.want, append([]string{"explain", "--config=" + file}, c.args...)...)
		})
	}
}

// TestExplainIsForOperators: an API with a token explains nothing without it, because the
// state of a key would reveal its hash in /v1/top. The document is bounded.
func TestExplainIsForOperators(t *testing.T) {
	t.Parallel()
	tokens := filepath.Join(t.TempDir(), "token")
	const secret = "0123456789abcdef0123456789abcdef"
	testkit.WriteFile(t, tokens, secret)
	s := servetest.Start(t, fmt.Sprintf("admin: {address: 127.0.0.1:0, token_file: %q}\nupstream: %q\n", tokens, servetest.Named(t, "up"))+explainRules, servetest.Stopped)
	at := "--admin=" + s.Admin
	failsWith(t, cli.Failed, "this needs the token", "explain", "/", at)
	command(t, cli.OK, "explain", "/", at, "--token-file", tokens)
	for _, c := range []struct {
		name, body, want string
		status           int
	}{
		{"nothing", "", "cannot be read", 400},
		{"no document", "[]", "cannot be read", 400},
		{"an unknown field", `{"url":"/","uri":"/"}`, "unknown field", 400},
		{"two documents", `{"url":"/"}{}`, "followed by something else", 400},
		{"no URL", `{}`, "use a path such as /orders", 400},
		{"less than no bytes", `{"url":"/","body_bytes":-1}`, "body_bytes is -1", 400},
		{"too large", `{"url":"/` + strings.Repeat("x", 300<<10) + `"}`, "too large", 413},
		{"a field in two cases", `{"url":"/","headers":{"X-User":["a"],"x-user":["b"]}}`, "X-User is named twice", 400},
		{"a host in two cases", `{"url":"/","headers":{"Host":["a"],"host":["b"]}}`, "Host is named twice", 400},
		{"too many fields", `{"url":"/","headers":{` + strings.TrimSuffix(strings.Join(fieldsOf(300), ","), ",") + `}}`, "at most 256", 400},
	} {
		t.Run(c.name, func(t *testing.T) {
			req := servetest.Request(t.Context(), t, http.MethodPost, s.Admin+"/v1/explain", strings.NewReader(c.body), "Authorization", "Bearer "+secret)
			a := servetest.Do(t, http.DefaultClient, req)
			var fault admin.Error
			if err := json.Unmarshal([]byte(a.Body), &fault); err != nil || a.Status != c.status || !strings.Contains(fault.Error, c.want) {
				t.Errorf("got %d %q, %v; want %d %q", a.Status, fault.Error, err, c.status, c.want)
			}
		})
	}
}

func fieldsOf(n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprintf(`"X-%d":["1"]`, i))
	}
	return list
}
