// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sluicegate/sluice/algo"
)

// TestPicturesAreCurrent redraws every picture of docs/img.
func TestPicturesAreCurrent(t *testing.T) {
	for _, p := range pictures {
		got, err := p.draw()
		if err != nil {
			t.Fatalf("%s: %v", p.file, err)
		}
		want, err := os.ReadFile(filepath.Join("..", "img", p.file))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("docs/img/%s is not what the code draws; run go run ./docs/draw docs/img", p.file)
		}
	}
}

// TestPicturesStayBelowTheirBound checks the curve against the dashed line.
func TestPicturesStayBelowTheirBound(t *testing.T) {
	for _, p := range pictures {
		term, outcomes, err := p.decide()
		if err != nil {
			t.Fatalf("%s: %v", p.file, err)
		}
		bound := algo.Bound(term.Limit, time.Minute)
		for _, o := range outcomes {
			if got := admitted(outcomes, o.at); got > bound {
				t.Errorf("%s: %d allowed in the minute up to %d s, bound %d", p.file, got, o.at/second, bound)
			}
		}
	}
}
