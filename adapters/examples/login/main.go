// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Command login serves a log-in in a given framework. Each address may fail three times an
// hour.
//
//	go run ./examples/login -with gin
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
)

// frameworks are the ways to serve, each with the path and the body to post.
var frameworks = map[string]struct {
	serve             func(*httplimit.Middleware, net.Listener) error
	path, media, body string
}{
	"connect": {serveConnect, procedure, "application/json", `"wrong"`},
	"echo":    {serveEcho, "/login", "application/x-www-form-urlencoded", "password=wrong"},
	"fiber":   {serveFiber, "/login", "application/x-www-form-urlencoded", "password=wrong"},
	"gin":     {serveGin, "/login", "application/x-www-form-urlencoded", "password=wrong"},
}

// newLimit returns a limit on failing log-ins.
func newLimit() (*httplimit.Middleware, error) {
	rule := policy.NewRule("login", policy.IP(), sluice.PerHour(3))
	rule.When = &policy.When{Status: []policy.Status{policy.Code(http.StatusUnauthorized)}, ChargeFirst: true}
	return httplimit.New(httplimit.Options{Store: memstore.New(memstore.Options{}), Rules: []policy.Rule{rule}})
}

func main() {
	with := flag.String("with", "gin", "connect, echo, fiber or gin")
	listen := flag.String("listen", "127.0.0.1:8080", "address to listen at")
	flag.Parse()
	f, ok := frameworks[*with]
	if !ok {
		log.Fatalf("-with %q is none of connect, echo, fiber and gin", *with)
	}
	mw, err := newLimit()
	if err != nil {
		log.Fatal(err)
	}
	ln, err := new(net.ListenConfig).Listen(context.Background(), "tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("try: curl -i -H 'Content-Type: %s' -d '%s' http://%s%s\n", f.media, f.body, ln.Addr(), f.path)
	log.Fatal(f.serve(mw, ln))
}
