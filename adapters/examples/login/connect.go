// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sluicegate/sluice/adapters/connectlimit"
	"github.com/sluicegate/sluice/httplimit"
)

const procedure = "/logins.v1.Logins/LogIn"

// serveConnect takes calls over Connect, gRPC and gRPC-Web.
func serveConnect(mw *httplimit.Middleware, ln net.Listener) error {
	mux := http.NewServeMux()
	mux.Handle(procedure, connect.NewUnaryHandler(procedure, logIn))
	server := &http.Server{Handler: connectlimit.New(mw)(mux), ReadHeaderTimeout: 10 * time.Second, Protocols: new(http.Protocols)}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true) // for gRPC
	return server.Serve(ln)
}

// logIn replaces generated code, with a message of its own.
func logIn(_ context.Context, r *connect.Request[wrapperspb.StringValue]) (*connect.Response[wrapperspb.StringValue], error) {
	if r.Msg.Value != "right" {
		return nil, connect.NewError(connect.CodeUnauthenticated, errors.New("wrong password"))
	}
	return connect.NewResponse(wrapperspb.String("welcome")), nil
}
