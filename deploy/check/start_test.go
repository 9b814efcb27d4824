// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sluicegate/sluice/internal/testkit"
)

// program is sluice: that of SLUICE_PROGRAM, or one that is built once.
var program = sync.OnceValues(func() (string, error) {
	if path := os.Getenv("SLUICE_PROGRAM"); path != "" {
		return path, nil
	}
	path := filepath.Join(built, "sluice")
	cmd := exec.Command("go", "-C", "../../server", "build", "-o", path, "./cmd/sluice")
	cmd.Stderr = os.Stderr
	return path, cmd.Run()
})

// built is the folder of the program that is built.
var built string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "check")
	if err != nil {
		panic(err)
	}
	built = dir
	code := m.Run()
	if err := os.RemoveAll(dir); err != nil {
		panic(err)
	}
	os.Exit(code)
}

// container is one that an engine or a cluster would start.
type container struct {
	args  []string          // of sluice
	env   []string          // beside that of the test
	files map[string]string // by their paths in the container
}

// hosts gives addresses of this machine to those that files name, such as redis:6379.
type hosts map[string]string

// replace returns text with its host names and listen addresses replaced by addresses of this
// machine. A listen address becomes a free port of loopback, recorded in h.
func (h hosts) replace(t *testing.T, text string) string {
	t.Helper()
	var pairs []string
	for _, name := range slices.SortedFunc(maps.Keys(h), func(a, b string) int { return len(b) - len(a) }) {
		pairs = append(pairs, name, h[name])
	}
	return anyAddress.ReplaceAllStringFunc(strings.NewReplacer(pairs...).Replace(text), func(address string) string {
		h[address] = testkit.FreeAddress(t)
		return h[address]
	})
}

var anyAddress = regexp.MustCompile(`\b0\.0\.0\.0:\d+`)

// start runs the program with the files of a container until the test ends, and waits until it is ready.
// The addresses that it listens to are added to a copy of others.
func (c *container) start(t *testing.T, others hosts) hosts {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	at, root := maps.Clone(others), t.TempDir()
	for _, dir := range slices.Sorted(maps.Keys(dirs(c.files))) {
		at[dir] = filepath.Join(root, dir)
	}
	for _, name := range slices.Sorted(maps.Keys(c.files)) {
		lay(t, filepath.Join(root, name), at.replace(t, c.files[name]))
	}
	args := make([]string, len(c.args))
	for i, a := range c.args {
		args[i] = at.replace(t, a)
	}
	cmd := exec.Command(path, args...)
	cmd.Env, cmd.Dir = append(os.Environ(), c.env...), root
	log := new(testkit.Buffer)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		if err := <-ended; err != nil {
			t.Errorf("sluice %v: %v\n%s", args, err, log)
		}
	})
	testkit.Until(t, "sluice to be ready", func() bool {
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("sluice %v ended: %v\n%s", args, err, log)
		default:
		}
		resp, err := http.Get("http://" + at["0.0.0.0:9090"] + "/readyz")
		return err == nil && resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
	})
	return at
}

// dirs returns the folders of files.
func dirs(files map[string]string) map[string]bool {
	all := make(map[string]bool)
	for name := range files {
		all[filepath.Dir(name)] = true
	}
	return all
}

// lay writes a file as kubelet does: it is a link to one in a folder whose name begins with a dot.
func lay(t *testing.T, name, text string) {
	t.Helper()
	dir, base := filepath.Split(name)
	if err := os.MkdirAll(filepath.Join(dir, "..data"), 0o750); err != nil {
		t.Fatal(err)
	}
	testkit.WriteFile(t, filepath.Join(dir, "..data", base), text)
	if err := os.Symlink(filepath.Join("..data", base), name); err != nil {
		t.Fatal(err)
	}
}
