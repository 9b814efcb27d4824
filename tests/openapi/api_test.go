// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package openapi_test checks that the API of decisions is as its OpenAPI document says, by a
// library that reads both.
package openapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"

	"github.com/sluicegate/sluice/internal/testkit"
)

const secret = "0123456789abcdef"

// start starts sluice with an API, and returns the URL of that.
func start(t *testing.T) string {
	t.Helper()
	dir, address := t.TempDir(), testkit.FreeAddress(t)
	bin := filepath.Join(dir, "sluice")
	if out, err := exec.CommandContext(t.Context(), "go", "-C", "../../server", "build", "-o", bin, "./cmd/sluice").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("tokens.json", fmt.Sprintf(`{"tokens": [{"name": "all", "secret": %q, "own_limits": true, "operations": ["take", "peek", "hold", "settle", "extend", "refund", "reset", "slots"]}, {"name": "few", "secret": "few-%s", "rules": ["user"], "operations": ["peek"]}]}`, secret, secret))
	write("sluice.yaml", fmt.Sprintf(`
listen: {address: %q, serve: api, tokens_file: %q}
admin: off
rules:
  - {name: user, match: {path: "/api/*"}, by: [header.X-User, claim.sub, query.q, cookie.c, ip], missing: share, limits: [10/min sliding-log debt 10, 1000/day]}
  - {name: shadow, mode: shadow, limits: 1/day}
  - {name: soft, limits: {soft: 1/day, grace: 1/day}}
  - {name: queue, limits: "1/s leaky-bucket burst 5"}
`, address, filepath.Join(dir, "tokens.json")))
	ctx, stop := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, bin, "serve", "--config", filepath.Join(dir, "sluice.yaml"))
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(stop)
	url := "http://" + address
	testkit.Until(t, "the API to answer", func() bool {
		select {
		case err := <-ended:
			t.Fatalf("%v: %s", err, &log)
		default:
		}
		resp, err := http.Get(url + "/v1/openapi.json") //nolint:noctx // it is asked again
		return err == nil && resp.Body.Close() == nil
	})
	return url
}

// checked sends requests, and checks them and the answers by the document.
type checked struct {
	t     *testing.T
	url   string
	by    validator.Validator
	token string
	seen  map[string]bool // operations with an answer
}

// send sends a request. One that is not valid by the document must be refused.
func (c *checked) send(method, path, body string, header ...string) map[string]any {
	t := c.t
	t.Helper()
	make := func() *http.Request {
		req, err := http.NewRequestWithContext(t.Context(), method, c.url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+c.token)
		if method == http.MethodPost {
			req.Header.Set("Content-Type", "application/json")
		}
		for i := 0; i < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		return req
	}
	resp, err := http.DefaultClient.Do(make())
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	valid, faults := c.by.ValidateHttpRequest(make())
	if (resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden) && !valid {
		t.Errorf("%s %s is not valid by the document, and was answered with %d %s: %s", path, body, resp.StatusCode, text, describe(faults))
	}
	resp.Body = io.NopCloser(bytes.NewReader(text))
	if ok, faults := c.by.ValidateHttpResponse(make(), resp); !ok {
		t.Errorf("%s %s: the answer %d %s is not valid by the document: %s", path, body, resp.StatusCode, text, describe(faults))
	}
	var of map[string]any
	if err := json.Unmarshal(text, &of); err != nil {
		t.Fatalf("%s: %s: %v", path, text, err)
	}
	if of["status"] = resp.StatusCode; resp.StatusCode == http.StatusOK {
		c.seen[path] = true
	}
	return of
}

func describe[E interface{ Error() string }](faults []E) string {
	var b strings.Builder
	for _, f := range faults {
		b.WriteString("\n" + f.Error())
	}
	return b.String()
}

// TestDocument: requests that are answered, and all answers, are valid by the document, which
// is valid itself and names each operation.
func TestDocument(t *testing.T) {
	url := start(t)
	resp, err := http.Get(url + "/v1/openapi.json") //nolint:noctx // the server answers
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.ReplaceAll(text, []byte("http://127.0.0.1:8081"), []byte(url))
	document, err := libopenapi.NewDocument(text)
	if err != nil {
		t.Fatal(err)
	}
	by, faults := validator.NewValidator(document)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	if ok, faults := by.ValidateDocument(); !ok {
		t.Fatalf("the document: %s", describe(faults))
	}
	c := &checked{t, url, by, secret, map[string]bool{"/v1/openapi.json": true}}
	const user = `"rule": "user", "method": "POST", "host": "a.example", "path": "/api/x", "headers": {"X-User": ["ada"]}, "query": {"q": ["1"]}, "cookies": {"c": ["1"]}, "client": "192.0.2.7", "claims": {"sub": "ada"}, "certificate": {"cn": "a"}, "body_bytes": 3`
	const own = `"scope": "jobs", "key": "ada", "limits": ["10/min sliding-log debt 10", "1000/day"]`
	for _, of := range []string{user, own} {
		a := c.send("POST", "/v1/take", `{`+of+`, "cost": 2, "remember_ms": 2000}`)
		receipt, _ := a["receipt"].(string)
		c.send("POST", "/v1/take", `{`+of+`}`, "Idempotency-Key", "k")
		c.send("POST", "/v1/take", `{`+of+`, "cost": 10}`)
		c.send("POST", "/v1/take", `{`+of+`, "cost": 11}`)
		c.send("POST", "/v1/take", `{"all": true, "requests": [{`+of+`}, {`+of+`, "cost": 10}]}`)
		c.send("POST", "/v1/peek", `{`+of+`}`)
		c.send("POST", "/v1/refund", fmt.Sprintf(`{%s, "receipt": %q, "cost": 1}`, of, receipt))
		c.send("POST", "/v1/hold", `{`+of+`, "id": "h", "cost": 3, "ttl_ms": 60000}`)
		c.send("POST", "/v1/hold", `{"requests": [{`+of+`, "cost": 1, "ttl_ms": 60000}]}`)
		c.send("POST", "/v1/hold", `{`+of+`, "id": "h", "cost": 4, "ttl_ms": 60000}`)
		c.send("POST", "/v1/extend", `{`+of+`, "id": "h", "ttl_ms": 60000}`)
		c.send("POST", "/v1/settle", `{`+of+`, "id": "h", "cost": 4}`)
		c.send("POST", "/v1/settle", `{`+of+`, "id": "nix", "cost": 4, "retry": true}`)
		c.send("POST", "/v1/settle", `{`+of+`, "id": "nix2", "cost": 4}`)
		c.send("POST", "/v1/reset", `{`+of+`}`)
	}
	for range 3 {
		for _, rule := range []string{"shadow", "soft", "queue", "user"} {
			c.send("POST", "/v1/take", fmt.Sprintf(`{"requests": [{"rule": %q}]}`, rule))
		}
	}
	for _, owner := range []string{"a", "b"} {
		slot := fmt.Sprintf(`{"scope": "s", "key": "k", "owner": %q, "cap": 1, "ttl_ms": 60000}`, owner)
		for _, op := range []string{"acquire", "renew", "release", "acquire"} {
			c.send("POST", "/v1/slots/"+op, slot)
		}
	}
	c.send("GET", "/v1/rules", "")
	for _, body := range []string{`{}`, `{"rule": "nix"}`, `{"rule": "user", "cost": -1}`, `{"rule": "user", "x": 1}`, `{"requests": []}`, `[`, `{"requests": [{"rule": "user", "cost": 1.5}, {"rule": 7}]}`} {
		if a := c.send("POST", "/v1/take", body); a["status"] != http.StatusBadRequest {
			t.Errorf("%s: got %v", body, a)
		}
	}
	c.token = "few-" + secret
	if a := c.send("POST", "/v1/take", `{"rule": "user"}`); a["status"] != http.StatusForbidden {
		t.Errorf("got %v", a)
	}
	c.token = "nix"
	if a := c.send("POST", "/v1/take", `{"rule": "user"}`); a["status"] != http.StatusUnauthorized {
		t.Errorf("got %v", a)
	}
	var of struct {
		Paths map[string]any `json:"paths"`
	}
	if err := json.Unmarshal(text, &of); err != nil || len(of.Paths) != len(c.seen) {
		t.Errorf("%d operations are described, and %d were tried, %v", len(of.Paths), len(c.seen), err)
	}
	for path := range of.Paths {
		if !c.seen[path] {
			t.Errorf("%s has not been tried", path)
		}
	}
}
