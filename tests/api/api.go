// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package api lists what the public packages export, for a file that shows each
// change of it in review.
package api

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Packages are the folders of the public packages.
var Packages = []string{
	".", "algo", "memstore", "redisstore", "redisstore/redisurl", "redisstore/rueidisstore", "redisstore/goredis", "remote", "storetest",
	"policy", "policy/evaluate", "profile", "config", "config/cases", "config/upstream", "httplimit", "httpclient", "pacing", "grpclimit", "metrics",
}

// An Entry is something exported.
type Entry struct {
	Package string // its folder
	Name    string // with the type's before a dot, for what belongs to one
	Text    string // its declaration, in a line
	Field   bool   // of a struct: these are listed, and not counted
	Doc     string // its comment, or that of the block it stands in
	// Imports are the paths of the packages that the declaration names.
	Imports []string
}

// String returns the line of the file.
func (e Entry) String() string { return e.Package + ": " + e.Text }

// List returns what the packages beneath root export, in order. Embedded types are
// listed as fields, their methods with the type that has them.
func List(root string) ([]Entry, error) {
	var all []Entry
	for _, dir := range Packages {
		files, err := parse(filepath.Join(root, filepath.FromSlash(dir)))
		if err != nil {
			return nil, fmt.Errorf("api: %s: %w", dir, err)
		}
		name := path.Join("sluice", dir)
		for _, f := range files {
			l := lister{pkg: name, imports: importsOf(f)}
			for _, d := range f.Decls {
				l.decl(d)
			}
			all = append(all, l.list...)
		}
	}
	slices.SortStableFunc(all, func(a, b Entry) int { return cmp.Or(cmp.Compare(a.Package, b.Package), cmp.Compare(a.Name, b.Name)) })
	return all, nil
}

// parse returns the files of a package on any platform, but for tests.
func parse(dir string) (files []*ast.File, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	set := token.NewFileSet()
	for _, e := range entries {
		if e.IsDir() || !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		f, err := parser.ParseFile(set, filepath.Join(dir, e.Name()), nil, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	if len(files) == 0 {
		return nil, fs.ErrNotExist
	}
	return files, nil
}

// importsOf returns the paths of a file's imports by the names they have in it.
func importsOf(f *ast.File) map[string]string {
	names := map[string]string{}
	for _, spec := range f.Imports {
		at := strings.Trim(spec.Path.Value, `"`)
		name := path.Base(at)
		if len(name) > 1 && name[0] == 'v' && strings.Trim(name[1:], "0123456789") == "" {
			name = strings.TrimPrefix(path.Base(path.Dir(at)), "go-") // the version of a module
		}
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = at
	}
	return names
}

// lister collects what one file exports.
type lister struct {
	pkg     string
	imports map[string]string
	doc     string // of the declaration being read
	list    []Entry
}

func (l *lister) decl(d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		l.doc = d.Doc.Text()
		l.function(d)
	case *ast.GenDecl:
		var values *ast.ValueSpec // whose type a constant repeats
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				l.doc = s.Doc.Text() + d.Doc.Text()
				if s.Name.IsExported() {
					l.typ(s)
				}
			case *ast.ValueSpec:
				if s.Type != nil || len(s.Values) > 0 || values == nil {
					values = s
				}
				l.doc = s.Doc.Text() + s.Comment.Text() + d.Doc.Text()
				l.values(d.Tok, s, values.Type)
			}
		}
	}
}

func (l *lister) function(d *ast.FuncDecl) {
	if !d.Name.IsExported() {
		return
	}
	name := d.Name.Name
	if d.Recv != nil {
		owner := receiver(d.Recv.List[0].Type)
		if !ast.IsExported(owner) {
			return
		}
		name = owner + "." + name
	}
	l.add(name, &ast.FuncDecl{Recv: d.Recv, Name: d.Name, Type: d.Type}, d.Type, false)
}

// receiver returns the name of a receiver's type.
func receiver(t ast.Expr) string {
	switch t := t.(type) {
	case *ast.StarExpr:
		return receiver(t.X)
	case *ast.IndexExpr:
		return receiver(t.X)
	case *ast.IndexListExpr:
		return receiver(t.X)
	case *ast.Ident:
		return t.Name
	}
	return ""
}

func (l *lister) values(tok token.Token, s *ast.ValueSpec, typ ast.Expr) {
	for _, n := range s.Names {
		if n.IsExported() {
			l.add(n.Name, &ast.GenDecl{Tok: tok, Specs: []ast.Spec{&ast.ValueSpec{Names: []*ast.Ident{n}, Type: typ}}}, typ, false)
		}
	}
}

func (l *lister) typ(s *ast.TypeSpec) {
	var members *ast.FieldList
	short := *s
	short.Doc, short.Comment = nil, nil
	switch t := s.Type.(type) {
	case *ast.StructType:
		members, short.Type = t.Fields, ast.NewIdent("struct")
	case *ast.InterfaceType:
		members, short.Type = t.Methods, ast.NewIdent("interface")
	}
	l.add(s.Name.Name, &ast.GenDecl{Tok: token.TYPE, Specs: []ast.Spec{&short}}, short.Type, false)
	if members == nil {
		return
	}
	_, isStruct := s.Type.(*ast.StructType)
	for _, m := range members.List {
		l.doc = m.Doc.Text() + m.Comment.Text()
		for _, n := range m.Names {
			if n.IsExported() {
				l.member(s.Name.Name, n.Name, m.Type, isStruct)
			}
		}
		if len(m.Names) == 0 { // embedded
			if name := text(m.Type); isStruct && ast.IsExported(strings.TrimPrefix(path.Ext("."+name), ".")) || !isStruct {
				l.member(s.Name.Name, "embeds "+name, nil, true)
			}
		}
	}
}

func (l *lister) member(owner, name string, typ ast.Expr, field bool) {
	e := Entry{Package: l.pkg, Name: owner + "." + name, Field: field, Imports: l.used(typ), Doc: l.doc}
	e.Text = "type " + owner + ", " + name
	if typ != nil {
		t := text(typ)
		if _, method := typ.(*ast.FuncType); !method || field {
			t = " " + t
		}
		e.Text += strings.TrimPrefix(t, "func")
		if field && strings.HasPrefix(t, " func") {
			e.Text = "type " + owner + ", " + name + t
		}
	}
	l.list = append(l.list, e)
}

func (l *lister) add(name string, node any, typ ast.Node, field bool) {
	l.list = append(l.list, Entry{Package: l.pkg, Name: name, Text: text(node), Field: field, Imports: l.used(typ), Doc: l.doc})
}

// used returns the paths of the packages that a type names.
func (l *lister) used(typ ast.Node) (paths []string) {
	if typ == nil || typ == ast.Expr(nil) {
		return nil
	}
	ast.Inspect(typ, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && l.imports[x.Name] != "" {
				paths = append(paths, l.imports[x.Name])
			}
		}
		return true
	})
	return paths
}

// text prints a node in a line.
func text(node any) string {
	var b bytes.Buffer
	if err := printer.Fprint(&b, token.NewFileSet(), node); err != nil {
		return err.Error()
	}
	return strings.Join(strings.Fields(b.String()), " ")
}
