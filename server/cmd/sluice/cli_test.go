// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/cli"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// TestPages: the documents hold the pages that the program writes.
func TestPages(t *testing.T) {
	t.Parallel()
	for file, args := range map[string][]string{"cli.md": {"man", "--markdown"}, "configuration-keys.md": {"schema", "--markdown"}} {
		want := testkit.ReadFile(t, "../../../docs/"+file)
		if got, _ := command(t, cli.OK, args...); got != string(want) {
			t.Errorf("docs/%s differs from what go -C server run ./cmd/sluice %s writes; write it again", file, strings.Join(args, " "))
		}
	}
}

// TestHelpOfAll: each command's help, the manual and the page have its flags, and
// no fault is reported by pages of text.
func TestHelpOfAll(t *testing.T) {
	t.Parallel()
	manual, _ := command(t, cli.OK, "man")
	testkit.Contains(t, manual, "\nsluice \\- limits the rate") // as indexes of manuals read it
	for _, c := range newProgram().Commands {
		words := strings.Fields(c.Name)
		help, _ := command(t, cli.OK, append([]string{"help"}, words...)...)
		if same, _ := command(t, cli.OK, append(words, "--help")...); same != help {
			t.Errorf("%s --help differs from help %s", c.Name, c.Name)
		}
		for _, f := range c.Flags {
			if !strings.Contains(help, "--"+f.Name) || !strings.Contains(manual, strings.ReplaceAll("--"+f.Name, "-", `\-`)) {
				t.Errorf("%s: --%s is not in the help, or not in the manual", c.Name, f.Name)
			}
		}
		if _, stderr := command(t, cli.Usage, append(words, "--zzzzzz")...); strings.Count(stderr, "\n") > 2 {
			t.Errorf("%s --zzzzzz: got\n%s", c.Name, stderr)
		}
	}
}

// TestJSON: the output for scripts is one document with the same facts as the text.
func TestJSON(t *testing.T) {
	t.Parallel()
	s := servetest.Start(t, fmt.Sprintf("upstream: %q\nrules: [{name: api, by: header.X-User, limits: 2/day sliding-log}]\n", servetest.Named(t, "up")), servetest.Stopped)
	for range 3 {
		s.Get(t, "/", "X-User", "ada")
	}
	dir := t.TempDir()
	conf := filepath.Join(dir, "nginx.conf")
	testkit.WriteFile(t, conf, "http { limit_req_zone $binary_remote_addr zone=one:10m rate=10r/s; server { location /a { limit_req zone=one; } location /b { limit_req zone=two; } } }\n")
	bad, good := filepath.Join(dir, "bad.yaml"), filepath.Join(dir, "good.yaml")
	testkit.WriteFile(t, bad, "rules:\n  - {name: a, by: ip, limts: 5/min}\n")
	testkit.WriteFile(t, good, "rules:\n  - {name: a, by: ip, limits: 5/min fixed-window}\n")
	for _, c := range []struct {
		code int
		args []string
		want []string
	}{
		{cli.OK, []string{"status", "--admin=" + s.Admin}, []string{`"name": "api"`, `"denied": 1`, `"top"`}},
		{cli.OK, []string{"key", "show", "header.X-User=ada", "--admin=" + s.Admin}, []string{`"remaining": 0`, `"rule": "api"`}},
		{cli.OK, []string{"key", "add", "header.X-User=ada", "--units=1", "--author=eve", "--admin=" + s.Admin}, []string{`"given": 1`}},
		{cli.OK, []string{"key", "override", "header.X-User=ada", "--rule=api", "--limit=9/day", "--reason=x", "--author=eve", "--admin=" + s.Admin}, []string{`"this_node_only": true`}},
		{cli.OK, []string{"key", "reset", "header.X-User=ada", "--author=eve", "--admin=" + s.Admin}, []string{`"rule": "api"`}},
		{cli.OK, []string{"explain", "/", "--header=X-User: ada", "--admin=" + s.Admin}, []string{`"verdict": "allowed"`}},
		{cli.OK, []string{"profiles"}, []string{`"name": "github"`}},
		{cli.OK, []string{"profiles", "nginx"}, []string{`"name": "nginx"`, `"vectors"`}},
		{cli.OK, []string{"convert", "nginx", conf}, []string{`"yaml": "`, `"line": 1`}},
		{cli.OK, []string{"lint", good}, []string{`"ok": true`, `"faults": []`, "at most 10 requests in any minute"}},
		{cli.Failed, []string{"lint", bad}, []string{`"ok": false`, `"line": 2`, `"column": `, `\"limts\"`}},
		{cli.OK, []string{"version"}, []string{`"go": "go1`}},
		{cli.OK, []string{"schema"}, []string{`"https://json-schema.org/draft/2020-12/schema"`, `"max_wait"`}},
	} {
		if c.args[0] != "schema" { // which is JSON as it is
			c.args = append(c.args, "--json")
		}
		out, _ := command(t, c.code, c.args...)
		var doc any
		if err := json.Unmarshal([]byte(out), &doc); err != nil {
			t.Errorf("%s: %v\n%s", c.args, err, out)
		}
		testkit.Contains(t, out, c.want...)
	}
}

// TestLintForms: annotations of a workflow, warnings that fail, standard input.
func TestLintForms(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bad, odd, fails := filepath.Join(dir, "bad,1%.yaml"), filepath.Join(dir, "odd.yaml"), filepath.Join(dir, "cases.yaml")
	testkit.WriteFile(t, bad, "rules:\n  - {name: a, by: ip, limts: 5/min}\n")
	testkit.WriteFile(t, odd, "rules:\n  - {name: a, by: ip, match: {path: /api/**}, limits: 5/min}\n")
	testkit.WriteFile(t, fails, "cases:\n  - name: too many\n    steps: [{given: {request: GET /, from: 192.0.2.1}, expect: denied}]\n")

	out, stderr := command(t, cli.Failed, "lint", "--format=github", bad)
	if want := "::error file=" + dir + "/bad%2C1%25.yaml,line=2,col="; !strings.HasPrefix(out, want) || strings.Count(out, "\n") != strings.Count(out, "::error") || stderr != "" {
		t.Errorf("got %q and %q, want %q", out, stderr, want)
	}
	out, _ = command(t, cli.Failed, "lint", "--format=github", "--test="+fails, odd)
	testkit.Contains(t, out, "::warning file="+odd+",line=2::", "::error file="+fails+",line=3,col=")
	command(t, cli.OK, "lint", odd)
	command(t, cli.Failed, "lint", "--strict", odd)
	command(t, cli.Usage, "lint", "--format=xml", odd)
	command(t, cli.Usage, "lint", "--format=github", "--json", odd)

	for _, c := range []struct {
		code       int
		text, want string
	}{{cli.OK, "rules: [{name: a, by: ip, limits: 5/min}]", "standard input, version"}, {cli.Failed, "rules: [{name: a, by: ip, limits: 5}]", "standard input:1:35: "}} {
		var stdout, stderr strings.Builder
		code := newProgram().Run(t.Context(), []string{"lint", "-"}, strings.NewReader(c.text), &stdout, &stderr)
		if code != c.code || !strings.Contains(stdout.String()+stderr.String(), c.want) {
			t.Errorf("%s: got %d\n%s%s\nwant %d and %q", c.text, code, &stdout, &stderr, c.code, c.want)
		}
	}
}

// TestHealth: a container's check asks the running program, and shows its answer.
func TestHealth(t *testing.T) {
	t.Parallel()
	s := servetest.Start(t, fmt.Sprintf("upstream: %q\nrules: [{name: api, by: ip, limits: 2/day}]\n", servetest.Named(t, "up")), servetest.Stopped)
	if out, _ := command(t, cli.OK, "healthz", "--admin="+s.Admin); out != "ok\n" {
		t.Errorf("got %q", out)
	}
	command(t, cli.OK, "healthz", "--ready", "--admin="+s.Admin)
	failsWith(t, cli.Failed, "refused", "healthz", "--admin=127.0.0.1:1")
	failsWith(t, cli.Failed, "is this the admin address", "healthz", "--admin="+s.URL)
	command(t, cli.Usage, "healthz", "--timeout=soon")
	command(t, cli.Usage, "healthz", "there")
	command(t, cli.Usage, "key", "audit", "there")
}

// TestCompletion: real shells complete commands, flags and the words of flags.
func TestCompletion(t *testing.T) {
	dir, self := t.TempDir(), os.Args[0]
	if err := os.Symlink(self, filepath.Join(dir, "sluice")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH")) // which the scripts run
	t.Setenv("SLUICE_TEST_AS_PROGRAM", "1")
	for _, shell := range cli.Shells {
		script, _ := command(t, cli.OK, "completion", shell)
		testkit.WriteFile(t, filepath.Join(dir, shell), script)
	}
	for line, want := range map[string][]string{
		"sluice ser":                    {"serve"},
		"sluice key ":                   {"add", "audit", "override", "reset", "show"},
		"sluice key sh":                 {"show"},
		"sluice lint --str":             {"--strict"},
		"sluice key show --ru":          {"--rule"},
		"sluice serve --failure ":       {"closed", "local", "open"},
		"sluice completion ":            {"bash", "fish", "powershell", "zsh"},
		"sluice serve --like shopify-r": {"shopify-rest"},
	} {
		words := strings.Split(line, " ")
		for shell, script := range map[string]string{
			"bash": fmt.Sprintf(`source /usr/share/bash-completion/bash_completion; source %q; compopt() { :; }
COMP_LINE=%q; COMP_POINT=${#COMP_LINE}; COMP_TYPE=9; COMP_WORDS=(%s); COMP_CWORD=%d; __start_sluice; printf '%%s\n' "${COMPREPLY[@]}"`, filepath.Join(dir, "bash"), line, strings.Join(quoted(words), " "), len(words)-1),
			"fish": fmt.Sprintf("source %s; complete -C %q", filepath.Join(dir, "fish"), line),
			// What zsh would offer is asked of the script's own calls.
			"zsh": fmt.Sprintf(`compdef() { :; }; _describe() { local w; for w in $completions; do w=${w%%%%:*}; [[ $w == ${words[-1]}* ]] && print -r -- $w; done; }
source %q; words=(%s); CURRENT=%d; _sluice; true`, filepath.Join(dir, "zsh"), strings.Join(quoted(words), " "), len(words)),
		} {
			got := shellLines(t, shell, "-c", script)
			for i := range got { // without what it does
				got[i], _, _ = strings.Cut(got[i], "\t")
				got[i], _, _ = strings.Cut(got[i], " ")
			}
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Errorf("%s, %q: got %q, want %q", shell, line, got, want)
			}
		}
	}
	command(t, cli.Usage, "completion", "tcsh")
	command(t, cli.Usage, "completion")
}

func quoted(words []string) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = "'" + w + "'"
	}
	return out
}

// shellLines returns what a shell writes.
func shellLines(t *testing.T, shell string, args ...string) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), shell, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", shell, err, out)
	}
	return strings.FieldsFunc(string(out), func(r rune) bool { return r == '\n' })
}

// TestManual: man shows the manual without a warning.
func TestManual(t *testing.T) {
	t.Parallel()
	page, _ := command(t, cli.OK, "man")
	cmd := exec.CommandContext(t.Context(), "groff", "-man", "-Tutf8", "-ww", "-z")
	cmd.Stdin = strings.NewReader(page)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestWhatToDo: the errors that a new user meets say what to do.
func TestWhatToDo(t *testing.T) {
	t.Parallel()
	out, _ := command(t, cli.OK, "key", "--help")
	if help, _ := command(t, cli.OK, "help", "key"); out != help || !strings.Contains(out, "sluice key show ") {
		t.Errorf("key --help: %q", out)
	}
	const at = "127.0.0.1:1" // nobody listens below the ports that tests use
	for _, c := range []struct {
		code int
		args []string
		want string
	}{
		{cli.Usage, []string{"keys", "--help"}, `sluice: unknown command "keys"; did you mean key?`},
		{cli.Usage, []string{"key"}, "sluice key: no command; use add, audit, override, reset, show\nsee sluice key --help\n"},
		{cli.Usage, []string{"key", "foo"}, `sluice key: unknown command "foo"; use add, audit, `},
		{cli.Usage, []string{"help", "key", "shw"}, `sluice key: unknown command "shw"; did you mean show?`},
		{cli.Usage, []string{"zzz"}, `sluice: unknown command "zzz"; use completion, convert, `},
		{cli.Usage, []string{"--zzz"}, "sluice: unknown flag: --zzz\nsee sluice --help\n"},
		{cli.Usage, []string{"lint", "--test"}, "sluice lint: --test: expected a value: --test CASES\nsee sluice lint --help\n"},
		{cli.Usage, []string{"serve", "--limit", "many", "--drain"}, "--drain: expected a value: --drain DURATION\n"},
		{cli.Usage, []string{"--", "serve"}, `sluice: unknown command "--"; use `},
		{cli.Usage, []string{"-"}, `sluice: unknown command "-"; use `},
		{cli.Usage, []string{"__completed"}, `sluice: unknown command "__completed"; use `},
		{cli.Usage, []string{"explain", "-host", "x"}, "sluice explain: unknown flag -host"},
		{cli.Usage, []string{"serve", "--by", "claim.sub", "--limit=5/min"}, "so no request has the claim sub; set tokens in a file, and use --config FILE"},
		{cli.Usage, []string{"serve", "--by", "cert.cn", "--limit=5/min"}, "client_ca: FILE} in a file, and use --config FILE"},
		{cli.Failed, []string{"status", "--admin", at}, "sluice: no sluice at http://" + at + ": dial tcp "},
		{cli.Failed, []string{"healthz", "--admin", at}, "sluice: no sluice at http://" + at + ": dial tcp "},
	} {
		failsWith(t, c.code, c.want, c.args...)
	}
}
