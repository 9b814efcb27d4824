// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Command fiber is a log-in with fiber of which each address may fail three times an
// hour.
//
//	go run ./examples/fiber
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"

	"github.com/gofiber/fiber/v3"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/adapters/fiberlimit"
	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "address to listen at")
	flag.Parse()
	rule := policy.NewRule("login", httplimit.ByIP(), sluice.PerHour(3))
	rule.When = &policy.When{Status: []policy.Status{policy.Code(http.StatusUnauthorized)}, Hold: true}
	mw, err := httplimit.New(httplimit.Options{Store: memstore.New(memstore.Options{}), Rules: []policy.Rule{rule}})
	if err != nil {
		log.Fatal(err)
	}
	app := fiber.New()
	app.Use(fiberlimit.New(mw))
	app.Post("/login", func(c fiber.Ctx) error {
		if c.FormValue("password") != "right" {
			return fiber.ErrUnauthorized
		}
		return c.SendString("welcome\n")
	})
	ln, err := new(net.ListenConfig).Listen(context.Background(), "tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("try: curl -i -d password=wrong http://%s/login\n", ln.Addr())
	log.Fatal(app.Listener(ln, fiber.ListenConfig{DisableStartupMessage: true}))
}
