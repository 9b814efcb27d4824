// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package connectlimit_test

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sluicegate/sluice/adapters/connectlimit"
	"github.com/sluicegate/sluice/adapters/internal/limittest"
	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/policy"
)

type message = wrapperspb.StringValue

// protocols are the protocols of clients.
var protocols = map[string]connect.ClientOption{
	"Connect":  connect.WithClientOptions(),
	"gRPC":     connect.WithGRPC(),
	"gRPC-Web": connect.WithGRPCWeb(),
}

// calls are the kinds of calls, each a function that returns the code of one.
var calls = map[string]func(*caller, string) error{
	"unary": func(c *caller, say string) error {
		_, err := c.unary.CallUnary(c.ctx, connect.NewRequest(wrapperspb.String(say)))
		return err
	},
	"server stream": func(c *caller, say string) error {
		stream, err := c.serve.CallServerStream(c.ctx, connect.NewRequest(wrapperspb.String(say)))
		if err != nil {
			return err
		}
		for stream.Receive() {
		}
		return errors.Join(stream.Err(), stream.Close())
	},
	"client stream": func(c *caller, say string) error {
		stream := c.collect.CallClientStream(c.ctx)
		if err := stream.Send(wrapperspb.String(say)); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		_, err := stream.CloseAndReceive()
		return err
	},
	"both ways": func(c *caller, say string) error {
		stream := c.chat.CallBidiStream(c.ctx)
		if err := stream.Send(wrapperspb.String(say)); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		closed := stream.CloseRequest()
		for {
			_, err := stream.Receive()
			if errors.Is(err, io.EOF) {
				return errors.Join(closed, stream.CloseResponse())
			}
			if err != nil {
				return err
			}
		}
	},
}

// caller calls an application in one protocol.
type caller struct {
	ctx                         context.Context //nolint:containedctx // of the test
	unary, serve, collect, chat *connect.Client[message, message]
}

func newCaller(t *testing.T, url string, opts ...connect.ClientOption) *caller {
	t.Helper()
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	c := &http.Client{Transport: transport}
	method := func(name string) *connect.Client[message, message] {
		return connect.NewClient[message, message](c, url+"/test.v1.Logins/"+name, opts...)
	}
	return &caller{t.Context(), method("Unary"), method("Serve"), method("Collect"), method("Chat")}
}

// answer does what say asks for in a call: ok, panic, wait, or the name of a code.
func answer(ctx context.Context, s *limittest.Signals, say string) (*message, error) {
	switch say {
	case "ok":
		return wrapperspb.String(strings.Repeat("well ", 100)), nil
	case "panic":
		panic("bug")
	case "bug":
		return nil, errors.New("bug")
	case "gone":
		s.Started <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	case "gone, failed":
		s.Started <- struct{}{}
		<-ctx.Done()
		return nil, errors.New("no database")
	case "wait":
		s.Started <- struct{}{}
		<-s.Release
		return wrapperspb.String(say), nil
	}
	var code connect.Code
	if err := code.UnmarshalText([]byte(say)); err != nil {
		return nil, err
	}
	return nil, connect.NewError(code, errors.New(strings.Repeat("no ", 100)))
}

// serving returns a function that starts an application of calls and of other requests.
func serving(opts ...connect.HandlerOption) limittest.Start {
	return func(t *testing.T, mw *httplimit.Middleware, s *limittest.Signals) string {
		mux := http.NewServeMux()
		plain(t, mux, s)
		const service = "/test.v1.Logins/"
		mux.Handle(service+"Unary", connect.NewUnaryHandler(service+"Unary", func(ctx context.Context, r *connect.Request[message]) (*connect.Response[message], error) {
			m, err := answer(ctx, s, r.Msg.Value)
			return connect.NewResponse(m), err
		}, opts...))
		mux.Handle(service+"Serve", connect.NewServerStreamHandler(service+"Serve", func(ctx context.Context, r *connect.Request[message], stream *connect.ServerStream[message]) error {
			if err := stream.Send(r.Msg); err != nil {
				return err
			}
			m, err := answer(ctx, s, r.Msg.Value)
			return errors.Join(err, stream.Send(m))
		}, opts...))
		mux.Handle(service+"Collect", connect.NewClientStreamHandler(service+"Collect", func(ctx context.Context, stream *connect.ClientStream[message]) (*connect.Response[message], error) {
			if !stream.Receive() {
				return nil, stream.Err()
			}
			m, err := answer(ctx, s, stream.Msg().Value)
			return connect.NewResponse(m), err
		}, opts...))
		mux.Handle(service+"Chat", connect.NewBidiStreamHandler(service+"Chat", func(ctx context.Context, stream *connect.BidiStream[message, message]) error {
			m, err := stream.Receive()
			if err != nil {
				return err
			}
			if err := stream.Send(m); err != nil {
				return err
			}
			_, err = answer(ctx, s, m.Value)
			return err
		}, opts...))
		server := httptest.NewUnstartedServer(connectlimit.New(mw)(mux))
		server.Config.ErrorLog = log.New(io.Discard, "", 0) // of panics
		server.Config.Protocols = new(http.Protocols)
		server.Config.Protocols.SetHTTP1(true)
		server.Config.Protocols.SetUnencryptedHTTP2(true)
		server.Start()
		t.Cleanup(server.Close)
		return server.URL
	}
}

// plain serves requests that are no calls.
func plain(t *testing.T, mux *http.ServeMux, s *limittest.Signals) {
	mux.HandleFunc("POST /login/{way}", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "wrong password", http.StatusUnauthorized)
	})
	mux.HandleFunc("GET /bytes", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(limittest.Whole) }) // the client is there
	mux.HandleFunc("GET /stream", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(limittest.Chunk) // the client is there
		w.(http.Flusher).Flush()
		<-s.Release
		_, _ = w.Write(limittest.Chunk) // the client is there
	})
	mux.HandleFunc("POST /upload", func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }) // the client is there
	mux.HandleFunc("GET /wait", func(w http.ResponseWriter, _ *http.Request) {
		s.Started <- struct{}{}
		<-s.Release
		w.WriteHeader(http.StatusUnauthorized)
	})
	mux.HandleFunc("GET /gone", func(_ http.ResponseWriter, r *http.Request) {
		s.Started <- struct{}{}
		<-r.Context().Done()
	})
	mux.HandleFunc("GET /gone/failed", func(w http.ResponseWriter, r *http.Request) {
		s.Started <- struct{}{}
		<-r.Context().Done()
		w.WriteHeader(http.StatusInternalServerError)
	})
	mux.HandleFunc("GET /nothing", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /header", func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Header.Get("X-User")) }) // the client is there
	mux.HandleFunc("GET /hijack", func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close() //nolint:errcheck // the client has closed it
		limittest.Echo(conn)
	})
}

// serve starts an application under rules.
func serve(t *testing.T, rules ...policy.Rule) *limittest.Site {
	t.Helper()
	return limittest.Serve(t, serving(), httplimit.Options{Rules: rules})
}

func TestBytes(t *testing.T)         { limittest.Bytes(t, serving()) }
func TestHijacks(t *testing.T)       { limittest.Hijacks(t, serving(), true) }
func TestClientAddress(t *testing.T) { limittest.ClientAddress(t, serving()) }
func TestInFlight(t *testing.T)      { limittest.InFlight(t, serving()) }
func TestNothing(t *testing.T)       { limittest.Nothing(t, serving()) }
func TestAnswers(t *testing.T)       { limittest.Answers(t, serving()) }
func TestFields(t *testing.T)        { limittest.Fields(t, serving()) }

// TestPlain: the suite also holds for requests that are not calls.
func TestPlain(t *testing.T) {
	t.Run("failed log-ins", func(t *testing.T) {
		limittest.FailedLogins(t, serving(), map[string]int{"status": http.StatusUnauthorized})
	})
	t.Run("streams", func(t *testing.T) { limittest.Streams(t, serving()) })
	t.Run("client leaves", func(t *testing.T) { limittest.ClientLeaves(t, serving(), "/gone", "/gone/failed") })
}
