// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"slices"
	"strings"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/config/cases"
	"github.com/sluicegate/sluice/profile"
	"github.com/sluicegate/sluice/server/internal/cli"
)

// newProgram returns all commands.
func newProgram() *cli.Program {
	return &cli.Program{
		Name:    "sluice",
		Summary: "sluice limits the rate of HTTP requests.",
		Doc: `Start here; it needs no service, it brings a sample app:

    sluice serve
    curl -i 'http://127.0.0.1:8080/?userId=u1'

In front of your own service, 100 requests a minute for each client address:

    sluice serve --upstream http://127.0.0.1:3000 --limit 100/min --by ip

With rules for paths, users and tiers, in a file that may change while it runs (docs/configuration.md):

    sluice serve --config sluice.yaml`,
		Commands: slices.Concat([]cli.Command{
			{
				Name: "serve", Summary: "pass requests on to a service, within limits", Doc: serveDoc, Flags: serveFlagTable(), KeepFaults: true, Run: runServe,
			},
			lintCommand, convertCommand, explainCommand, replayCommand, profilesCommand(), statusCommand,
		}, keyCommands, []cli.Command{auditCommand, healthCommand, schemaCommand, completionCommand(), manCommand(), versionCommand}),
	}
}

// The flags of commands that ask a running sluice.
var adminFlags = []cli.Flag{
	{Name: "admin", Value: "ADDRESS", Doc: "the admin address of the running sluice (default 127.0.0.1:9090)"},
	{Name: "token-file", Value: "FILE", Doc: "holds its token, if it has one"},
}

var jsonFlag = cli.Flag{Name: "json", Doc: "write JSON"}

func platformNames() (names []string) {
	for _, p := range profile.All() {
		names = append(names, p.Name)
	}
	return names
}

func completionCommand() cli.Command {
	return cli.Command{
		Name: "completion", Args: "bash|zsh|fish|powershell", Summary: "write a shell's completion script", ArgWords: cli.Shells,
		Doc: `Add to a shell's start-up file one of:

    source <(sluice completion bash)
    source <(sluice completion zsh)
    sluice completion fish | source
    sluice completion powershell | Out-String | Invoke-Expression

bash needs the package bash-completion.`,
		Run: func(_ context.Context, c *cli.Call) error {
			return newProgram().Completion(c.Stdout, strings.Join(c.Args, " ")) //nolint:contextcheck // runs nothing
		},
	}
}

func manCommand() cli.Command {
	return cli.Command{
		Name: "man", Summary: "write the manual page",
		Doc: "Read it by:\n\n    sluice man | man -l -",
		Flags: []cli.Flag{
			{Name: "markdown", Doc: "write docs/cli.md in its place"},
		},
		Run: func(_ context.Context, c *cli.Call) error {
			switch {
			case len(c.Args) > 0:
				return cli.Usagef("expected no argument, got %q", c.Args[0])
			case c.Given("markdown"):
				return c.Print(newProgram().Markdown())
			}
			return c.Print(newProgram().Man())
		},
	}
}

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
