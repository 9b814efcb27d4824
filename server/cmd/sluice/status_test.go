// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/cli"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// TestStatusFindings: the status reports in words that a single client presses, as soon
// as it does.
func TestStatusFindings(t *testing.T) {
	t.Parallel()
	s := servetest.Start(t, fmt.Sprintf("upstream: %q\nrules: [{name: api, by: header.X-User, limits: 2/min sliding-log}]\n", servetest.Named(t, "up")), servetest.Stopped)
	for i := range 9 {
		s.Get(t, "/", "X-User", strconv.Itoa(i))
	}
	for range 130 {
		s.Get(t, "/", "X-User", "mallory")
	}
	const want, figures = "\napi: one key makes most denials: 128 or more of 128, of about 10 keys, in the last ", " seconds; 92.1 % of all requests are denied\n"
	testkit.Until(t, "status to say "+want+"..."+figures, func() bool {
		out, _ := command(t, cli.OK, "status", "--admin="+s.Admin)
		return strings.Contains(out, want) && strings.Contains(out, figures)
	})
}
