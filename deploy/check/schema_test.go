// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"
)

// schemaOf returns the schema of a kind, nil if there is none.
func schemaOf(t *testing.T, kind string) *jsonschema.Schema {
	t.Helper()
	file := "schemas/" + strings.ToLower(kind) + ".json"
	if _, err := os.Stat(file); err != nil {
		return nil
	}
	schema, err := jsonschema.NewCompiler().Compile(file)
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// validate checks a manifest against the schema of its kind. A manifest without one is at fault.
func validate(t *testing.T, manifest []byte) error {
	t.Helper()
	var object map[string]any
	if err := yaml.Unmarshal(manifest, &object); err != nil {
		t.Fatal(err)
	}
	kind, _ := object["kind"].(string)
	schema := schemaOf(t, kind)
	if schema == nil {
		t.Fatalf("there is no schema for %q:\n%s", kind, manifest)
	}
	return schema.Validate(object)
}

// TestSchemasRefuse: what the types take and Kubernetes does not, schemas refuse.
func TestSchemasRefuse(t *testing.T) {
	const pod = "kind: Deployment\nspec: {selector: {}, template: {spec: {containers: [%s]}}}\n"
	for _, c := range []struct{ manifest, want string }{
		{strings.Replace(pod, "%s", "{name: a, image: b, readinesProbe: {}}", 1), "readinesProbe"},
		{strings.Replace(pod, "%s", "{image: b}", 1), "'name'"},
		{strings.Replace(pod, "%s", "{name: a, imagePullPolicy: Sometimes}", 1), "'Always'"},
		{strings.Replace(pod, "%s", "{name: a, resources: {limits: {memory: much}}}", 1), "much"},
		{"kind: Deployment\nspec: {selector: {}, template: {spec: {}}}\n", "'containers'"},
		{"kind: Service\nspec: {type: Public}\n", "'ClusterIP'"},
		{"kind: Service\nspec: {ports: [{name: http}]}\n", "'port'"},
		{"kind: ServiceMonitor\nspec: {selector: {}, endpoints: [{port: admin, interval: 15 seconds}]}\n", "15 seconds"},
		{"kind: ServiceMonitor\nspec: {endpoints: []}\n", "'selector'"},
		{"kind: PodDisruptionBudget\nspec: {maxUnavailable: [1]}\n", "maxUnavailable"},
		{"kind: ConfigMap\ndata: {sluice.yaml: {rules: []}}\n", "string"},
	} {
		if err := validate(t, []byte(c.manifest)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("want a fault with %s, got %v, of\n%s", c.want, err, c.manifest)
		}
	}
	if err := validate(t, []byte(strings.Replace(pod, "%s", "{name: a, image: b, imagePullPolicy: Always}", 1))); err != nil {
		t.Error(err)
	}
}

// TestSchemasAreOfVersion: each schema names the module that it was made of, in the version
// of go.mod, and the licence.
func TestSchemasAreOfVersion(t *testing.T) {
	module, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("schemas/*.json")
	if err != nil || len(files) != 5 {
		t.Fatalf("%q, %v", files, err)
	}
	from := regexp.MustCompile(`"\$comment": ".*, module (\S+ v\S+), Apache-2\.0; `)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		m := from.FindSubmatch(text)
		if m == nil {
			t.Errorf("%s does not name its module, version and licence", file)
		} else if !strings.Contains(string(module), "\t"+string(m[1])+"\n") {
			t.Errorf("%s is of %s, and go.mod is not: run `go run .` in schemas", file, m[1])
		}
	}
}
