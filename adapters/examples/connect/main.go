// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Command connect is a log-in over Connect, gRPC or gRPC-Web of which each address
// may fail three times an hour.
//
//	go run ./examples/connect
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/adapters/connectlimit"
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
	const procedure = "/logins.v1.Logins/LogIn"
	mux := http.NewServeMux()
	mux.Handle(procedure, connect.NewUnaryHandler(procedure, logIn))
	ln, err := new(net.ListenConfig).Listen(context.Background(), "tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("try: curl -i -H 'Content-Type: application/json' -d '\"wrong\"' http://%s%s\n", ln.Addr(), procedure)
	server := &http.Server{Handler: connectlimit.New(mw)(mux), ReadHeaderTimeout: 10 * time.Second, Protocols: new(http.Protocols)}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true) // for gRPC
	log.Fatal(server.Serve(ln))
}

// logIn is what generated code would call, with a message of its own.
func logIn(_ context.Context, r *connect.Request[wrapperspb.StringValue]) (*connect.Response[wrapperspb.StringValue], error) {
	if r.Msg.Value != "right" {
		return nil, connect.NewError(connect.CodeUnauthenticated, errors.New("wrong password"))
	}
	return connect.NewResponse(wrapperspb.String("welcome")), nil
}
