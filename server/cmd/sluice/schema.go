// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/config/cases"
	"github.com/sluicegate/sluice/server/internal/cli"
)

var schemaCommand = cli.Command{
	Name: "schema", Summary: "write a JSON Schema of the configuration, for editors",
	Doc: `Editors that speak the YAML language server complete a file that begins with:

    # yaml-language-server: $schema=sluice.schema.json`,
	Flags: []cli.Flag{
		{Name: "markdown", Doc: "write docs/configuration-keys.md in its place"},
		{Name: "cases", Doc: "write the schema of a file of cases, for sluice lint --test, in its place"},
	},
	Run: func(_ context.Context, c *cli.Call) error {
		switch {
		case len(c.Args) > 0:
			return cli.Usagef("expected no argument, got %q", c.Args[0])
		case c.Given("markdown"):
			return c.Print(config.SchemaPage())
		case c.Given("cases"):
			return c.Print(string(cases.Schema()))
		}
		return c.Print(string(config.Schema()))
	},
}
