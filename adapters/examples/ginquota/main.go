// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Command ginquota is a service in gin that answers each address 100 times a minute.
//
//	go run ./examples/ginquota
package main

import (
	"fmt"
	"log"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/adapters/ginlimit"
	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
)

// begin
func newLimit(store sluice.Store) gin.HandlerFunc {
	return ginlimit.New(sluice.Must(httplimit.Limit(store, "per-address", policy.IP(), sluice.PerMinute(100))))
}

// end

func newEngine(store sluice.Store) *gin.Engine {
	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	r.Use(gin.Recovery(), newLimit(store))
	r.GET("/", func(c *gin.Context) { c.String(http.StatusOK, "hello\n") })
	return r
}

func main() {
	server := http.Server{Addr: "127.0.0.1:8080", Handler: newEngine(memstore.New(memstore.Options{})), ReadHeaderTimeout: 5 * time.Second}
	fmt.Printf("try: curl -i http://%s/\n", server.Addr)
	log.Fatal(server.ListenAndServe())
}
