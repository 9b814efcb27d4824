// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/sluicegate/sluice/config"
	served "github.com/sluicegate/sluice/internal/config"
	"github.com/sluicegate/sluice/policy"
)

func ExampleParse() {
	c, err := config.Parse("sluice.yaml", []byte(`
rules:
  - name: posts
    match: {method: POST, path: /posts}
    by: ip
    limits: [5/min, 100/day]
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	for i := range c.Policy.Len() {
		rule := c.Policy.Rule(i)
		fmt.Println(rule.Name, rule.Levels[0].Limits)
	}
	// Output:
	// posts [5/min 100/day]
}

func ExampleParse_faults() {
	_, err := config.Parse("sluice.yaml", []byte(`
rules:
  - name: posts
    match: {method: post}
    limit: 5/min
`))
	fmt.Println(err)
	// Output:
	// sluice.yaml:4:21: "post" is not a method; methods are written in capitals, such as POST
	// sluice.yaml:5:5: a rule has no key "limit"; use limits
}

// TestLoad: each file of the examples is what the gateway reads.
func TestLoad(t *testing.T) {
	files, err := filepath.Glob("../examples/configs/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	read := 0
	for _, name := range files {
		want, err := served.Load(name)
		if err != nil {
			continue // cases
		}
		read++
		got, err := config.Load(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got.Version != want.Version || !reflect.DeepEqual(limits(got.Policy), limits(want.Policy)) || got.ClientHeader != want.ClientIP.Header ||
			!reflect.DeepEqual([][]any{{got.Trusted, got.Allow, got.Deny}}, [][]any{{want.ClientIP.Trusted, want.Allow, want.Deny}}) {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
	if read < 3 {
		t.Errorf("%d files were read", read)
	}
}

// limits returns the name of each rule and those of its limits.
func limits(p *policy.Policy) (list []string) {
	for _, rule := range p.Rules() {
		for _, level := range rule.Levels {
			list = append(list, fmt.Sprint(rule.Name, level.Limits))
		}
	}
	return list
}

// TestErrors: what is wrong with a file is typed, and has its place.
func TestErrors(t *testing.T) {
	name := filepath.Join(t.TempDir(), "sluice.yaml")
	if _, err := config.Load(name); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: got %v", err)
	}
	if err := os.WriteFile(name, []byte("rules:\n  - {name: a, by: ip, limits: 5/fortnight}\n  - {name: b, by: ip, limit: 1/s}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := config.Load(name)
	var faults *config.FileError
	if !errors.As(err, &faults) || len(faults.Faults) != 2 {
		t.Fatalf("got %v", err)
	}
	if f := faults.Faults[0]; f.File != name || f.Line != 2 || f.Column != 33 || f.String() != name+":2:33: "+f.Problem {
		t.Errorf("got %+v", f)
	}
}
