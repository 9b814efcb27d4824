// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package trace_test

import (
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/internal/stores"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/server/internal/front"
	"github.com/sluicegate/sluice/server/internal/trace"
)

// receiver is a collector that takes spans by OTLP over HTTP and gRPC.
type receiver struct {
	collector.UnimplementedTraceServiceServer

	url, grpc string
	handler   http.Handler

	mu       sync.Mutex
	spans    []*spans.Span
	services []string
	header   http.Header // of the last request
}

func startReceiver(t *testing.T) *receiver {
	t.Helper()
	r := new(receiver)
	r.handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		from := io.Reader(req.Body)
		if req.Header.Get("Content-Encoding") == "gzip" {
			short, err := gzip.NewReader(from)
			if err != nil {
				t.Error(err)
				return
			}
			from = short
		}
		body, err := io.ReadAll(from)
		var export collector.ExportTraceServiceRequest
		if err := errors.Join(err, proto.Unmarshal(body, &export)); err != nil || req.URL.Path != "/v1/traces" || req.Header.Get("Content-Type") != "application/x-protobuf" {
			t.Errorf("%s %q: %v", req.URL, req.Header, err)
		}
		r.take(&export, req.Header)
		w.Header().Set("Content-Type", "application/x-protobuf")
	})
	server := httptest.NewServer(r.handler)
	t.Cleanup(server.Close)
	r.url, r.grpc = server.URL, r.listen(t)
	return r
}

// listen takes spans over gRPC, and returns the URL for it.
func (r *receiver) listen(t *testing.T, options ...grpc.ServerOption) string {
	t.Helper()
	socket, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(options...)
	collector.RegisterTraceServiceServer(server, r)
	served := make(chan error, 1)
	go func() { served <- server.Serve(socket) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return "http://" + socket.Addr().String()
}

// Export takes spans over gRPC.
func (r *receiver) Export(ctx context.Context, export *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	fields, _ := metadata.FromIncomingContext(ctx)
	header := make(http.Header)
	for name, values := range fields {
		header[http.CanonicalHeaderKey(name)] = values
	}
	r.take(export, header)
	return new(collector.ExportTraceServiceResponse), nil
}

func (r *receiver) take(export *collector.ExportTraceServiceRequest, header http.Header) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.header = header
	for _, of := range export.GetResourceSpans() {
		for _, a := range of.GetResource().GetAttributes() {
			if a.GetKey() == "service.name" {
				r.services = append(r.services, a.GetValue().GetStringValue())
			}
		}
		for _, s := range of.GetScopeSpans() {
			r.spans = append(r.spans, s.GetSpans()...)
		}
	}
}

// reported returns the received spans, each as its name and attributes, with the name of its
// parent, or the parent's number if that was not received.
func (r *receiver) reported() (all []string) {
	names := make(map[string]string)
	for _, s := range r.spans {
		names[string(s.GetSpanId())] = s.GetName()
	}
	for _, s := range r.spans {
		text := s.GetName()
		for _, a := range s.GetAttributes() {
			text += " " + strings.TrimPrefix(a.GetKey(), "sluice.") + "=" + a.GetValue().GetStringValue()
		}
		if parent := s.GetParentSpanId(); len(parent) > 0 {
			name, ok := names[string(parent)]
			if !ok {
				name = hex.EncodeToString(s.GetTraceId()) + "-" + hex.EncodeToString(parent)
			}
			text += " in " + name
		}
		if s.GetStatus().GetCode() == spans.Status_STATUS_CODE_ERROR {
			text += ": " + s.GetStatus().GetMessage()
		}
		all = append(all, text)
	}
	slices.Sort(all)
	return all
}

func newTracer(t *testing.T, env ...string) *trace.Tracer {
	t.Helper()
	for i := 0; i < len(env); i += 2 {
		t.Setenv(env[i], env[i+1])
	}
	tracer, err := trace.New(t.Context(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return tracer
}

const (
	traceID  = "4bf92f3577b34da6a3ce929d0e0e4736"
	parentID = "00f067aa0ba902b7"
	traced   = "00-" + traceID + "-" + parentID + "-01"
	untraced = "00-" + traceID + "-" + parentID + "-00"
)

// down returns a store that does not decide.
func down() sluice.Store { return testkit.Failing(errors.New("NOPERM User secret has no permissions")) }

// TestSpans: a decision is a span in the trace of its request and contains those of the store;
// a client that is not traced has none, and no span has text from a client.
func TestSpans(t *testing.T) {
	to := startReceiver(t)
	tracer := newTracer(t, "OTEL_EXPORTER_OTLP_ENDPOINT", to.url)
	rule := policy.NewRule("api", policy.IP(), sluice.PerMinute(1))
	ask := func(store sluice.Store, name, traceparent string) {
		t.Helper()
		mw, err := httplimit.New(httplimit.Options{
			Store: tracer.Wrap(store, name), Rules: []policy.Rule{rule}, OnDecision: func(r *http.Request, e httplimit.Event) {
				tracer.Record(r.Context(), &front.Record{Event: e.Event, Request: e.Request})
			}, OnError: func(*http.Request, error) {},
		})
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest(http.MethodGet, "/secret?secret", nil)
		r.Header.Set("Traceparent", traceparent)
		tracer.Handler(mw.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))).ServeHTTP(httptest.NewRecorder(), r)
	}
	memory := memstore.New(memstore.Options{})
	ask(memory, "memory", traced)
	ask(memory, "memory", untraced)
	ask(memory, "memory", "")
	ask(down(), "redis", traced)
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Ceiling)
	defer cancel()
	if err := tracer.Close(ctx); err != nil {
		t.Fatal(err)
	}
	above := " in " + traceID + "-" + parentID
	want := []string{
		"decide verdict=allowed rule=api limit=api" + above,
		"decide verdict=denied rule=api limit=api", // a root: it has no parent
		"decide verdict=failed-open" + above + ": not decided by the limits",
		"take charges= store=memory in decide", "take charges= store=memory in decide",
		"take charges= store=redis in decide: the store did not decide",
	}
	if got := to.reported(); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, s := range to.services {
		if s != "sluice" {
			t.Errorf("the service is %q", s)
		}
	}
	if text := strings.Join(to.reported(), " "); strings.Contains(text, "secret") || strings.Contains(text, "192.0.2.1") {
		t.Errorf("a client's words, or a server's, in %s", text)
	}
}

// TestOperations: each operation of a store has a span, and the wrapped store keeps its
// optional interfaces.
func TestOperations(t *testing.T) {
	to := startReceiver(t)
	tracer := newTracer(t, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", to.url+"/v1/traces", "OTEL_SERVICE_NAME", "front")
	store := tracer.Wrap(memstore.New(memstore.Options{}), "memory")
	plan, err := sluice.Compile("s", sluice.PerMinute(3))
	if err != nil {
		t.Fatal(err)
	}
	charge := sluice.Charge{Plan: plan, Key: "k", Cost: 1}
	tracer.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		if err := sluice.TakeBatch(ctx, store, make([]sluice.Request, 2), make([]sluice.Result, 2)); err != nil {
			t.Error(err)
		}
		if _, err := store.Take(ctx, sluice.Request{Op: sluice.OpPeek, Charge: charge}); err != nil {
			t.Error(err)
		}
		limit := sluice.SlotLimit{Name: "slots", Cap: 1, TTL: time.Minute}
		if _, err := stores.Slot(ctx, store, sluice.SlotRequest{Scope: "s", Limit: limit, Key: "k", Owner: "o", Cost: 1}); err != nil {
			t.Error(err)
		}
	})).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
	if _, err := store.Take(t.Context(), sluice.Request{Charge: charge}); err != nil { // without a request
		t.Error(err)
	}
	if _, ok := tracer.Wrap(down(), "down").(sluice.SlotStore); ok {
		t.Error("a store seems to keep slots, and does not")
	}
	if err := tracer.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{"batch requests= store=memory in decide: the store did not decide", "decide", "peek charges= store=memory in decide", "slot store=memory in decide"}
	if got := to.reported(); !slices.Equal(got, want) || !slices.Equal(to.services, []string{"front"}) {
		t.Errorf("got %q of %q, want %q", got, to.services, want)
	}
}

// TestAskedFor: without variables there is no Tracer, and an unknown exporter is an error with
// a remedy.
func TestAskedFor(t *testing.T) {
	for _, c := range []struct {
		name string
		env  []string
		is   bool
		err  string
	}{
		{"nothing", nil, false, ""},
		{"an endpoint", []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1"}, true, ""},
		{"an exporter", []string{"OTEL_TRACES_EXPORTER", "otlp"}, true, ""},
		{"none", []string{"OTEL_TRACES_EXPORTER", "none", "OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1"}, false, ""},
		{"disabled", []string{"OTEL_SDK_DISABLED", "TRUE", "OTEL_TRACES_EXPORTER", "otlp"}, false, ""},
		{"a protocol", []string{"OTEL_TRACES_EXPORTER", "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"}, true, ""},
		{"gRPC", []string{"OTEL_TRACES_EXPORTER", "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"}, true, ""},
		{"another protocol", []string{"OTEL_TRACES_EXPORTER", "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"}, false, "use http/protobuf or grpc"},
		{"another exporter", []string{"OTEL_TRACES_EXPORTER", "zipkin"}, false, "use otlp or none"},
		{"no URL", []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318"}, false, "OTEL_EXPORTER_OTLP_ENDPOINT: it is not a URL"},
		{"no URL of traces", []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "%"}, false, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"},
		{"no time", []string{"OTEL_TRACES_EXPORTER", "otlp", "OTEL_EXPORTER_OTLP_TIMEOUT", "10s"}, false, "milliseconds"},
		{"another compression", []string{"OTEL_TRACES_EXPORTER", "otlp", "OTEL_EXPORTER_OTLP_COMPRESSION", "zstd"}, false, "use gzip or none"},
		{"no header", []string{"OTEL_TRACES_EXPORTER", "otlp", "OTEL_EXPORTER_OTLP_HEADERS", "secret"}, false, "use NAME=VALUE"},
		{"no certificate", []string{"OTEL_TRACES_EXPORTER", "otlp", "OTEL_EXPORTER_OTLP_CERTIFICATE", "/none"}, false, "OTEL_EXPORTER_OTLP_CERTIFICATE"},
		{"no certificate of its own", []string{"OTEL_TRACES_EXPORTER", "otlp", "OTEL_EXPORTER_OTLP_CLIENT_KEY", "/none"}, false, "CLIENT_CERTIFICATE"},
		{"no queue", []string{"OTEL_TRACES_EXPORTER", "otlp", "OTEL_BSP_MAX_QUEUE_SIZE", "-1"}, false, "OTEL_BSP_MAX_QUEUE_SIZE"},
		{"no attributes", []string{"OTEL_TRACES_EXPORTER", "otlp", "OTEL_RESOURCE_ATTRIBUTES", "x"}, false, "OTEL_RESOURCE_ATTRIBUTES"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for i := 0; i < len(c.env); i += 2 {
				t.Setenv(c.env[i], c.env[i+1])
			}
			tracer, err := trace.New(t.Context(), slog.New(slog.DiscardHandler))
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("a secret in %v", err)
			}
			if (tracer != nil) != c.is || (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("got %v, %v; want %v, %q", tracer, err, c.is, c.err)
			}
			if err := tracer.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestOff: a nil Tracer changes nothing.
func TestOff(t *testing.T) {
	var tracer *trace.Tracer
	memory := memstore.New(memstore.Options{})
	if tracer.Wrap(memory, "memory") != sluice.Store(memory) {
		t.Error("the store is wrapped")
	}
	mux := http.NewServeMux()
	if tracer.Handler(mux) != http.Handler(mux) {
		t.Error("the handler is wrapped")
	}
	tracer.Record(t.Context(), &front.Record{})
}

// TestGRPC: a collector that takes spans over gRPC, in plain text and behind TLS that requires a
// client's certificate.
func TestGRPC(t *testing.T) {
	cert, key, pool := testkit.CertificateFiles(t)
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	to := startReceiver(t)
	secured := to.listen(t, grpc.Creds(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12,
	})))
	for _, c := range []struct {
		name string
		env  []string
	}{
		{"plain", []string{"OTEL_EXPORTER_OTLP_ENDPOINT", to.grpc}},
		{"secured", []string{
			"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", strings.Replace(secured, "http:", "https:", 1), "OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", cert,
			"OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", cert, "OTEL_EXPORTER_OTLP_CLIENT_KEY", key,
			// The scheme of the URL counts.
			"OTEL_EXPORTER_OTLP_INSECURE", "true",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			to.spans, to.header = nil, nil
			tracer := newTracer(t, append(c.env, "OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc",
				"OTEL_EXPORTER_OTLP_HEADERS", "Api-Key=a%20b, x-team = limits", "OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")...)
			tracer.Handler(http.NewServeMux()).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
			if err := tracer.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := to.reported(); !slices.Equal(got, []string{"decide"}) || to.header.Get("Api-Key") != "a b" || to.header.Get("X-Team") != "limits" {
				t.Errorf("got %q with %q", got, to.header)
			}
		})
	}
}

// TestSecured: a collector behind TLS that requires a key and accepts compression.
func TestSecured(t *testing.T) {
	to := startReceiver(t)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { to.handler.ServeHTTP(w, r) }))
	defer server.Close()
	file := testkit.TempFile(t, "ca.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	tracer := newTracer(t, "OTEL_EXPORTER_OTLP_ENDPOINT", server.URL+"/", "OTEL_EXPORTER_OTLP_CERTIFICATE", file, "OTEL_EXPORTER_OTLP_INSECURE", "true",
		"OTEL_EXPORTER_OTLP_HEADERS", "Api-Key=a%20b, x-team = limits", "OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
	tracer.Handler(http.NewServeMux()).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
	if err := tracer.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := to.reported(); !slices.Equal(got, []string{"decide"}) || to.header.Get("Api-Key") != "a b" || to.header.Get("X-Team") != "limits" || to.header.Get("Content-Encoding") != "gzip" {
		t.Errorf("got %q with %q", got, to.header)
	}
}

// TestCollectorRefuses: a refusal of the collector is reported with its status.
func TestCollectorRefuses(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	var logs strings.Builder
	tracer, err := trace.New(t.Context(), slog.New(slog.NewTextHandler(&logs, nil)))
	if err != nil {
		t.Fatal(err)
	}
	tracer.Handler(http.NewServeMux()).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
	if err := tracer.Close(t.Context()); err != nil || !strings.Contains(logs.String(), "404 Not Found") {
		t.Errorf("close: %v; logged %q", err, logs.String())
	}
}

// TestSecretsNotLogged: a collector that repeats the key of a client in its refusal.
func TestSecretsNotLogged(t *testing.T) {
	const secret = "c2VjcmV0LXRva2Vu"
	refusal := "unknown token " + secret
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, refusal, http.StatusUnauthorized) }))
	defer server.Close()
	overGRPC := new(receiver).listen(t, grpc.UnaryInterceptor(func(context.Context, any, *grpc.UnaryServerInfo, grpc.UnaryHandler) (any, error) {
		return nil, status.Error(codes.Unauthenticated, refusal)
	}))
	for _, c := range []struct{ protocol, url, says string }{
		{"http/protobuf", server.URL, "401 Unauthorized"},
		{"grpc", overGRPC, "Unauthenticated"},
	} {
		t.Run(c.protocol, func(t *testing.T) {
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.url)
			t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", c.protocol)
			t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Bearer%20"+secret)
			var logs strings.Builder
			tracer, err := trace.New(t.Context(), slog.New(slog.NewTextHandler(&logs, nil)))
			if err != nil {
				t.Fatal(err)
			}
			tracer.Handler(http.NewServeMux()).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
			if err := tracer.Close(t.Context()); err != nil || !strings.Contains(logs.String(), c.says) || strings.Contains(logs.String(), secret) {
				t.Errorf("close: %v; logged %q", err, logs.String())
			}
		})
	}
}

// TestCollectorAway: an unavailable collector costs a line in the log, and delays nothing.
func TestCollectorAway(t *testing.T) {
	for _, protocol := range []string{"http/protobuf", "grpc"} {
		t.Run(protocol, func(t *testing.T) {
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
			t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
			t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "200")
			var logs strings.Builder
			tracer, err := trace.New(t.Context(), slog.New(slog.NewTextHandler(&logs, nil)))
			if err != nil {
				t.Fatal(err)
			}
			tracer.Handler(http.NewServeMux()).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
			if err := tracer.Close(t.Context()); err != nil {
				t.Error(err)
			}
			testkit.Contains(t, logs.String(), "the collector did not take spans")
		})
	}
}

// TestCollectorHangs: a collector that does not answer holds up the end of the program no longer
// than the program allows.
func TestCollectorHangs(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer server.Close()
	overGRPC := new(receiver).listen(t, grpc.UnaryInterceptor(func(context.Context, any, *grpc.UnaryServerInfo, grpc.UnaryHandler) (any, error) {
		<-release
		return nil, status.Error(codes.Unavailable, "the test has ended")
	}))
	defer close(release)
	for protocol, url := range map[string]string{"http/protobuf": server.URL, "grpc": overGRPC} {
		t.Run(protocol, func(t *testing.T) {
			tracer := newTracer(t, "OTEL_EXPORTER_OTLP_ENDPOINT", url, "OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
			tracer.Handler(http.NewServeMux()).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if err := tracer.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("close: %v", err)
			}
		})
	}
}
