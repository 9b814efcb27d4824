// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package grpclimit_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sluicegate/sluice/grpclimit"
)

// busyServer denies every second call, with a time to retry.
func busyServer(l net.Listener) *grpc.Server {
	var calls atomic.Int64
	srv := grpc.NewServer(grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		if calls.Add(1)%2 == 1 {
			st, err := status.New(codes.ResourceExhausted, "too many calls").WithDetails(
				&errdetails.RetryInfo{RetryDelay: durationpb.New(10 * time.Millisecond)})
			if err != nil {
				return nil, err
			}
			return nil, st.Err()
		}
		return handle(ctx, req)
	}))
	grpc_health_v1.RegisterHealthServer(srv, health.NewServer())
	go srv.Serve(l) //nolint:errcheck // it ends with the example
	return srv
}

// The calls of a connection keep to the limits that its server states: a denied call is sent
// again at the server's time. Calls wait for two seconds at most; if the server asks for more
// they are not sent, and the error holds the length of the wait.
func ExampleClient() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	defer busyServer(listener).Stop()

	client, err := grpclimit.NewClient(grpclimit.ClientOptions{MaxWait: 2 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	conn, err := grpc.NewClient(listener.Addr().String(),
		append(client.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // nothing is to be lost

	for range 3 {
		res, err := grpc_health_v1.NewHealthClient(conn).Check(context.Background(), &grpc_health_v1.HealthCheckRequest{})
		if hold, ok := errors.AsType[*grpclimit.WaitError](err); ok {
			fmt.Println("not sent, come back in", hold.Wait)
			continue
		}
		fmt.Println(res.GetStatus(), status.Code(err))
	}
	// Output:
	// SERVING OK
	// SERVING OK
	// SERVING OK
}
