// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package layering_test

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// mostUp is the largest share, in percent, of the uses between files of a package that may go to
// a file which the reader has passed.
const mostUp = 20

var listedFile = regexp.MustCompile(`(?m)^//\s+- (\w+\.go): `)

// TestReadingOrder: the doc.go of a package lists its files in an order in which a reader meets
// each name before its details.
func TestReadingOrder(t *testing.T) {
	for _, folder := range []string{
		"policy", "policy/evaluate", "server/internal/admin", "server/internal/audit", "server/internal/fleetview",
		"server/internal/overrides", "server/internal/overview", "server/internal/serve", "server/internal/sharedstore",
	} {
		t.Run(folder, func(t *testing.T) {
			set := token.NewFileSet()
			names, err := filepath.Glob(filepath.Join("../..", folder, "*.go"))
			if err != nil {
				t.Fatal(err)
			}
			var files []*ast.File
			var have []string
			for _, name := range names {
				if strings.HasSuffix(name, "_test.go") {
					continue
				}
				file, err := parser.ParseFile(set, name, nil, parser.ParseComments)
				if err != nil {
					t.Fatal(err)
				}
				files = append(files, file)
				have = append(have, filepath.Base(name))
			}
			order := []string{"doc.go"}
			for _, m := range listedFile.FindAllStringSubmatch(text(t, filepath.Join("../..", folder, "doc.go")), -1) {
				order = append(order, m[1])
			}
			if sorted := slices.Sorted(slices.Values(order)); !slices.Equal(sorted, have) {
				t.Fatalf("doc.go lists %q, and the folder has %q", sorted, have)
			}
			up, all := uses(set, files, order)
			if up*100 > all*mostUp {
				t.Errorf("%d of %d uses between files go up, more than %d %%", up, all, mostUp)
			}
			t.Logf("%d of %d uses between files go up", up, all)
		})
	}
}

// noImports fails each import: a package's own names need none.
type noImports struct{}

func (noImports) Import(path string) (*types.Package, error) { return nil, errors.New(path) }

// uses counts the uses of names of other files of a package, and those of them that go to an
// earlier file. The type of a method's receiver is no use.
func uses(set *token.FileSet, files []*ast.File, order []string) (up, all int) {
	info := &types.Info{Uses: make(map[*ast.Ident]types.Object)}
	config := types.Config{Importer: noImports{}, Error: func(error) {}}
	pkg, _ := config.Check("p", set, files, info) // the error is that imports fail
	receivers := make(map[*ast.Ident]bool)
	for _, file := range files {
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv == nil {
				continue
			}
			ast.Inspect(f.Recv, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok {
					receivers[id] = true
				}
				return true
			})
		}
	}
	at := func(pos token.Pos) int { return slices.Index(order, filepath.Base(set.Position(pos).Filename)) }
	for id, of := range info.Uses {
		if of.Pkg() != pkg || !of.Pos().IsValid() || receivers[id] {
			continue
		}
		switch from, to := at(id.Pos()), at(of.Pos()); {
		case to < from:
			up++
			all++
		case to > from:
			all++
		}
	}
	return up, all
}

func text(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
