// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/sluicegate/sluice/server/internal/admin"
	"github.com/sluicegate/sluice/server/internal/cli"
	"github.com/sluicegate/sluice/server/internal/serve"
)

const mostAnswer = 64 << 20 // bytes of an answer

// adminClient asks a running program.
type adminClient struct {
	base  string
	token string
}

// adminURL returns the URL of --admin.
func adminURL(values cli.Values) string {
	at := cmp.Or(values.One("admin"), serve.DefaultAdmin)
	if !strings.Contains(at, "://") {
		at = "http://" + at
	}
	return strings.TrimSuffix(at, "/")
}

// newAdminClient reads --admin and --token-file.
func newAdminClient(values cli.Values) (*adminClient, error) {
	token, err := serve.ReadToken(values.One("token-file"))
	return &adminClient{base: adminURL(values), token: token}, err
}

// call sends a document, which may be nil, and reads the document of the answer.
func (c *adminClient) call(ctx context.Context, method, path string, send, into any) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	var body io.Reader
	if send != nil {
		doc, err := json.Marshal(send)
		if err != nil {
			return err
		}
		body = bytes.NewReader(doc)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return fmt.Errorf("--admin: %w; use for example 127.0.0.1:9090", err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return unanswered(c.base, err)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, mostAnswer))
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		var fault admin.Error
		if err := json.Unmarshal(data, &fault); err != nil || fault.Error == "" {
			return fmt.Errorf("%s answers %s; is this the admin address of sluice serve, and not public without a token?", c.base, resp.Status)
		}
		return errors.New(lines(fault.Error))
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("the answer of %s cannot be read: %w", c.base, err)
	}
	return nil
}

// unanswered returns the error for a program that does not answer.
func unanswered(at string, err error) error {
	if cause, ok := errors.AsType[*url.Error](err); ok {
		err = cause.Err
	}
	return fmt.Errorf("no sluice at %s: %w; is sluice serve running, and is this its admin address?", at, err)
}

var healthCommand = cli.Command{
	Name: "healthz", Summary: "check a running sluice, for containers",
	Doc: `exits with 0 if the admin address answers /healthz with 200, else with 1. With --ready it asks /readyz, which also checks configuration, certificates and store.

In a Dockerfile:

    HEALTHCHECK CMD ["sluice", "healthz"]`,
	Flags: []cli.Flag{
		{Name: "ready", Doc: "check readiness"},
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
