// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/sluicegate/sluice/server/internal/audit"
	"github.com/sluicegate/sluice/server/internal/cli"
)

var auditCommand = cli.Command{
	Name: "key audit", Summary: "list changes by operators, on all nodes", ArgWords: []string{},
	Doc: "asks a running sluice for the last changes that operators made to keys, the latest first: of all nodes that share its store, or of this node since its start where the store is in its memory.",
	Flags: append([]cli.Flag{
		{Name: "n", Letter: "n", Value: "N", Doc: "how many changes, 1000 at most (default 100)"},
	}, append(adminFlags, jsonFlag)...),
	Run: func(ctx context.Context, call *cli.Call) error {
		c, err := newAdminClient(call.Values)
		if err != nil {
			return err
		}
		var list audit.List
		if err := c.call(ctx, http.MethodGet, "/v1/audit?n="+url.QueryEscape(cmp.Or(call.One("n"), "100")), nil, &list); err != nil {
			return err
		}
		var b strings.Builder
		for i := range list.Entries {
			writeEntry(&b, &list.Entries[i])
		}
		switch {
		case list.Problem != "":
			fmt.Fprintf(&b, "on this node only, since its start: %s\n", printable(list.Problem))
		case list.ThisNodeOnly:
			b.WriteString("on this node only, since its start: its store is in its memory\n")
		}
		return call.Show(list, b.String())
	},
}

// writeEntry writes a change in a line, with its key and details.
func writeEntry(b *strings.Builder, e *audit.Shared) {
	fmt.Fprintf(b, "%s  %s by %s", e.Time.UTC().Format("2006-01-02T15:04:05.000Z"), printable(e.Action), printable(e.Author))
	if e.Node != "" {
		fmt.Fprintf(b, " on %s (%s)", printable(e.Node), printable(e.NodeID))
	}
	if e.Reason != "" {
		fmt.Fprintf(b, ": %s", printable(e.Reason))
	}
	switch {
	case e.Unknown:
		fmt.Fprintf(b, "; NOT KNOWN whether it was made: %s", printable(e.Error))
	case e.Error != "":
		fmt.Fprintf(b, "; NOT MADE: %s", printable(e.Error))
	}
	b.WriteByte('\n')
	if detail, err := json.Marshal(e.Detail); err == nil && len(e.Detail) > 0 {
		fmt.Fprintf(b, "    %s\n", printable(string(detail)))
	}
}
