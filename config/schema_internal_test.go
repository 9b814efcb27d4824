// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
)

// TestSchemaTexts: each key has a description, and there are no descriptions of other keys.
func TestSchemaTexts(t *testing.T) {
	var doc map[string]any
	if err := json.Unmarshal(Schema(), &doc); err != nil {
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
	for key, text := range meanings {
		if !said[text] {
			t.Errorf("%s: is no key of the schema", key)
		}
	}
	if len(said) < 100 {
		t.Errorf("%d keys: %s", len(said), fmt.Sprint(doc))
	}
}
