// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package grpcserver

import (
	"context"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/status"
)

var (
	errLate       = status.New(codes.DeadlineExceeded, "the message of the request has not arrived in time")
	errCompressed = status.New(codes.Unimplemented, "messages are not decompressed; send them without compression")
)

// transport is a [grpc.ServerTransportStream] of grpc-go.
type transport interface {
	RecvCompress() string
	WriteStatus(s *status.Status) error
}

// transportOf returns the transport of a request. It fails if the client compresses messages, as a
// short message may expand to a long one. The exporter of OTLP registers gzip for the whole process.
func transportOf(ctx context.Context) (transport, error) {
	t := grpc.ServerTransportStreamFromContext(ctx).(transport)
	if name := t.RecvCompress(); name != "" && name != encoding.Identity {
		return nil, errCompressed.Err()
	}
	return t, nil
}

// registrar registers services for unary requests whose messages arrive in time.
type registrar struct{ grpc.ServiceRegistrar }

// RegisterService implements [grpc.ServiceRegistrar].
func (r registrar) RegisterService(of *grpc.ServiceDesc, service any) {
	own := *of
	own.Methods = slices.Clone(of.Methods)
	for i := range own.Methods {
		own.Methods[i].Handler = timely(own.Methods[i].Handler)
	}
	r.ServiceRegistrar.RegisterService(&own, service)
}

// timely returns handle with a bound on the time until the message of a request has arrived.
func timely(handle grpc.MethodHandler) grpc.MethodHandler {
	return func(service any, ctx context.Context, read func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
		t, err := transportOf(ctx)
		if err != nil {
			return nil, err
		}
		return handle(service, ctx, func(message any) error {
			late := time.AfterFunc(messageTimeout, func() { _ = t.WriteStatus(errLate) }) // read returns then
			defer late.Stop()
			return read(message)
		}, intercept)
	}
}
