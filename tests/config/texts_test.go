// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/config/cases"
)

// TestSchemaTexts: each key of a configuration has a description.
func TestSchemaTexts(t *testing.T) { describes(t, config.Schema(), 100) }

// TestCasesSchemaTexts: each key of a file of cases has a description.
func TestCasesSchemaTexts(t *testing.T) { describes(t, cases.Schema(), 25) }

// describes checks that each key of a schema has a description, of which at least so many differ.
func describes(t *testing.T, schema []byte, least int) {
	t.Helper()
	var doc map[string]any
	if err := json.Unmarshal(schema, &doc); err != nil {
		t.Fatal(err)
	}
	said := map[string]bool{}
	var walk func(path string, node any)
	walk = func(path string, node any) {
		switch node := node.(type) {
		case []any:
			for _, n := range node {
				walk(path, n)
			}
		case map[string]any:
			if keys, ok := node["properties"].(map[string]any); ok {
				for _, name := range slices.Sorted(maps.Keys(keys)) {
					of, _ := keys[name].(map[string]any)
					text, _ := of["description"].(string)
					if said[text] = true; text == "" {
						t.Errorf("%s.%s has no description", path, name)
					}
					if of["type"] == nil && of["anyOf"] == nil && of["enum"] == nil {
						t.Errorf("%s.%s has no type: %v", path, name, of)
					}
					walk(path+"."+name, of)
				}
			}
			for _, key := range []string{"anyOf", "items", "additionalProperties"} {
				walk(path, node[key])
			}
		}
	}
	walk("", doc)
	if len(said) < least {
		t.Errorf("%d keys: %s", len(said), fmt.Sprint(doc))
	}
}
