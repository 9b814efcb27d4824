// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/cli"
)

// TestStatusFindings: an operator reads in words that a single client presses, as soon
// as it does.
func TestStatusFindings(t *testing.T) {
	s := startFile(t, fmt.Sprintf("upstream: %q\nrules: [{name: api, by: header.X-User, limits: 2/min sliding-log}]\n", named(t)), stopped)
	for i := range 9 {
		s.get(t, "/", "X-User", strconv.Itoa(i))
	}
	for range 130 {
		s.get(t, "/", "X-User", "mallory")
	}
	const want, figures = "\napi: one key makes most denials: 128 or more of 128, of about 10 keys, in the last ", " seconds; 92.1 % of all requests are denied\n"
	out := ""
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		if out, _ = command(t, cli.OK, "status", "--admin="+s.admin); strings.Contains(out, want) && strings.Contains(out, figures) {
			return
		}
	}
	t.Errorf("status lacks %q, or %q:\n%s", want, figures, out)
}
