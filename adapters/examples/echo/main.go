// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Command echo is a log-in with echo of which each address may fail three times an
// hour.
//
//	go run ./examples/echo
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/labstack/echo/v5"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/adapters/echolimit"
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
	e := echo.New()
	e.Use(echolimit.New(mw))
	e.POST("/login", func(c *echo.Context) error {
		if c.FormValue("password") != "right" {
			return echo.ErrUnauthorized
		}
		return c.String(http.StatusOK, "welcome\n")
	})
	ln, err := new(net.ListenConfig).Listen(context.Background(), "tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("try: curl -i -d password=wrong http://%s/login\n", ln.Addr())
	server := &http.Server{Handler: e, ReadHeaderTimeout: 10 * time.Second}
	log.Fatal(server.Serve(ln))
}
