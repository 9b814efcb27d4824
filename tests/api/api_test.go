// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sluicegate/sluice/tests/api"
)

// most is how many names the public packages may export, fields left out.
const most = 608

const (
	root = "../.."
	file = "docs/api.txt"
)

var update = flag.Bool("update", false, "write "+file)

var listOnce = sync.OnceValues(func() ([]api.Entry, error) { return api.List(root) })

// list returns what the public packages export.
func list(t *testing.T) []api.Entry {
	t.Helper()
	all, err := listOnce()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestFile: the file lists what is exported, so that no change of it goes unseen.
func TestFile(t *testing.T) {
	list := list(t)
	var b strings.Builder
	for _, e := range list {
		b.WriteString(e.String() + "\n")
	}
	at := filepath.Join(root, filepath.FromSlash(file))
	if *update {
		if err := os.WriteFile(at, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	was, err := os.ReadFile(at)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range diff(string(was), b.String()) {
		t.Error(line)
	}
	if t.Failed() {
		t.Logf("%s differs from what the packages export; if that is meant, run make api", file)
	}
}

// diff returns the lines that only one of two texts has.
func diff(was, is string) (list []string) {
	old := map[string]bool{}
	for line := range strings.Lines(was) {
		old[line] = true
	}
	for line := range strings.Lines(is) {
		if !old[line] {
			list = append(list, "+ "+line)
		}
		delete(old, line)
	}
	for line := range old {
		list = append(list, "- "+line)
	}
	return list
}

// TestSize: what is exported is kept small.
func TestSize(t *testing.T) {
	list := list(t)
	counts, all := map[string]int{}, 0
	for _, e := range list {
		if !e.Field {
			counts[e.Package]++
			all++
		}
	}
	if all > most {
		t.Errorf("%d names are exported, want at most %d: %v", all, most, counts)
	}
	t.Logf("%d: %v", all, counts)
}

// clients are the packages that are about the type of another module.
var clients = map[string]string{
	"sluice/redisstore/rueidisstore": "github.com/redis/rueidis",
	"sluice/redisstore/goredis":      "github.com/redis/go-redis/v9",
	"sluice/grpclimit":               "google.golang.org/grpc",
	"sluice/metrics":                 "github.com/prometheus/client_golang/prometheus",
}

// TestTypes: users can name each type that they meet, and those of other modules are
// where they look for them.
func TestTypes(t *testing.T) {
	list := list(t)
	met := map[string]bool{}
	for _, e := range list {
		for _, at := range e.Imports {
			client := clients[e.Package]
			switch {
			case strings.HasPrefix(e.Text, "type ") && strings.Contains(e.Text, " = "): // a name for it
			case strings.Contains(at, "/internal/"):
				t.Errorf("%v: %s is internal", e, at)
			case !strings.Contains(at, ".") || strings.HasPrefix(at, "github.com/sluicegate/sluice"):
			case client != "" && strings.HasPrefix(at, client):
				met[e.Package] = true
			default:
				t.Errorf("%v: %s is of another module", e, at)
			}
		}
	}
	for pkg := range clients {
		if !met[pkg] {
			t.Errorf("%s names no type of %s", pkg, clients[pkg])
		}
	}
}

// TestDocs: every exported name says what it is; a type, function or method begins with
// its name.
func TestDocs(t *testing.T) {
	list := list(t)
	for _, e := range list {
		last := e.Name[strings.LastIndex(e.Name, ".")+1:]
		switch {
		case e.Field: // they are said together, or say it by their names
		case e.Doc == "":
			t.Errorf("%v has no comment", e)
		case strings.HasPrefix(e.Text, "func ") && !strings.HasPrefix(e.Doc, last+" "):
			t.Errorf("%v: the comment does not begin with its name: %q", e, e.Doc)
		}
	}
}
