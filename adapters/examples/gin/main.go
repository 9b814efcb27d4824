// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Command gin is a log-in with gin of which each address may fail three times an
// hour.
//
//	go run ./examples/gin
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/adapters/ginlimit"
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
	ln, err := new(net.ListenConfig).Listen(context.Background(), "tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("try: curl -i -d password=wrong http://%s/login\n", ln.Addr())
	log.Fatal(r.RunListener(ln))
}
