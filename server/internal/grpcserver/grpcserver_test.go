// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package grpcserver_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"github.com/sluicegate/sluice/server/internal/gateway"
	"github.com/sluicegate/sluice/server/internal/grpcserver"
	"github.com/sluicegate/sluice/server/internal/httpserver"
)

// server returns a Server of health and reflection.
func server() *grpcserver.Server {
	none := httpserver.New(http.NotFoundHandler(), &httpserver.Bounds{Log: slog.New(slog.DiscardHandler), Lingering: gateway.NewLingering(10)})
	s := grpcserver.New(none, func(grpc.ServiceRegistrar) {})
	s.Serves()
	return s
}

// start serves health and reflection at a free port.
func start(t *testing.T) (*grpcserver.Server, *grpc.ClientConn) {
	t.Helper()
	s := server()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(s.Listen(l)) }()
	c, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(c.Close(), s.Close(), <-served); err != nil {
			t.Error(err)
		}
	})
	return s, c
}

// TestShutdownEndsStreams: a client that watches the service of health, or has a stream of
// reflection open, does not delay the end.
func TestShutdownEndsStreams(t *testing.T) {
	t.Parallel()
	s, c := start(t)
	watch, err := healthpb.NewHealthClient(c).Watch(t.Context(), &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := watch.Recv(); err != nil {
		t.Fatal(err)
	}
	reflected, err := reflectionpb.NewServerReflectionClient(c).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := reflected.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}}); err != nil {
		t.Fatal(err)
	}
	if _, err := reflected.Recv(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	for {
		r, err := watch.Recv()
		if err == nil && r.GetStatus() == healthpb.HealthCheckResponse_NOT_SERVING {
			continue // the last status may arrive before the end
		}
		if status.Code(err) != codes.Unavailable {
			t.Errorf("%v, %v", r, err)
		}
		break
	}
	if _, err := reflected.Recv(); status.Code(err) != codes.Unavailable {
		t.Error(err)
	}
}

// TestLargeMetadata: the metadata of a request is bounded.
func TestLargeMetadata(t *testing.T) {
	t.Parallel()
	_, c := start(t)
	for size, want := range map[int]codes.Code{8 << 10: codes.OK, 32 << 10: codes.Internal} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "a", strings.Repeat("a", size))
		if _, err := healthpb.NewHealthClient(c).Check(ctx, &healthpb.HealthCheckRequest{}); status.Code(err) != want {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

// raw passes messages as they are.
type raw struct{}

func (raw) Name() string { return "proto" }

func (raw) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

func (raw) Unmarshal(data mem.BufferSlice, into any) error {
	*into.(*[]byte) = data.Materialize()
	return nil
}

// TestNotUTF8: a text that is not UTF-8 is read, as Envoy would let the client pass otherwise.
func TestNotUTF8(t *testing.T) {
	t.Parallel()
	_, c := start(t)
	for message, want := range map[string]codes.Code{
		"":                     codes.OK,
		"\x0a\x01\xff":         codes.NotFound, // a service of that name
		"\x0a\x01\xff\x0a\x00": codes.OK,       // the last one counts
		"\x0a\x02\xff":         codes.Internal, // too short
	} {
		var answer []byte
		err := c.Invoke(t.Context(), healthpb.Health_Check_FullMethodName, []byte(message), &answer, grpc.ForceCodecV2(raw{}))
		if status.Code(err) != want {
			t.Errorf("%q: %v, want %v", message, err, want)
		}
	}
}
