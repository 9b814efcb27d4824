// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net"
	"net/http"
	"time"

	"github.com/labstack/echo/v5"

	"github.com/sluicegate/sluice/adapters/echolimit"
	"github.com/sluicegate/sluice/httplimit"
)

func serveEcho(mw *httplimit.Middleware, ln net.Listener) error {
	e := echo.New()
	e.Use(echolimit.New(mw))
	e.POST("/login", func(c *echo.Context) error {
		if c.FormValue("password") != "right" {
			return echo.ErrUnauthorized
		}
		return c.String(http.StatusOK, "welcome\n")
	})
	server := &http.Server{Handler: e, ReadHeaderTimeout: 10 * time.Second}
	return server.Serve(ln)
}
