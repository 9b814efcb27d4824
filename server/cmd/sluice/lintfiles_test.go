// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	file "github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/cli"
	"github.com/sluicegate/sluice/server/internal/serve"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// TestLintFiles: a file that the configuration names, and with which serve would
// not start, is a fault with its place, for lint as for serve; lint passes over
// them where a flag asks for it.
func TestLintFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	write := func(name, text string) { testkit.WriteFile(t, at(name), text) }
	servetest.Pipe(t, at("pipe"))
	write("short", "too short\n")
	write("secret", strings.Repeat("s", 64))
	write("garbage", "{")
	if err := os.Mkdir(at("folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, yaml string
		want       []string // faults behind the file's name; none: it is as it should be
	}{
		{"no secret", "tokens: {hmac_file: %s/none}", []string{":1:21: token: stat %s/none: no such file or directory"}},
		{"a short secret", "tokens: {hmac_file: %s/short}", []string{":1:21: token: "}},
		{"no key", "tokens:\n  key_file: %s/none", []string{":2:13: token: "}},
		{"a key set that is none", "tokens: {jwks_file: %s/garbage}", []string{":1:21: token: "}},
		{"a secret", "tokens: {hmac_file: %s/secret}", nil},
		{
			"no certificate", "listen: [127.0.0.1:0, {address: 127.0.0.2:0, tls: {cert: %s/none.pem, key: %s/key.pem}}]",
			[]string{":1:58: certificate: stat %s/none.pem: no such file", ":1:58: certificate: stat %s/key.pem: no such file"},
		},
		{"no pair", "listen: {address: 127.0.0.1:0, tls: {cert: %s/short, key: %s/short}}", []string{":1:44: certificate: "}},
		{
			"no client authority", "listen:\n  address: 127.0.0.1:0\n  tls:\n    cert: %s/none.pem\n    key: %s/none.pem\n    client_ca: %s/garbage",
			[]string{":4:11: certificate: stat %s/none.pem: no such file", ":6:16: certificate: %s/garbage: holds no certificate in PEM"},
		},
		{"no token", "admin: {address: 127.0.0.1:0, token_file: %s/none}", []string{":1:43: token file: "}},
		{"a short token", "admin: {address: 127.0.0.1:0, token_file: %s/short}", []string{":1:43: token file %s/short: 9 bytes can be guessed"}},
		{"a token", "admin: {address: 127.0.0.1:0, token_file: %s/secret}", nil},
		{"overrides to come", "admin: {address: 127.0.0.1:0, overrides_file: %s/none}", nil},
		{"overrides without a folder", "admin: {address: 127.0.0.1:0, overrides_file: %s/no/file}", []string{":1:47: %s/no: no such folder; make it"}},
		{"overrides in a file", "admin: {address: 127.0.0.1:0, overrides_file: %s/secret/file}", []string{":1:47: %s/secret: is no folder"}},
		{"overrides that cannot be read", "admin: {address: 127.0.0.1:0, overrides_file: %s/garbage}", []string{":1:47: override: %s/garbage cannot be read"}},
		{"an audit file to come", "admin: {address: 127.0.0.1:0, audit_file: %s/none}", nil},
		{"an audit file without a folder", "admin: {address: 127.0.0.1:0, audit_file: %s/no/file}", []string{":1:43: %s/no: no such folder; make it"}},
		{"an audit file that is a folder", "admin: {address: 127.0.0.1:0, audit_file: %s/folder}", []string{":1:43: %s/folder is a directory; use the path of a regular file"}},
		{"a state to come", "store: {memory: {state: %s/none}}", nil},
		{"a state in a pipe", "store: {memory: {state: %s/pipe}}", []string{":1:25: %s/pipe is a pipe"}},
		{"logs to come", "decision_log: {file: %s/none}\naccess_log: %s/none2", nil},
		{"logs to streams", "decision_log: {file: stdout, secret_file: %s/secret}\naccess_log: /dev/stdout", nil},
		{"logs to a pipe and a device", "decision_log: %s/pipe\naccess_log: {file: /dev/null}", nil},
		{"logs without a folder", "decision_log: %s/no/file\naccess_log: {file: %s/folder}", []string{":1:15: %s/no: no such folder; make it", ":2:20: %s/folder is a directory"}},
		{"a short secret of the log's", "decision_log: {file: stdout, secret_file: %s/short}", []string{":1:43: secret file %s/short: 9 bytes can be guessed"}},
		{"no password", "store: {redis: {url: \"redis://127.0.0.1:1?password_file=%s/none\"}}", []string{":1:22: password_file: stat %s/none: no such file"}},
		{"no certificate of the store's", "store: {redis: {url: \"rediss://127.0.0.1:1?ca_file=%s/none\"}}", []string{":1:22: ca_file: "}},
		{"no secret of the store's", "store: {redis: {url: \"redis://127.0.0.1:1?secret_file=%s/none\"}}", []string{":1:22: secret_file: "}},
		{"a short secret of the store's", "store: {redis: {url: \"redis://127.0.0.1:1?secret_file=%s/short\"}}", []string{":1:22: secret_file: a secret of 10 bytes can be guessed"}},
		{"all at once", "tokens: {hmac_file: %s/none}\nadmin: {address: 127.0.0.1:0, token_file: %s/none}", []string{":1:21: token: ", ":2:43: token file: "}},
	} {
		t.Run(c.name, func(t *testing.T) {
			yaml := strings.ReplaceAll(c.yaml, "%s", dir) + "\nrules: [{name: a, by: ip, limits: 5/min}]\n"
			file := at("sluice.yaml")
			write("sluice.yaml", yaml)
			if out, _ := command(t, cli.OK, "lint", "--without-files", file); !strings.Contains(out, "5/min") {
				t.Errorf("without files: got %q", out)
			}
			if c.want == nil {
				command(t, cli.OK, "lint", file)
				return
			}
			_, linted := command(t, cli.Failed, "lint", file)
			_, served := command(t, cli.Failed, "serve", "--config", file)
			for by, stderr := range map[string]string{"lint": linted, "serve": served} {
				for _, want := range c.want {
					if want = file + strings.ReplaceAll(want, "%s", dir); !strings.Contains(stderr, want) {
						t.Errorf("%s: got %q, want %q", by, stderr, want)
					}
				}
				if n := strings.Count(stderr, file+":"); n != len(c.want) {
					t.Errorf("%s: %d faults, want %d: %s", by, n, len(c.want), stderr)
				}
			}
		})
	}
	files, err := filepath.Glob(at("*.tmp"))
	if err != nil || len(files) > 0 {
		t.Errorf("lint has written %v, %v", files, err)
	}
}

// TestLintLimitsOfEnvoy: lint warns of keys without effect in the files of limits, with their
// places, once if several listeners have the file.
func TestLintLimitsOfEnvoy(t *testing.T) {
	t.Parallel()
	limits := testkit.TempFile(t, "limits.yaml", "domain: d\ndescriptors:\n  - {key: k, unit: day, rate_limit: {unit: day}}\n")
	conf := testkit.TempFile(t, "sluice.yaml", fmt.Sprintf("listen:\n  - {address: 127.0.0.1:1, serve: rls, rls: {files: %s}}\n  - {address: 127.0.0.1:2, serve: rls, rls: {files: %[1]s}}\nrules: []\n", limits))
	for format, want := range map[string]string{
		"text": limits + ":3:14: warning: unit has no effect in a descriptor; it belongs in rate_limit\n",
		"json": `"line": 3,
      "column": 14,
      "text": "unit has no effect in a descriptor; it belongs in rate_limit"`,
		"github": "::warning file=" + limits + ",line=3,col=14::unit has no effect",
	} {
		var out, faults strings.Builder
		if code := run(t.Context(), []string{"lint", "--format", format, conf}, &out, &faults); code != 0 || strings.Count(out.String(), want) != 1 {
			t.Errorf("%s: exit code %d, %s%s", format, code, out.String(), faults.String())
		}
		if code := run(t.Context(), []string{"lint", "--format", format, "--strict", conf}, &out, &faults); code == 0 {
			t.Errorf("%s: --strict passes", format)
		}
		out.Reset()
		if code := run(t.Context(), []string{"lint", "--format", format, "--without-files", conf}, &out, &faults); code != 0 || strings.Contains(out.String(), "no effect") {
			t.Errorf("%s: exit code %d, %s", format, code, out.String())
		}
	}
}

// TestEveryFileIsChecked: lint checks the file of every key of the configuration that names
// a path.
func TestEveryFileIsChecked(t *testing.T) {
	t.Parallel()
	folder := t.TempDir() // where a file should be
	tests := map[string]string{
		"cert":           "listen: {address: 127.0.0.1:0, tls: {cert: %s, key: none}}",
		"key":            "listen: {address: 127.0.0.1:0, tls: {cert: none, key: %s}}",
		"client_ca":      "listen: {address: 127.0.0.1:0, tls: {cert: none, key: none, client_ca: %s}}",
		"tokens_file":    "listen: {address: 127.0.0.1:0, serve: api, tokens_file: %s}",
		"jwks_file":      "tokens: {jwks_file: %s}",
		"hmac_file":      "tokens: {hmac_file: %s}",
		"key_file":       "tokens: {key_file: %s}",
		"token_file":     "admin: {address: 127.0.0.1:0, token_file: %s}",
		"overrides_file": "admin: {address: 127.0.0.1:0, overrides_file: %s}",
		"audit_file":     "admin: {address: 127.0.0.1:0, audit_file: %s}",
		"file":           "decision_log: {file: %s}",
		"secret_file":    "decision_log: {file: stderr, secret_file: %s}",
		"state":          "store: {memory: {state: %s}}",
	}
	for key, yaml := range tests {
		c, err := file.Parse("sluice.yaml", []byte(fmt.Sprintf(yaml, folder)+"\nrules: [{name: a, by: ip, limits: 5/min}]\n"))
		if err != nil {
			t.Fatalf("%s: %v", key, err)
		}
		if err := serve.CheckFiles(c); err == nil || !strings.Contains(err.Error(), folder+" is a directory") {
			t.Errorf("%s: got %v", key, err)
		}
	}
	sources, err := filepath.Glob("../../../config/*.go")
	if err != nil {
		t.Fatal(err)
	}
	read := 0
	for _, name := range sources {
		text := testkit.ReadFile(t, name)
		for _, call := range regexp.MustCompile(`d\.path\("(\w+)"`).FindAllSubmatch(text, -1) {
			if _, tested := tests[string(call[1])]; !tested {
				t.Errorf("%s reads the path of a file under %s; check it, and test that here", name, call[1])
			}
			read++
		}
	}
	if read < len(tests) {
		t.Errorf("%d keys with the path of a file are read, and %d tested", read, len(tests))
	}
}

// TestLintRelativeFiles: a relative path is looked for where serve would look,
// from the folder in which it is started, and the fault says where that is.
func TestLintRelativeFiles(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.Mkdir("etc", 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"etc/sluice.yaml": "tokens: {hmac_file: secret}\nrules: [{name: a, by: ip, limits: 5/min}]\n", "etc/secret": strings.Repeat("s", 64),
	} {
		testkit.WriteFile(t, name, text)
	}
	_, stderr := command(t, cli.Failed, "lint", "etc/sluice.yaml")
	if want := fmt.Sprintf("no such file or directory; relative paths begin where sluice is started, which is %s here", dir); !strings.Contains(stderr, want) {
		t.Errorf("got %q, want %q", stderr, want)
	}
	t.Chdir("etc")
	command(t, cli.OK, "lint", "sluice.yaml")
}
