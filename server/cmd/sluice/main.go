// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Command sluice limits the rate of HTTP requests in front of a service, which
// needs no change. See "sluice --help".
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	_ "time/tzdata" // calendar limits, on machines without zone files

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/config/cases"
	"github.com/sluicegate/sluice/profile"
	"github.com/sluicegate/sluice/server/internal/cli"
)

func main() {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		cancel() // begins a graceful stop
		second := <-signals
		code := cli.Failed
		if s, ok := second.(syscall.Signal); ok {
			code = 128 + int(s) // as in a shell
		}
		os.Exit(code)
	}()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

var versionCommand = cli.Command{
	Name: "version", Summary: "show the version of the program", Flags: []cli.Flag{jsonFlag},
	Run: func(_ context.Context, c *cli.Call) error { return c.Show(thisBuild(), thisBuild().String()+"\n") },
}

// build describes the build of a program.
type build struct {
	Version  string `json:"version"`            // of the module
	Revision string `json:"revision,omitempty"` // of its repository, if it was built in one
	Time     string `json:"time,omitempty"`     // of the revision
	Modified bool   `json:"modified,omitempty"` // the source had uncommitted changes
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func thisBuild() build {
	b := build{Version: "unknown", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	b.Version = info.Main.Version
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.time":
			b.Time = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

// String returns the build in a line.
func (b build) String() string {
	text := fmt.Sprintf("sluice %s %s %s", b.Version, b.Go, b.Platform)
	if b.Revision != "" {
		text += fmt.Sprintf(", revision %.12s of %s", b.Revision, b.Time)
	}
	if b.Modified {
		text += ", modified"
	}
	return text
}

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

// adminFlags are the flags of commands that query a running sluice.
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
			{Name: "markdown", Doc: "write docs/cli.md instead"},
		},
		Run: func(_ context.Context, c *cli.Call) error {
			if c.Given("markdown") {
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
		case c.Given("markdown"):
			return c.Print(config.SchemaPage())
		case c.Given("cases"):
			return c.Print(string(cases.Schema()))
		}
		return c.Print(string(config.Schema()))
	},
}
