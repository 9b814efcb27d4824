// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/sluicegate/sluice/server/internal/cli"
)

var healthCommand = cli.Command{
	Name: "healthz", Summary: "check a running sluice, for containers",
	Doc: `exits with 0 if the admin address answers /healthz with 200, else with 1. With --ready it asks /readyz, which also checks configuration, certificates and store.

In a Dockerfile:

    HEALTHCHECK CMD ["sluice", "healthz"]`,
	Flags: []cli.Flag{
		{Name: "ready", Doc: "ask whether it can serve"},
		{Name: "admin", Value: "ADDRESS", Doc: "the admin address of the running sluice (default 127.0.0.1:9090)"},
		{Name: "timeout", Value: "DURATION", Doc: "for how long to wait for the answer (default 2s)"},
	},
	Run: runHealth,
}

const mostHealth = 4 << 10 // bytes of an answer that are shown

func runHealth(ctx context.Context, c *cli.Call) error {
	timeout := 2 * time.Second
	if text := c.One("timeout"); text != "" {
		var err error
		if timeout, err = time.ParseDuration(text); err != nil || timeout <= 0 {
			return cli.Usagef("--timeout %q: expected a duration, such as 2s", text)
		}
	}
	if len(c.Args) > 0 {
		return cli.Usagef("expected no argument, got %q", c.Args[0])
	}
	path := "/healthz"
	if c.Given("ready") {
		path = "/readyz"
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, adminURL(c.Values)+path, nil)
	if err != nil {
		return cli.Usagef("--admin: %w; expected an address, such as 127.0.0.1:9090", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return unanswered(adminURL(c.Values), err)
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(resp.Body, mostHealth))
	if err != nil {
		return err
	}
	said := strings.TrimSpace(string(text))
	if resp.StatusCode == http.StatusOK && path == "/healthz" && said != "ok" {
		return fmt.Errorf("%s: expected ok, got %.100q; is this the admin address of sluice serve?", path, said)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", path, resp.Status, said)
	}
	return c.Print(said + "\n")
}
