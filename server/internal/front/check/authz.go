// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"bytes"
	"context"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	corepb "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authpb "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	typepb "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/server/internal/front"
	"github.com/sluicegate/sluice/server/internal/grpcserver"
	"github.com/sluicegate/sluice/server/internal/httpserver"
)

// extAuthz is the kind of the front of Envoy's external authorization.
const extAuthz = "ext_authz"

// ExtAuthz returns the kind of the front of Envoy's external authorization over gRPC.
func ExtAuthz(clients *httpserver.Bounds) front.Kind {
	return front.Kind{
		Name: extAuthz, ALPN: []string{"h2"},
		New: func(*config.Listener) (front.Front, error) {
			a := &authorizer{}
			none := httpserver.New(http.NotFoundHandler(), clients)
			a.Server = grpcserver.New(none, func(to grpc.ServiceRegistrar) { authpb.RegisterAuthorizationServer(to, a) })
			return a, nil
		},
	}
}

// authorizer serves the proxies of one listener.
type authorizer struct {
	authpb.UnimplementedAuthorizationServer
	*grpcserver.Server
	current atomic.Pointer[httplimit.Middleware]
}

// Prepare implements [front.Front].
func (a *authorizer) Prepare(s *front.Snapshot) (use func(), err error) {
	limits, err := newLimits(s, extAuthz)
	if err != nil {
		return nil, err
	}
	return func() {
		a.current.Store(limits)
		a.Serves(authpb.Authorization_ServiceDesc.ServiceName)
	}, nil
}

// Check implements Envoy's service: it decides the request that a proxy describes.
func (a *authorizer) Check(ctx context.Context, described *authpb.CheckRequest) (*authpb.CheckResponse, error) {
	if described.GetAttributes().GetRequest().GetHttp().GetMethod() == "" {
		return nil, status.Error(codes.InvalidArgument, "the method of the original request is missing")
	}
	r, f := requestOf(ctx, described.GetAttributes())
	if f != nil { // an error would let the client pass if Envoy has failure_mode_allow
		w := &recorded{header: make(http.Header)}
		f.write(w)
		return w.denial(), nil
	}
	q := a.current.Load().Decide(r)
	event := q.Event()
	if !q.Allowed() {
		w := &recorded{header: make(http.Header)}
		q.Refuse(w)
		answer := w.denial()
		answer.DynamicMetadata = metadataOf(&event)
		return answer, nil
	}
	header := make(http.Header)
	q.SetFields(header)
	answer := &authpb.CheckResponse{Status: &statuspb.Status{}, DynamicMetadata: metadataOf(&event)}
	answer.HttpResponse = &authpb.CheckResponse_OkResponse{OkResponse: &authpb.OkHttpResponse{ResponseHeadersToAdd: optionsOf(header)}}
	q.Settle(policy.Response{Status: http.StatusOK}) //nolint:contextcheck // the request has it
	return answer, nil
}

// contextField is the beginning of the header fields that hold the context extensions of the
// proxy's route. Fields of that name that the client has sent are left out.
const contextField = "X-Context-"

// requestOf returns the request that a proxy describes. It has the client's address.
func requestOf(ctx context.Context, described *authpb.AttributeContext) (*http.Request, *fault) {
	of := described.GetRequest().GetHttp()
	header := make(http.Header, len(of.GetHeaders()))
	add := func(name, value string) {
		if name = http.CanonicalHeaderKey(name); !strings.HasPrefix(name, ":") && !strings.HasPrefix(name, contextField) {
			header[name] = append(header[name], value)
		}
	}
	for name, value := range of.GetHeaders() {
		add(name, value)
	}
	for _, h := range of.GetHeaderMap().GetHeaders() { // in place of the headers, one for each line
		if raw := h.GetRawValue(); len(raw) > 0 {
			add(h.GetKey(), string(raw))
		} else {
			add(h.GetKey(), h.GetValue())
		}
	}
	extensions := described.GetContextExtensions()
	for _, name := range slices.Sorted(maps.Keys(extensions)) { // of names that differ in letter case the last one counts
		header.Set(contextField+name, extensions[name])
	}
	u, host, f := targetOf(of.GetPath(), of.GetHost())
	if f != nil {
		return nil, f
	}
	peer := described.GetSource().GetAddress().GetSocketAddress()
	r := &http.Request{
		Method: of.GetMethod(), URL: u, Host: host, RequestURI: of.GetPath(), Header: header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Body: http.NoBody,
		RemoteAddr: net.JoinHostPort(peer.GetAddress(), strconv.FormatUint(uint64(peer.GetPortValue()), 10)),
	}
	return r.WithContext(ctx), nil
}

// metadataOf returns the verdict as dynamic metadata, for logs and later filters.
func metadataOf(e *httplimit.Event) *structpb.Struct {
	fields := map[string]*structpb.Value{"verdict": structpb.NewStringValue(e.Verdict.String())}
	if e.Rule != nil {
		fields["rule"] = structpb.NewStringValue(e.Rule.Name)
	}
	if e.Limit != nil {
		fields["limit"] = structpb.NewStringValue(e.Limit.Name)
		fields["remaining"] = structpb.NewNumberValue(float64(e.Decision.Remaining))
	}
	return &structpb.Struct{Fields: fields}
}

// statusOf returns a status as Envoy names it, or 403 for one that it has no name for.
func statusOf(code int) typepb.StatusCode {
	if _, named := typepb.StatusCode_name[int32(code)]; named {
		return typepb.StatusCode(code)
	}
	return typepb.StatusCode_Forbidden
}

// optionsOf returns header fields that replace those of their names.
func optionsOf(header http.Header) (options []*corepb.HeaderValueOption) {
	for _, name := range slices.Sorted(maps.Keys(header)) {
		for i, value := range header[name] {
			action := corepb.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD
			if i > 0 {
				action = corepb.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD
			}
			options = append(options, &corepb.HeaderValueOption{Header: &corepb.HeaderValue{Key: name, Value: value}, AppendAction: action})
		}
	}
	return options
}

// recorded is a response that is written into memory.
type recorded struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// denial returns the response as the answer to a client that is denied.
func (w *recorded) denial() *authpb.CheckResponse {
	return &authpb.CheckResponse{
		Status: &statuspb.Status{Code: int32(codes.PermissionDenied)},
		HttpResponse: &authpb.CheckResponse_DeniedResponse{DeniedResponse: &authpb.DeniedHttpResponse{
			Status: &typepb.HttpStatus{Code: statusOf(w.status)}, Headers: optionsOf(w.header), Body: w.body.String(),
		}},
	}
}

func (w *recorded) Header() http.Header { return w.header }

func (w *recorded) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

func (w *recorded) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(p)
}
