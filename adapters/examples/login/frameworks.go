// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/gofiber/fiber/v3"
	"github.com/labstack/echo/v5"

	"github.com/sluicegate/sluice/adapters/echolimit"
	"github.com/sluicegate/sluice/adapters/fiberlimit"
	"github.com/sluicegate/sluice/adapters/ginlimit"
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

func serveFiber(mw *httplimit.Middleware, ln net.Listener) error {
	app := fiber.New()
	app.Use(fiberlimit.New(mw))
	app.Post("/login", func(c fiber.Ctx) error {
		if c.FormValue("password") != "right" {
			return fiber.ErrUnauthorized
		}
		return c.SendString("welcome\n")
	})
	return app.Listener(ln, fiber.ListenConfig{DisableStartupMessage: true})
}

func serveGin(mw *httplimit.Middleware, ln net.Listener) error {
	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	r.Use(gin.Recovery(), ginlimit.New(mw))
	r.POST("/login", func(c *gin.Context) {
		if c.PostForm("password") != "right" {
			c.AbortWithStatus(http.StatusUnauthorized)
			return
		}
		c.String(http.StatusOK, "welcome\n")
	})
	return r.RunListener(ln)
}
