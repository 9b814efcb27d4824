// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/config/cases"
)

// compiled returns a schema, for a validator.
func compiled(t *testing.T, text []byte) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	if err := c.AddResource("sluice.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("sluice.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// files returns configurations of the repository by their names.
func files(t *testing.T) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	for _, glob := range []string{"../../config/testdata/*.yaml", "../../config/testdata/*/*.yaml", "../../config/cases/testdata/*/*.yaml", "../../server/internal/lint/testdata/*.yaml", "../../examples/configs/*.yaml", "../../examples/*/*.yaml"} {
		names, err := filepath.Glob(glob)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if all[name], err = os.ReadFile(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	return all
}

// TestSchemaAccepts: the schema accepts the files that Parse accepts.
func TestSchemaAccepts(t *testing.T) {
	schema, n := compiled(t, config.Schema()), 0
	for name, data := range files(t) {
		if _, err := config.Parse(name, data); err != nil {
			continue
		}
		n++
		if err := schema.Validate(document(t, data)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n < 35 {
		t.Errorf("%d files", n)
	}
}

// TestCasesSchema: the schema of cases accepts the files of cases, and refuses unknown keys and words.
func TestCasesSchema(t *testing.T) {
	schema, n := compiled(t, cases.Schema()), 0
	for name, data := range files(t) {
		if !strings.HasSuffix(name, "cases.yaml") {
			continue
		}
		n++
		if err := schema.Validate(document(t, data)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n < 15 {
		t.Errorf("%d files", n)
	}
	for _, text := range []string{
		"{}", "cases: [{name: a}]", "cases: [{name: a, steps: [{expect: late}]}]", "cases: [{name: a, steps: [{at: 1s, when: 2s, expect: denied}]}]",
		"cases: [{name: a, steps: [{given: {request: /, times: many}, expect: {allowed: 1}}]}]", "cases: [{name: a, steps: [{expect: {denied: -1}}]}]",
	} {
		if schema.Validate(document(t, []byte(text))) == nil {
			t.Errorf("the schema accepts %s", text)
		}
	}
}

// TestSchemaRefuses: the schema refuses an unknown key at any place, and a value of another
// kind, as Parse does.
func TestSchemaRefuses(t *testing.T) {
	schema := compiled(t, config.Schema())
	every, err := os.ReadFile("../../config/testdata/every-key.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var root yaml.Node
	if err := yaml.Unmarshal(every, &root); err != nil {
		t.Fatal(err)
	}
	mappings, refused := 0, 0
	var walk func(n *yaml.Node)
	walk = func(n *yaml.Node) {
		if n.Kind == yaml.MappingNode {
			mappings++
			kept := n.Content
			n.Content = slices.Concat(kept, []*yaml.Node{{Kind: yaml.ScalarNode, Value: "no_such_key"}, {Kind: yaml.MappingNode}})
			switch problem, valid := validate(t, schema, &root); {
			case valid && strings.Contains(problem, `no key "no_such_key"`), !valid && problem == "":
				t.Errorf("line %d: Parse says %q of an unknown key; the schema accepts it: %t", n.Line, problem, valid)
			case !valid:
				refused++
			}
			n.Content = kept
		}
		for _, c := range n.Content {
			walk(c)
		}
	}
	walk(&root)
	if mappings < 40 || refused < mappings-5 { // some mappings have arbitrary keys
		t.Errorf("%d of %d mappings refuse an unknown key", refused, mappings)
	}
	for _, text := range []string{
		"{}", "rules: 5", "rules: [{by: ip}]", "rules: [{name: a, mode: dry}]", "rules: [{name: a, shape: 3}]",
		"rules: [{name: a, max_wait: soon}]", "rules: [{name: a, in_flight: {cap: -1}}]", "rules: [{name: a}]\nfields: x-rate", "rules: [{name: a, like: nobody}]",
	} {
		if schema.Validate(document(t, []byte(text))) == nil {
			t.Errorf("the schema accepts %s", text)
		}
	}
}

// validate returns Parse's fault of a document, and whether the schema accepts it.
func validate(t *testing.T, schema *jsonschema.Schema, root *yaml.Node) (problem string, valid bool) {
	t.Helper()
	data, err := yaml.Marshal(root)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := config.Parse("f", data); err != nil {
		problem = err.Error()
	}
	return problem, schema.Validate(document(t, data)) == nil
}

// document reads YAML as an editor does: dates are texts.
func document(t *testing.T, data []byte) any {
	t.Helper()
	var root yaml.Node
	if err := yaml.Unmarshal(data, &root); err != nil {
		t.Fatal(err)
	}
	var walk func(n *yaml.Node)
	walk = func(n *yaml.Node) {
		if n.Tag == "!!timestamp" {
			n.Tag = "!!str"
		}
		for _, c := range n.Content {
			walk(c)
		}
	}
	walk(&root)
	var doc any
	if err := root.Decode(&doc); err != nil {
		t.Fatal(err)
	}
	return doc
}
