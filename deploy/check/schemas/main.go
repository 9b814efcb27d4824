// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Command schemas writes JSON schemas of the Kubernetes objects that the manifests and
// the chart have, one file each, beside itself. It makes them of the types of k8s.io/api
// and of the Prometheus operator, in the versions of go.mod, and of what their comments
// say: which fields must be there, and which values an enumeration has. Run it in its
// folder after a change of these versions.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/constant"
	"go/types"
	"maps"
	"os"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
	apiext "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-tools/pkg/crd"
	crdmarkers "sigs.k8s.io/controller-tools/pkg/crd/markers"
	"sigs.k8s.io/controller-tools/pkg/loader"
	"sigs.k8s.io/controller-tools/pkg/markers"
)

// kinds are the objects, by the package that has their type.
var kinds = map[string][]string{
	"k8s.io/api/core/v1":   {"ConfigMap", "Service"},
	"k8s.io/api/apps/v1":   {"Deployment"},
	"k8s.io/api/policy/v1": {"PodDisruptionBudget"},
	"github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1": {"ServiceMonitor"},
}

func main() {
	for _, path := range slices.Sorted(maps.Keys(kinds)) {
		for _, kind := range kinds[path] {
			if err := write(path, kind); err != nil {
				fmt.Fprintf(os.Stderr, "schemas: %s of %s: %v\n", kind, path, err)
				os.Exit(1)
			}
		}
	}
}

// write writes the schema of a kind into a file of its name.
func write(path, kind string) error {
	roots, err := loader.LoadRootsWithConfig(&packages.Config{Mode: packages.NeedModule}, path)
	if err != nil {
		return err
	}
	pkg := roots[0]
	if pkg.Module == nil {
		return errors.New("its module is not known")
	}
	registry := &markers.Registry{}
	if err := crdmarkers.Register(registry); err != nil {
		return err
	}
	parser := &crd.Parser{
		Collector: &markers.Collector{Registry: registry}, Checker: &loader.TypeChecker{},
		PackageOverrides: maps.Clone(crd.KnownPackages), AllowDangerousTypes: true,
	}
	maps.Copy(parser.PackageOverrides, crd.ObjectMetaPackages)
	of := crd.TypeIdent{Package: pkg, Name: kind}
	parser.NeedSchemaFor(of)
	addEnums(parser)
	parser.NeedFlattenedSchemaFor(of)
	if loader.PrintErrors(roots, packages.TypeError) {
		return errors.New("the package has faults")
	}
	text, err := json.Marshal(parser.FlattenedSchemata[of])
	if err != nil {
		return err
	}
	var schema map[string]any
	if err := json.Unmarshal(text, &schema); err != nil {
		return err
	}
	tighten(schema)
	schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	schema["$comment"] = fmt.Sprintf("%s of %s, module %s %s, Apache-2.0; made by deploy/check/schemas", kind, path, pkg.Module.Path, pkg.Module.Version)
	text, err = json.MarshalIndent(schema, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(strings.ToLower(kind)+".json", append(text, '\n'), 0o644) //nolint:gosec // as any file of the repository
}

// addEnums adds the values of types that are commented with +enum, which the parser does
// not read: the constants of the type.
func addEnums(parser *crd.Parser) {
	for of, schema := range parser.Schemata {
		info := parser.Types[of]
		if info == nil || !strings.Contains(info.RawDecl.Doc.Text()+info.RawSpec.Doc.Text(), "+enum") {
			continue
		}
		of.Package.NeedTypesInfo()
		scope := of.Package.Types.Scope()
		for _, name := range scope.Names() {
			c, ok := scope.Lookup(name).(*types.Const)
			if !ok || c.Type() != scope.Lookup(of.Name).Type() {
				continue
			}
			value, err := json.Marshal(constant.StringVal(c.Val()))
			if err != nil {
				of.Package.AddError(err)
			}
			schema.Enum = append(schema.Enum, apiext.JSON{Raw: value})
		}
		parser.Schemata[of] = schema
	}
}

// tighten has objects refuse fields that their type does not have, and drops what checks
// nothing.
func tighten(schema map[string]any) {
	delete(schema, "description")
	delete(schema, "default")
	for name := range schema {
		if strings.HasPrefix(name, "x-kubernetes-") {
			delete(schema, name)
		}
	}
	if properties, ok := schema["properties"].(map[string]any); ok {
		schema["additionalProperties"] = false
		for _, p := range properties {
			tighten(p.(map[string]any))
		}
	} else if more, ok := schema["additionalProperties"].(map[string]any); ok {
		tighten(more)
	}
	if items, ok := schema["items"].(map[string]any); ok {
		tighten(items)
	}
}
