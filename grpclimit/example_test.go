// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package grpclimit_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/grpclimit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
)

func Example() {
	store := memstore.New(memstore.Options{})
	lim, err := grpclimit.Limit(store, "api", policy.IP(), sluice.PerMinute(2))
	if err != nil {
		log.Fatal(err)
	}
	srv := grpc.NewServer(lim.ServerOptions()...)
	grpc_health_v1.RegisterHealthServer(srv, health.NewServer())

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go srv.Serve(listener) //nolint:errcheck // it ends with Stop
	defer srv.Stop()
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // nothing is left to do
	client := grpc_health_v1.NewHealthClient(conn)
	for range 3 {
		_, err := client.Check(context.Background(), &grpc_health_v1.HealthCheckRequest{})
		fmt.Println(status.Code(err))
	}
	// Output:
	// OK
	// OK
	// ResourceExhausted
}

// Each user may fail to log in three times a minute, and send ten messages a second on
// streams, where further messages are delayed.
func ExampleNew() {
	logins := policy.NewRule("logins", policy.Header("x-user"), sluice.PerMinute(3))
	logins.Match.Paths = []string{"/auth.v1.Auth/LogIn"}
	logins.When = &policy.When{Status: grpclimit.Statuses(codes.Unauthenticated)}

	messages := policy.NewRule("messages", policy.Header("x-user"), sluice.PerSecond(10))

	lim, err := grpclimit.New(grpclimit.Options{
		Store:    memstore.New(memstore.Options{}),
		Rules:    []policy.Rule{logins},
		Messages: []policy.Rule{messages},
		MaxWait:  2 * time.Second,
	})
	if err != nil {
		log.Fatal(err)
	}
	srv := grpc.NewServer(lim.ServerOptions()...)
	fmt.Println(len(srv.GetServiceInfo()), "services so far")
	// Output:
	// 0 services so far
}
