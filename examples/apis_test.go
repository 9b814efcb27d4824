// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package examples_test

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sluicegate/sluice/internal/testkit"
)

// TestAPIClients runs the clients of the API in other languages against sluice.
func TestAPIClients(t *testing.T) {
	dir, address := t.TempDir(), testkit.FreeAddress(t)
	bin := filepath.Join(dir, "sluice")
	if out, err := exec.CommandContext(t.Context(), "go", "-C", "../server", "build", "-o", bin, "./cmd/sluice").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for name, text := range map[string]string{
		"tokens.json": `{"tokens": [{"name": "shop", "secret": "change-me-0123456789"}]}`,
		"sluice.yaml": fmt.Sprintf(`
listen: {address: %q, serve: api, tokens_file: %q}
admin: off
rules:
  - {name: login, match: {path: /login}, by: ip, limits: 2/day}
  - {name: llm, by: header.X-User, limits: 1000/day sliding-log debt 1000}
`, address, filepath.Join(dir, "tokens.json")),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), bin, "serve", "--config", filepath.Join(dir, "sluice.yaml"))
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "sluice to answer", func() bool {
		resp, err := http.Get("http://" + address + "/v1/openapi.json")
		return err == nil && resp.Body.Close() == nil
	})
	const want = `login 1: 1 left
login 2: 0 left
login 3: denied by login
held 500, used 120
left: 850, all allowed: false
fault of cost: is -1; it must be 0 to 9007199254740991
`
	for _, c := range []struct{ dir, program, file, want string }{
		{"api-node", "node", "main.js", "rules: login llm\n" + want},
		{"api-python", "python3", "example.py", strings.NewReplacer("fault of cost:", "fault of 400 cost", "allowed: false", "allowed: False").Replace(want)},
	} {
		t.Run(c.dir, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), c.program, c.file)
			cmd.Dir = c.dir
			cmd.Env = append(os.Environ(), "SLUICE_URL=http://"+address, "SLUICE_TOKEN=change-me-0123456789", "PYTHONDONTWRITEBYTECODE=1")
			if out, err := cmd.CombinedOutput(); err != nil || string(out) != c.want {
				t.Errorf("printed, %v:\n%s\nwant\n%s", err, out, c.want)
			}
		})
	}
}

// TestAPIGenerated: the client in TypeScript is what its tools make of the OpenAPI document.
func TestAPIGenerated(t *testing.T) {
	testkit.Long(t)
	npm, err := exec.LookPath("npm")
	if err != nil {
		t.Skip("npm is not installed")
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("api-node")); err != nil {
		t.Fatal(err)
	}
	document, err := filepath.Abs("../server/internal/front/api/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{npm, "ci", "--no-audit", "--no-fund"}, {"npx", "openapi-typescript", document, "-o", "api.ts"}, {"npx", "tsc"}} {
		cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	for _, name := range []string{"api.ts", "api.js", "client.js", "main.js"} {
		checkedIn, err := os.ReadFile(filepath.Join("api-node", name))
		made, merr := os.ReadFile(filepath.Join(dir, name))
		if err != nil || merr != nil || !bytes.Equal(checkedIn, made) {
			t.Errorf("%s is not what the tools make (%v, %v); run npm run generate and npm run build", name, err, merr)
		}
	}
}
