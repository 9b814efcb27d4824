// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package layering checks the packages that each module compiles.
package layering_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

const (
	module = "github.com/sluicegate/sluice"
	top    = "../.." // folder of the repository
)

// TestModules: the Makefile lists every module. A module that is not listed is not tested.
func TestModules(t *testing.T) {
	listed := modules(t)
	var found []string
	err := filepath.WalkDir(top, func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != top && d.Name()[0] == '.' && d.Name() != "..":
			return filepath.SkipDir
		case d.Name() == "go.mod":
			dir, err := filepath.Rel(top, filepath.Dir(path))
			found = append(found, filepath.ToSlash(dir))
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(found)
	slices.Sort(listed)
	if !slices.Equal(found, listed) {
		t.Errorf("there are the modules %q, and the Makefile lists %q", found, listed)
	}
}

// TestSerial: each test that the Makefile takes from the race detector is in a package that it
// tests without, and in no other of the root.
func TestSerial(t *testing.T) {
	in := strings.Fields(variable(t, "SERIAL_IN"))
	names := strings.Split(strings.Join(strings.Fields(strings.NewReplacer("$(\\", "", ")", "").Replace(variable(t, "SERIAL"))), ""), "|")
	if len(names) < 2 {
		t.Fatalf("the Makefile lists %q", names)
	}
	for _, name := range names {
		var found []string
		for dir, p := range load(t) {
			if p.module != "." {
				continue
			}
			files, err := filepath.Glob(filepath.Join(top, dir, "*_test.go"))
			if err != nil {
				t.Fatal(err)
			}
			for _, file := range files {
				if text, err := os.ReadFile(file); err != nil {
					t.Fatal(err)
				} else if strings.Contains(string(text), "\nfunc "+name+"(") {
					found = append(found, "."+dir)
				}
			}
		}
		if len(found) != 1 || !slices.Contains(in, found[0]) {
			t.Errorf("%s is in %q, and the Makefile tests %q without the race detector", name, found, in)
		}
	}
}

// A value may go on in the next line.
var assigned = regexp.MustCompile(`(?m)^(PUBLISHED|MODULES|SERIAL_IN|SERIAL) *:= ((?:.*\\\n)*.*)$`)

// modules returns the folders of all modules that the Makefile lists.
func modules(t *testing.T) []string {
	t.Helper()
	return append(published(t), strings.Fields(strings.TrimPrefix(variable(t, "MODULES"), "$(PUBLISHED) "))...)
}

// published returns the folders of the modules of a release.
func published(t *testing.T) []string {
	t.Helper()
	return strings.Fields(variable(t, "PUBLISHED"))
}

func variable(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(top, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range assigned.FindAllStringSubmatch(string(text), -1) {
		if m[1] == name {
			return m[2]
		}
	}
	t.Fatalf("the Makefile does not set %s", name)
	return ""
}

// TestRootRequiresOneModule: every requirement of the root appears in the module list of each
// program that uses the library, whether or not it is compiled.
func TestRootRequiresOneModule(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(top, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if want := "require pgregory.net/rapid "; strings.Count(string(text), "require") != 1 || !strings.Contains(string(text), "\n"+want) {
		t.Errorf("go.mod requires more than rapid:\n%s", text)
	}
}

// TestDependencies: ADR 6 has a reason for each direct requirement of a published module.
func TestDependencies(t *testing.T) {
	adr, err := os.ReadFile(filepath.Join(top, "docs/adr/0006-dependencies.md"))
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, dir := range published(t) {
		if dir == "adapters" { // its frameworks, and their parts
			continue
		}
		text, err := os.ReadFile(filepath.Join(top, dir, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			m := required.FindStringSubmatch(line)
			if m == nil || strings.HasPrefix(m[1]+"/", module+"/") {
				continue
			}
			seen++
			if !named(string(adr), m[1]) {
				t.Errorf("%s requires %s, and ADR 6 does not name it", dir, m[1])
			}
		}
	}
	if seen < 15 {
		t.Errorf("%d requirements were checked", seen)
	}
}

// required matches the line of a direct requirement.
var required = regexp.MustCompile(`^(?:require )?\s*([a-z0-9.]+/\S+) v[^/\n]*\n$`)

// named reports whether the record names a module, or the one that it belongs to.
func named(adr, path string) bool {
	for ; strings.Contains(path, "/"); path = path[:strings.LastIndexByte(path, '/')] {
		if strings.Contains(adr, path) {
			return true
		}
	}
	return false
}

// TestLibraryCompilesOnlyTheStandardLibrary: packages of the root compile the standard library and
// this module alone.
func TestLibraryCompilesOnlyTheStandardLibrary(t *testing.T) {
	all := load(t)
	for folder, p := range all {
		if p.module != "." {
			continue
		}
		for _, dep := range p.deps {
			if d := all[strings.TrimPrefix(dep, module)]; d == nil || d.module != "." {
				t.Errorf("%s%s compiles %s", module, folder, dep)
			}
		}
	}
	for _, folder := range library {
		if all[folder] == nil {
			t.Errorf("package %s%s was not found", module, folder)
		}
	}
}

// library are the public packages of the root.
var library = []string{"", "/algo", "/httpclient", "/httplimit", "/memstore", "/pacing", "/policy", "/policy/evaluate", "/profile", "/redisstore", "/redisstore/redisurl", "/remote", "/storetest"}

// TestInternal: of the published modules only the server imports internal packages of the root,
// since modules are versioned one by one.
func TestInternal(t *testing.T) {
	seen := 0
	for folder, p := range load(t) {
		if p.module == "." || p.module == "server" || !slices.Contains(published(t), p.module) {
			continue
		}
		seen++
		for _, dep := range p.imports {
			if strings.HasPrefix(dep, module+"/internal/") {
				t.Errorf("%s%s imports %s", module, folder, dep)
			}
		}
	}
	if seen < 6 {
		t.Errorf("%d packages were checked", seen)
	}
}

// The number of packages that may lie on each other.
const (
	deepLibrary = 6
	deepServer  = 8
)

// TestDepth: no chain of imports is longer than its bound. Whoever changes a package must know
// those beneath it.
func TestDepth(t *testing.T) {
	all := load(t)
	chains := make(map[string][]string) // the longest of each package, itself last
	var chain func(folder string) []string
	chain = func(folder string) []string {
		if known, ok := chains[folder]; ok {
			return known
		}
		var longest []string
		for _, dep := range all[folder].imports {
			if under := chain(strings.TrimPrefix(dep, module)); len(under) > len(longest) {
				longest = under
			}
		}
		chains[folder] = append(slices.Clip(longest), folder)
		return chains[folder]
	}
	for folder, p := range all {
		most := deepLibrary
		switch p.module {
		case "server":
			most = deepServer
		case "adapters":
			continue // which lie on the library, and have examples
		}
		if c := chain(folder); len(c) > most {
			t.Errorf("%d deep, at most %d: %s", len(c), most, strings.Join(c, " <- "))
		}
	}
}

// TestWordsDoNotKnowTheirUsers: a package compiles packages further in alone.
func TestWordsDoNotKnowTheirUsers(t *testing.T) {
	for _, c := range []struct {
		pkg     string
		allowed []string
	}{
		{"/internal/clock", nil},
		{"/internal/deadline", nil},
		{"/internal/instants", nil},
		{"/internal/keyhash", nil},
		{"/internal/logentry", nil},
		{"/internal/span", nil},
		{"/internal/amount", nil},
		{"/internal/bounds", nil},
		{"/internal/compiled", nil},
		{"", []string{"/internal/bounds", "/internal/compiled", "/internal/clock", "/internal/instants", "/internal/span"}},
		{"/algo", []string{"", "/internal/amount", "/internal/bounds", "/internal/compiled", "/internal/logentry", "/internal/clock", "/internal/instants", "/internal/span"}},
		{"/internal/spec", []string{"", "/internal/bounds", "/internal/compiled", "/internal/clock", "/internal/instants", "/internal/span"}},
		{"/internal/stores", []string{"", "/internal/bounds", "/internal/compiled", "/internal/clock", "/internal/instants", "/internal/span"}},
		{"/internal/testkit", []string{"", "/internal/bounds", "/internal/compiled", "/internal/clock", "/internal/instants", "/internal/span"}},
		{"/profile", []string{"", "/internal/bounds", "/internal/compiled", "/internal/clock", "/internal/instants", "/internal/span", "/internal/spelling"}},
		{"/storetest", []string{"", "/internal/amount", "/internal/logentry", "/internal/stores", "/internal/bounds", "/internal/compiled", "/internal/clock", "/internal/instants", "/internal/span", "/internal/spelling", "/internal/testkit", "/algo", "/profile", "/internal/vector"}},
		{"/remote", []string{"", "/internal/caller", "/internal/amount", "/internal/logentry", "/internal/stores", "/internal/bounds", "/internal/compiled", "/internal/clock", "/internal/deadline", "/internal/instants", "/internal/span", "/algo"}},
		{"/policy", []string{"", "/internal/caller", "/internal/source", "/internal/bounds", "/internal/compiled", "/internal/span", "/internal/clientip", "/internal/clock", "/internal/instants", "/internal/sampledlog", "/internal/wire", "/internal/placeholder"}},
		{"/policy/evaluate", []string{"", "/internal/caller", "/internal/clock", "/internal/source", "/internal/bounds", "/internal/compiled", "/internal/span", "/internal/clientip", "/internal/instants", "/internal/placeholder", "/internal/sampledlog", "/internal/wire", "/policy"}},
		{"/pacing", []string{"", "/internal/bounds", "/internal/compiled", "/internal/instants", "/internal/span", "/internal/structured", "/internal/clock"}},
		{"/httpclient", []string{"", "/internal/bounds", "/internal/compiled", "/internal/instants", "/internal/span", "/pacing", "/internal/structured", "/internal/clock"}},
		{"/internal/exchange", []string{"/internal/wire"}},
		{"/server/internal/logfile", []string{"/internal/regular"}},
		{"/httplimit", []string{"", "/internal/caller", "/internal/source", "/internal/bounds", "/internal/compiled", "/internal/span", "/internal/clientip", "/internal/exchange", "/internal/instants", "/internal/sampledlog", "/internal/wire", "/policy", "/internal/clock", "/internal/placeholder", "/policy/evaluate"}},
		{"/server/internal/gateway/certificate", []string{"/internal/regular"}},
	} {
		p := load(t)[c.pkg]
		if p == nil {
			t.Errorf("package %s%s was not found", module, c.pkg)
			continue
		}
		for _, dep := range p.deps {
			if !slices.Contains(c.allowed, strings.TrimPrefix(dep, module)) {
				t.Errorf("%s%s compiles %s", module, c.pkg, dep)
			}
		}
	}
}

// TestMetricsCompileLittle: package metrics compiles the client of Prometheus and the library, and no
// other module.
func TestMetricsCompileLittle(t *testing.T) {
	allowed := []string{
		module, "github.com/prometheus/client_golang", "github.com/prometheus/client_model", "github.com/prometheus/common", "github.com/prometheus/procfs",
		"github.com/beorn7/perks", "github.com/cespare/xxhash/v2", "github.com/munnerz/goautoneg", "golang.org/x/sys", "golang.org/x/text", "google.golang.org/protobuf",
	}
	all := load(t)
	for _, dep := range all["/metrics"].deps {
		if !slices.ContainsFunc(allowed, func(path string) bool { return strings.HasPrefix(dep+"/", path+"/") }) {
			t.Errorf("%s/metrics compiles %s", module, dep)
		}
		if p := all[strings.TrimPrefix(dep, module)]; p != nil && p.module != "." {
			t.Errorf("%s/metrics compiles %s", module, dep)
		}
	}
}

// TestSpansStayOutside: in the server OpenTelemetry is compiled by the packages trace and otlp,
// and by those that run a server.
func TestSpansStayOutside(t *testing.T) {
	for folder, p := range load(t) {
		switch folder {
		case "/server/internal/trace", "/server/internal/otlp", "/server/internal/serve", "/server/internal/serve/servetest", "/server/cmd/sluice":
			continue
		}
		if slices.Contains(published(t), p.module) && slices.ContainsFunc(p.deps, func(dep string) bool { return strings.HasPrefix(dep, "go.opentelemetry.io/") }) {
			t.Errorf("%s%s compiles OpenTelemetry", module, folder)
		}
	}
}

// pkg is a package of one of our modules. The standard library is left out.
type pkg struct {
	module  string   // its folder
	imports []string // ours
	deps    []string
}

// load returns the packages of the published modules by their folders.
func load(t *testing.T) map[string]*pkg {
	t.Helper()
	all, err := listOnce(published(t))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

var (
	listing sync.Once
	listed  map[string]*pkg
	errList error
)

func listOnce(modules []string) (map[string]*pkg, error) {
	listing.Do(func() {
		listed = make(map[string]*pkg)
		for _, dir := range modules {
			if errList = list(listed, dir); errList != nil {
				return
			}
		}
	})
	return listed, errList
}

// list adds the packages of a module.
func list(all map[string]*pkg, dir string) error {
	const format = `{{if not .Standard}}{{.ImportPath}};{{.Module.Path}};{{join .Imports ","}};{{join .Deps ","}}{{end}}`
	cmd := exec.Command("go", "-C", filepath.Join(top, dir), "list", "-deps", "-f", format, "./...")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%v: %w\n%s", cmd, err, stderr.String())
	}
	lines := strings.Fields(string(out))
	known := make(map[string]bool) // packages outside of the standard library
	for _, line := range lines {
		path, _, _ := strings.Cut(line, ";")
		known[path] = true
	}
	own := strings.TrimSuffix(module+"/"+strings.TrimPrefix(dir, "."), "/")
	for _, line := range lines {
		part := strings.Split(line, ";")
		if part[1] != own {
			continue
		}
		p := &pkg{module: dir}
		for dep := range strings.SplitSeq(part[2], ",") {
			if strings.HasPrefix(dep+"/", module+"/") {
				p.imports = append(p.imports, dep)
			}
		}
		for dep := range strings.SplitSeq(part[3], ",") {
			if known[dep] {
				p.deps = append(p.deps, dep)
			}
		}
		all[strings.TrimPrefix(part[0], module)] = p
	}
	return nil
}
