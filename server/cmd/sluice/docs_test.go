// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/cli"
)

// TestConfigurationDocument: the YAML of docs/configuration.md is one file,
// without fault or warning, that has every key.
func TestConfigurationDocument(t *testing.T) {
	t.Parallel()
	doc := testkit.ReadFile(t, "../../../docs/configuration.md")
	var file string
	for i, part := range strings.Split(string(doc), "```") {
		if text, isYAML := strings.CutPrefix(part, "yaml\n"); i%2 == 1 && isYAML {
			file += text
		}
	}
	name := testkit.TempFile(t, "sluice.yaml", file)
	out, _ := command(t, cli.OK, "lint", "--without-files", name)
	if strings.Contains(out, "warning:") || !strings.Contains(out, "\nlogin ") {
		t.Errorf("got\n%s", out)
	}

	every := testkit.ReadFile(t, "../../../config/testdata/every-key.yaml")
	// Names that the writer of a file chooses.
	chosen := []string{"X-Plan", "X-Debug", "format", "pro", "tight", "loose", "X-Left", "X-Retry", "X-Why", "sliding-log.15min"}
	have, commented := keysOf(t, []byte(file)), file
	for _, key := range slices.Sorted(maps.Keys(keysOf(t, every))) {
		if !have[key] && !slices.Contains(chosen, key) && !strings.Contains(commented, key+":") {
			t.Errorf("docs/configuration.md lacks the key %q", key)
		}
	}
}

// keysOf returns the keys of all mappings in a YAML document.
func keysOf(t *testing.T, data []byte) map[string]bool {
	t.Helper()
	var root yaml.Node
	if err := yaml.Unmarshal(data, &root); err != nil {
		t.Fatal(err)
	}
	keys := make(map[string]bool)
	var walk func(*yaml.Node)
	walk = func(n *yaml.Node) {
		for i, child := range n.Content {
			if n.Kind == yaml.MappingNode && i%2 == 0 {
				keys[child.Value] = true
			}
			walk(child)
		}
	}
	walk(&root)
	return keys
}
