// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package docs_test

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/memstore"
)

// TestCode: blocks of Go that are marked as tested are in a file of this package.
func TestCode(t *testing.T) {
	for page, file := range map[string]string{"coming-from.md": "comingfrom_test.go", "../README.md": "readme_test.go"} {
		source, n := strings.ReplaceAll(read(t, "../tests/docs/"+file), "\n\t", "\n"), 0
		for _, b := range parse(read(t, page)) {
			if b.note != "tested" {
				continue
			}
			if n++; !strings.Contains(source, strings.ReplaceAll("\n"+b.text, "\n\t", "\n")) {
				t.Errorf("%s:%d: not in %s:\n%s", page, b.line, file, b.text)
			}
		}
		if n == 0 {
			t.Errorf("%s has no such block", page)
		}
	}
}

// TestReadmeCode runs the lines of README.md for the library.
func TestReadmeCode(t *testing.T) {
	ctx, store, userID := context.Background(), memstore.New(memstore.Options{}), "ada"
	login := sluice.Must(sluice.New(store, "login", sluice.PerMinute(5))) // store: memstore.New(memstore.Options{}), or one on Redis
	d, err := login.Take(ctx, userID, 1)                                  // d.Allowed, d.Remaining, d.RetryAfter
	if err != nil || !d.Allowed || d.Remaining != 4 {
		t.Errorf("got %+v, %v", d, err)
	}
}

var (
	measured = regexp.MustCompile(`(?m)^\| .+ \| (.+) \| (.+) \| \[run\]\((.+)\) \|$`)
	figure   = regexp.MustCompile(`\b[0-9]+(?:\.[0-9]+)?\b`)
)

// TestReadmeMeasured: each figure of README.md is in the results that its row names.
func TestReadmeMeasured(t *testing.T) {
	rows := measured.FindAllStringSubmatch(read(t, "../README.md"), -1)
	if len(rows) != 4 {
		t.Errorf("%d rows", len(rows))
	}
	for _, row := range rows {
		results := figure.FindAllString(read(t, "../"+row[3]), -1)
		for _, n := range figure.FindAllString(row[1]+" "+row[2], -1) {
			if !slices.Contains(results, n) {
				t.Errorf("%s: %s is not in %s", row[0], n, row[3])
			}
		}
	}
}

// TestReadmeLines: README.md is one that people read.
func TestReadmeLines(t *testing.T) {
	if n := strings.Count(read(t, "../README.md"), "\n"); n > 130 {
		t.Errorf("README.md has %d lines; at most 130", n)
	}
}
