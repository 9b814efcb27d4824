// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"regexp"
	"strings"
	"testing"
)

var (
	ofErrors      = regexp.MustCompile(`(?i)error|fail|fault|refuse|\berr|\[\*?[A-Za-z.]*Error\]|nil if|invalid|reports what|must|wrong`)
	ofNumbers     = regexp.MustCompile(`\s(u?int(8|16|32|64)?|float64)$`)
	ofUnits       = regexp.MustCompile(`(?i)units?\b|bytes|keys|states|requests|calls|takes|µs|microseconds|seconds|bits|decisions|nodes|slots|index|status|limits|rules|quota|parts|how (often|many)|from [013]\b|counted|denials|cost|percent|quota`)
	ofConcurrency = regexp.MustCompile(`(?i)concurren|goroutine|immutable|not changed|is not safe|value`)
)

// TestDocsOfErrors: a function that may fail says so, or its type does.
func TestDocsOfErrors(t *testing.T) {
	list := list(t)
	types := map[string]string{} // what a type says of its methods
	for _, e := range list {
		if strings.HasPrefix(e.Text, "type ") && !e.Field {
			types[e.Package+"."+e.Name] = e.Doc
		}
	}
	said := 0
	for _, e := range list {
		if e.Field || strings.HasSuffix(e.Name, ".Unwrap") || !strings.HasPrefix(e.Text, "func ") || !regexp.MustCompile(`error\)?$`).MatchString(e.Text) {
			continue
		}
		owner, _, _ := strings.Cut(e.Name, ".")
		if ofErrors.MatchString(e.Doc + types[e.Package+"."+owner]) {
			said++
			continue
		}
		t.Errorf("%v does not say when it fails: %q", e, e.Doc)
	}
	if said < 50 {
		t.Errorf("%d functions say it", said)
	}
}

// TestDocsOfConcurrency: a type with methods that change it, or that callers share, says
// whether it may be used by several goroutines.
func TestDocsOfConcurrency(t *testing.T) {
	list := list(t)
	pointers := map[string]int{}
	for _, e := range list {
		if m := regexp.MustCompile(`^func \(\w* ?\*(\w+)\) (\w+)`).FindStringSubmatch(e.Text); m != nil && !strings.HasSuffix(m[1], "Error") {
			pointers[e.Package+"."+m[1]]++
		}
	}
	said := 0
	for _, e := range list {
		if e.Field || !strings.HasPrefix(e.Text, "type ") || pointers[e.Package+"."+e.Name] < 2 {
			continue
		}
		if ofConcurrency.MatchString(e.Doc) {
			said++
			continue
		}
		t.Errorf("%v does not say whether goroutines may share it: %q", e, e.Doc)
	}
	if said < 8 {
		t.Errorf("%d types say it", said)
	}
}

// TestDocsOfUnits: a field or constant that is a number says of what. Of a duration the
// type says it.
func TestDocsOfUnits(t *testing.T) {
	list := list(t)
	said := 0
	for _, e := range list {
		if !ofNumbers.MatchString(e.Text) || !e.Field && !strings.HasPrefix(e.Text, "const ") {
			continue
		}
		if ofUnits.MatchString(e.Doc) || ofUnits.MatchString(e.Name) {
			said++
			continue
		}
		t.Errorf("%v does not say of what it is a number: %q", e, e.Doc)
	}
	if said < 50 {
		t.Errorf("%d numbers say it", said)
	}
}
