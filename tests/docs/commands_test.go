// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package docs_test runs what the documents report readers to run, and compares what
// is printed with what they show.
//
// A block of "console" has lines that begin with "$ ", the commands, and beneath each what
// it prints: "…" stands for anything in a line, and for any lines where it is alone. In
// the comment before a block may stand
//
//	<!-- file: NAME -->     the block is this file, and is not run
//	<!-- keeps running -->  its last command does not end: the others go on beside it
//	<!-- other numbers -->  wherever it shows a number, another may be printed
//	<!-- tested -->         the block is a part of a test in this package
//
// of which a comma joins the second and the third. The files of testdata/PAGE are there, too. make
// runs in the repository, as the reader has cloned it. The commands of a workflow among the files
// are run.
//
// Loopback ports are replaced by free ones, in commands, files and what is shown.
package docs_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
)

const (
	patience = 3 * time.Minute  // for a command to print what is shown
	leave    = 10 * time.Second // for one that was asked to end
)

// long are pages whose commands compile much, or wait.
var long = []string{"fleet.md", "grpc.md", "middleware.md"}

func TestCommands(t *testing.T) {
	guides, err := filepath.Glob("start/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(guides, "api.md", "behind.md", "choose.md", "ci.md", "coming-from.md", "llm.md", "production.md", "recipes.md", "replay.md", "resp.md", "streaming.md", "testing.md", "../README.md") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			if slices.Contains(long, filepath.Base(file)) {
				testkit.Long(t)
			}
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			r := &reader{t: t, dir: t.TempDir(), bin: build(t), ports: map[string]string{}, path: "example.com/start"}
			if m := modInit.FindSubmatch(text); m != nil {
				r.path = string(m[1])
			}
			page := strings.TrimSuffix(filepath.Base(file), ".md")
			if page == "README" {
				page = "choose" // whose log it shows
			}
			if data := filepath.Join(root(t), "tests", "docs", "testdata", page); isDir(data) {
				if err := os.CopyFS(r.dir, os.DirFS(data)); err != nil {
					t.Fatal(err)
				}
			}
			ran := 0
			for _, b := range parse(string(text)) {
				ran += r.block(b)
			}
			r.workflows()
			if ran == 0 {
				t.Errorf("%s has no command; is its block of another kind than console?", file)
			}
		})
	}
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// build returns the folder of a sluice program.
func build(t *testing.T) string {
	t.Helper()
	if err := built(); err != nil {
		t.Fatal(err)
	}
	return bin
}

var built = sync.OnceValue(func() error {
	cmd := exec.Command("go", "-C", "../server", "build", "-o", filepath.Join(bin, "sluice"), "./cmd/sluice")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w\n%s", cmd, err, out)
	}
	return nil
})

func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// block is a fenced one of a document.
type block struct {
	line     int
	language string
	note     string // what the comment before it says
	text     string
}

var fenced = regexp.MustCompile("(?ms)(?:^<!-- ([^\n]*) -->\n\n?)?^```([a-z]+)\n(.*?)^```$")

func parse(text string) (blocks []block) {
	for _, m := range fenced.FindAllStringSubmatchIndex(text, -1) {
		part := func(i int) string {
			if m[i] < 0 {
				return ""
			}
			return text[m[i]:m[i+1]]
		}
		blocks = append(blocks, block{1 + strings.Count(text[:m[4]], "\n"), part(4), part(2), part(6)})
	}
	return blocks
}

// reader does what a document says.
type reader struct {
	t     *testing.T
	dir   string
	bin   string
	ports map[string]string // those that are shown: those that are used
	path  string            // of the module that a reader makes
}

// block writes a file or runs commands, and returns how many.
func (r *reader) block(b block) (ran int) {
	r.t.Helper()
	if name, ok := strings.CutPrefix(b.note, "file: "); ok {
		path := filepath.Join(r.dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			r.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(r.replace(b.text)), 0o600); err != nil {
			r.t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(filepath.Dir(path), "go.mod")); err != nil && filepath.Ext(name) == ".go" {
			r.module(filepath.Dir(path))
		}
		return 0
	}
	if b.language != "console" {
		return 0
	}
	steps, numbers := steps(b.text), strings.Contains(b.note, "other numbers")
	for i, s := range steps {
		keeps := strings.Contains(b.note, "keeps running") && i == len(steps)-1
		r.run(b.line, storeURL.ReplaceAllString(r.replace(s.command), "$1"+redistest.Patient), pattern(r.replace(s.prints), keeps, numbers), keeps)
	}
	return len(steps)
}

var modInit = regexp.MustCompile(`(?m)^go mod init (\S+)$`)

var loopback = regexp.MustCompile(`(127\.0\.0\.1:|localhost:|--port )([0-9]{2,5})\b`)

// storeURL is one without parameters.
var storeURL = regexp.MustCompile(`(redis://[0-9.:]+)\b`)

// replace puts free ports in place of those that are shown.
func (r *reader) replace(text string) string {
	return loopback.ReplaceAllStringFunc(text, func(found string) string {
		m := loopback.FindStringSubmatch(found)
		return m[1] + r.port(m[2])
	})
}

func (r *reader) port(shown string) string {
	if r.ports[shown] == "" {
		r.ports[shown] = strconv.Itoa(testkit.FreePort(r.t))
	}
	return r.ports[shown]
}

// module makes dir a module that uses this one as it is here.
func (r *reader) module(dir string) {
	r.t.Helper()
	here := root(r.t)
	replace := []string{"mod", "edit"}
	for _, m := range []string{"", "/config", "/grpclimit", "/redisstore/rueidisstore"} { // as the pages say
		replace = append(replace, "-replace", "github.com/sluicegate/sluice"+m+"="+here+m)
	}
	for _, args := range [][]string{{"mod", "init", r.path}, replace, {"mod", "tidy"}} {
		cmd := exec.CommandContext(r.t.Context(), "go", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			r.t.Fatalf("%v: %v\n%s", cmd, err, out)
		}
	}
}

var (
	workflowRun = regexp.MustCompile(`(?m)^ +- run: (.+)$`)
	install     = regexp.MustCompile(`^go install github\.com/sluicegate/sluice/(.+)@latest$`)
)

// workflows runs the commands of the workflows among the files, once all files are there. What
// they install stands on the PATH.
func (r *reader) workflows() {
	r.t.Helper()
	files, err := filepath.Glob(filepath.Join(r.dir, ".github", "workflows", "*.yaml"))
	if err != nil {
		r.t.Fatal(err)
	}
	for _, file := range files {
		commands := workflowRun.FindAllStringSubmatch(read(r.t, file), -1)
		if len(commands) < 2 {
			r.t.Errorf("%s runs %q", file, commands)
		}
		for _, m := range commands {
			if p := install.FindStringSubmatch(m[1]); p != nil {
				if _, err := os.Stat(filepath.Join("..", filepath.FromSlash(p[1]), "main.go")); err != nil {
					r.t.Errorf("%s: %v", m[1], err)
				}
				continue
			}
			r.run(0, m[1], regexp.MustCompile(``), false)
		}
	}
}

// step is a command and what it shall print.
type step struct{ command, prints string }

func steps(text string) (list []step) {
	for line := range strings.Lines(text) {
		command, ok := strings.CutPrefix(line, "$ ")
		switch last := len(list) - 1; {
		case ok:
			list = append(list, step{command: command})
		case last < 0:
		case list[last].prints == "" && strings.HasSuffix(list[last].command, "\\\n"):
			list[last].command += line
		default:
			list[last].prints += line
		}
	}
	return list
}

// number is a number, or a time of day, which has its date before it only where that is another day.
var number = regexp.MustCompile(`(?:[0-9]+-[0-9]+-[0-9]+ )?[0-9]+:[0-9]+:[0-9]+|[0-9]+`)

// anyNumber returns what matches another number, or another time.
func anyNumber(shown string) string {
	if strings.Contains(shown, ":") {
		return "(?:[0-9]+-[0-9]+-[0-9]+ )?[0-9]+:[0-9]+:[0-9]+"
	}
	return "[0-9]+"
}

// pattern returns what output must match. Where a command keeps running there may be
// more.
func pattern(shown string, more, numbers bool) *regexp.Regexp {
	var b strings.Builder
	b.WriteString(`^`)
	if shown = strings.TrimSpace(shown); shown == "" && more {
		return regexp.MustCompile(`^`)
	}
	for line := range strings.Lines(shown + "\n") {
		line = strings.TrimRight(line, " \n")
		if line == "…" {
			b.WriteString(`(?:.*\n)*?`)
			continue
		}
		line = strings.ReplaceAll(regexp.QuoteMeta(line), "…", ".*")
		if numbers {
			line = number.ReplaceAllStringFunc(line, anyNumber)
		}
		b.WriteString(line + `[ \r]*\n`)
	}
	if !more {
		b.WriteString(`\s*$`)
	}
	return regexp.MustCompile(b.String())
}

func (r *reader) run(line int, command string, want *regexp.Regexp, keeps bool) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.t.Context()), patience)
	if keeps {
		cancel()
		ctx, cancel = context.WithCancel(context.WithoutCancel(r.t.Context()))
	}
	var out testkit.Buffer
	cmd := exec.CommandContext(ctx, "bash", "-c", command)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = r.dir, &out, &out, leave
	if strings.HasPrefix(command, "make ") {
		cmd.Dir = root(r.t)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.Env = append(os.Environ(), "PATH="+r.bin+":"+os.Getenv("PATH"), "GOFLAGS="+os.Getenv("GOFLAGS")+" -mod=mod",
		"LISTEN=127.0.0.1:"+r.port("8080"), "ADMIN=127.0.0.1:"+r.port("9090"), "MAKEFLAGS=", "MAKELEVEL=")
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	printed := func() string { return strings.TrimLeft(out.String(), "\n") }
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	if !keeps {
		defer cancel()
		if err := <-ended; err != nil {
			r.t.Fatalf("line %d: %s\nfails: %v\n%s", line, command, err, printed())
		}
		if got := printed(); !want.MatchString(got + "\n") {
			r.t.Fatalf("line %d: %s\nprinted\n%s\nand shall match\n%s", line, command, got, want)
		}
		return
	}
	r.t.Cleanup(func() {
		cancel()
		<-ended //nolint:errcheck // it was asked to end
	})
	for end := time.Now().Add(patience); !want.MatchString(printed()); time.Sleep(20 * time.Millisecond) {
		select {
		case err := <-ended:
			ended <- err
			r.t.Fatalf("line %d: %s\nended (%v) and printed\n%s", line, command, err, printed())
		default:
		}
		if time.Now().After(end) {
			r.t.Fatalf("line %d: %s\nprinted\n%s\nand shall match\n%s", line, command, printed(), want)
		}
	}
}

// TestPattern: what is shown must be what is printed, but for what "…" leaves out.
func TestPattern(t *testing.T) {
	for _, c := range []struct {
		shown, printed string
		more, numbers  bool
		match          bool
	}{
		{"a\n", "a\n", false, false, true},
		{"a\n", "a\nb\n", false, false, false},
		{"a\n", "a\nb\n", true, false, true},
		{"a…c\n", "abc\n", false, false, true},
		{"a…c\n", "ab\nc\n", false, false, false},
		{"a\n…\nc\n", "a\nb\nb\nc\n", false, false, true},
		{"a.c\n", "abc\n", false, false, false},
		{"", "\n", false, false, true},
		{"", "a\n", false, false, false},
		{"", "a\n", true, false, true},
		{"", "", true, false, true},
		{"t=60\n", "t=59\n", false, false, false},
		{"t=60\n", "t=59\n", false, true, true},
		{"t=60\n", "t=x\n", false, true, false},
	} {
		if got := pattern(c.shown, c.more, c.numbers).MatchString(c.printed); got != c.match {
			t.Errorf("%q shown and %q printed match: %v", c.shown, c.printed, got)
		}
	}
	if got := fmt.Sprint(steps("$ a \\\n  b\nc\n$ d\n")); got != "[{a \\\n  b\n c\n} {d\n }]" {
		t.Errorf("steps are %q", got)
	}
}
