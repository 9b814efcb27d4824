// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package layering checks what the packages of this module compile.
package layering_test

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/sluicegate/sluice"

// required must exist and be checked, so that a mistake in this test or a
// renamed folder cannot pass unseen.
var required = []string{
	"", "/algo", "/server/internal/gateway", "/grpclimit", "/httpclient", "/httplimit",
	"/internal/amount", "/internal/bounds", "/internal/caller", "/internal/clientip", "/internal/clock", "/internal/compiled", "/internal/instants", "/internal/keyhash", "/internal/logentry", "/internal/pacing", "/internal/rulekit", "/internal/series", "/internal/spec", "/internal/source", "/internal/span", "/internal/testkit", "/internal/stores", "/internal/wire", "/memstore", "/metrics", "/policy", "/policy/evaluate", "/internal/placeholder", "/internal/profile", "/remote", "/storetest",
}

// heavy are the folders whose packages may compile other modules. Every other
// package is the library, and may not compile these either.
var heavy = []string{"/config/", "/examples/", "/grpclimit/", "/internal/redistest/", "/internal/redisurl/", "/internal/series/", "/metrics/", "/redisstore/", "/server/"}

// TestLibraryCompilesOnlyTheStandardLibrary: a program that imports the library adds
// no module but this one to what they compile.
func TestLibraryCompilesOnlyTheStandardLibrary(t *testing.T) {
	all := load(t)
	for folder, p := range all {
		if isHeavy(folder) {
			continue
		}
		for _, dep := range p.deps {
			if !ours(dep) || isHeavy(strings.TrimPrefix(dep, module)) {
				t.Errorf("%s%s compiles %s; a library package may compile the standard library and the library packages of this module", module, folder, dep)
				break
			}
		}
	}
	for _, folder := range library {
		if all[folder] == nil || isHeavy(folder) {
			t.Errorf("package %s%s was not found among those of the standard library alone", module, folder)
		}
	}
	for _, folder := range required {
		if all[folder] == nil {
			t.Errorf("package %s%s was not found", module, folder)
		}
	}
}

// library are the packages that compile nothing but the standard library and
// this module: what people build on.
var library = []string{"", "/algo", "/httpclient", "/httplimit", "/memstore", "/policy", "/policy/evaluate", "/internal/profile", "/remote", "/storetest"}

// mostDeep is how many packages of the product may lie upon each other, those
// under internal included, and floors how many with and beneath one of a folder.
const mostDeep = 8

var floors = map[string]int{
	"": 2, "/algo": 3, "/policy": 3, "/policy/evaluate": 4, "/internal/profile": 3, "/internal/pacing": 3, "/httpclient": 4, "/httplimit": 5, "/memstore": 4, "/grpclimit": 6, "/redisstore": 4, "/remote": 4, "/config": 5,
	"/metrics": 6, "/server/internal/admin": 6, "/server/internal/feed": 1, "/server/internal/history": 1, "/server/internal/metrics": 6, "/server/internal/page": 1, "/server/internal/reload": 5, "/server/internal/sketch": 1, "/server/internal/tally": 5, "/server/internal/token": 5, "/server/internal/trace": 6,
}

// TestDepth: no chain of imports is longer than the house is high. Who changes
// a package must know those beneath it.
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
	for folder := range all {
		if strings.HasPrefix(folder, "/examples/") || strings.HasPrefix(folder, "/docs/") {
			continue
		}
		most, ok := floors[folder]
		if !ok {
			most = mostDeep
		}
		if c := chain(folder); len(c) > most {
			t.Errorf("%d deep, at most %d: %s", len(c), most, strings.Join(c, " <- "))
		}
	}
}

// TestWordsDoNotKnowTheirUsers: the root package compiles nothing of this
// module but its arithmetic and the lines of those who wait, algo nothing but these and
// the root, and so on outwards: what a package may compile are layers further in.
func TestWordsDoNotKnowTheirUsers(t *testing.T) {
	for _, c := range []struct {
		pkg     string
		allowed []string
	}{
		{"/internal/instants", nil},
		{"/internal/keyhash", nil},
		{"/internal/logentry", nil},
		{"/internal/span", nil},
		{"/internal/amount", nil},
		{"/internal/bounds", nil},
		{"/internal/compiled", nil},
		{"", []string{"/internal/bounds", "/internal/compiled", "/internal/instants", "/internal/span"}},
		{"/algo", []string{"", "/internal/amount", "/internal/bounds", "/internal/compiled", "/internal/logentry", "/internal/instants", "/internal/span"}},
		{"/internal/spec", []string{"", "/internal/bounds", "/internal/compiled", "/internal/instants", "/internal/span"}},
		{"/internal/stores", []string{"", "/internal/bounds", "/internal/compiled", "/internal/instants", "/internal/span"}},
		{"/internal/testkit", []string{"", "/internal/bounds", "/internal/compiled", "/internal/instants", "/internal/span"}},
		{"/internal/profile", []string{"", "/internal/bounds", "/internal/compiled", "/internal/instants", "/internal/span", "/internal/spelling"}},
		{"/storetest", []string{"", "/internal/amount", "/internal/logentry", "/internal/stores", "/internal/bounds", "/internal/compiled", "/internal/instants", "/internal/span", "/internal/spelling", "/internal/testkit", "/algo", "/internal/profile"}},
		{"/remote", []string{"", "/internal/caller", "/internal/amount", "/internal/logentry", "/internal/stores", "/internal/bounds", "/internal/compiled", "/internal/instants", "/internal/span", "/algo"}},
		{"/policy", []string{"", "/internal/source", "/internal/bounds", "/internal/compiled", "/internal/span", "/internal/clientip", "/internal/instants", "/internal/placeholder", "/internal/wire"}},
		{"/policy/evaluate", []string{"", "/internal/clock", "/internal/caller", "/internal/source", "/internal/bounds", "/internal/compiled", "/internal/span", "/internal/clientip", "/internal/instants", "/internal/placeholder", "/internal/sampledlog", "/internal/wire", "/policy"}},
		{"/internal/pacing", []string{"", "/internal/clock", "/internal/bounds", "/internal/compiled", "/internal/instants", "/internal/span"}},
		{"/httpclient", []string{"", "/internal/clock", "/internal/bounds", "/internal/compiled", "/internal/instants", "/internal/span", "/internal/pacing"}},
		{"/internal/exchange", []string{"/internal/wire"}},
		{"/server/internal/logfile", []string{"/internal/regular"}},
		{"/httplimit", []string{"", "/internal/clock", "/internal/caller", "/internal/source", "/internal/bounds", "/internal/compiled", "/internal/span", "/internal/clientip", "/internal/exchange", "/internal/instants", "/internal/placeholder", "/internal/sampledlog", "/internal/wire", "/policy", "/policy/evaluate"}},
		{"/server/internal/gateway", []string{"/internal/exchange", "/internal/sampledlog", "/internal/upstream", "/internal/wire"}},
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

// TestMetricsCompileLittle: who counts for Prometheus compiles its client and what
// that needs, and no other module: neither that of a store nor a reader of files.
func TestMetricsCompileLittle(t *testing.T) {
	allowed := []string{
		module, "github.com/prometheus/client_golang", "github.com/prometheus/client_model", "github.com/prometheus/common", "github.com/prometheus/procfs",
		"github.com/beorn7/perks", "github.com/cespare/xxhash/v2", "github.com/munnerz/goautoneg", "golang.org/x/sys", "golang.org/x/text", "google.golang.org/protobuf",
	}
	for _, dep := range load(t)["/metrics"].deps {
		if !slices.ContainsFunc(allowed, func(path string) bool { return strings.HasPrefix(dep+"/", path+"/") }) {
			t.Errorf("%s/metrics compiles %s", module, dep)
		}
		for _, not := range []string{"/config", "/redisstore", "/server"} {
			if strings.HasPrefix(dep+"/", module+not+"/") {
				t.Errorf("%s/metrics compiles %s", module, dep)
			}
		}
	}
}

// TestSpansStayOutside: OpenTelemetry is compiled by programs that run a gateway, and by
// nothing that people build on.
func TestSpansStayOutside(t *testing.T) {
	for folder, p := range load(t) {
		if folder == "/server/internal/trace" || folder == "/server/internal/serve" || folder == "/server/internal/serve/servetest" || strings.HasPrefix(folder, "/server/cmd/") || strings.HasPrefix(folder, "/examples/") {
			continue
		}
		if slices.ContainsFunc(p.deps, func(dep string) bool { return strings.HasPrefix(dep, "go.opentelemetry.io/") }) {
			t.Errorf("%s%s compiles OpenTelemetry", module, folder)
		}
	}
}

func isHeavy(folder string) bool {
	for _, p := range heavy {
		if strings.HasPrefix(folder+"/", p) {
			return true
		}
	}
	return false
}

// pkg is what a package of this module compiles, the standard library left out.
type pkg struct {
	imports []string // those of this module
	deps    []string
}

// load returns the packages of this module by their folders.
func load(t *testing.T) map[string]*pkg {
	t.Helper()
	all, err := list()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

var list = sync.OnceValues(func() (map[string]*pkg, error) {
	const format = `{{if not .Standard}}{{.ImportPath}};{{join .Imports ","}};{{join .Deps ","}}{{end}}`
	cmd := exec.Command("go", "list", "-deps", "-f", format, module+"/...")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%v: %w\n%s", cmd, err, stderr.String())
	}
	lines := strings.Fields(string(out))
	known := make(map[string]bool) // what is not of the standard library
	for _, line := range lines {
		path, _, _ := strings.Cut(line, ";")
		known[path] = true
	}
	all := make(map[string]*pkg)
	for _, line := range lines {
		part := strings.Split(line, ";")
		if !ours(part[0]) {
			continue
		}
		p := new(pkg)
		for dep := range strings.SplitSeq(part[1], ",") {
			if ours(dep) {
				p.imports = append(p.imports, dep)
			}
		}
		for dep := range strings.SplitSeq(part[2], ",") {
			if known[dep] {
				p.deps = append(p.deps, dep)
			}
		}
		all[strings.TrimPrefix(part[0], module)] = p
	}
	return all, nil
})

// ours reports whether a package is of this module.
func ours(path string) bool { return strings.HasPrefix(path+"/", module+"/") }
