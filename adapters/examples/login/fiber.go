// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net"

	"github.com/gofiber/fiber/v3"

	"github.com/sluicegate/sluice/adapters/fiberlimit"
	"github.com/sluicegate/sluice/httplimit"
)

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
