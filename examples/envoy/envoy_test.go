// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package envoy checks the configurations of Envoy in this folder by Envoy's own types.
package envoy

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bootstrappb "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	corepb "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routepb "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	commonpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	authzfilter "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	limitfilter "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ratelimit/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3" // a type of the files
	hcmpb "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	upstreampb "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	authpb "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"go.yaml.in/yaml/v4"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/sluicegate/sluice/internal/testkit"
)

// configuration is a configuration of Envoy that proxies /api/ and asks sluice about it.
type configuration struct {
	route   *routepb.Route // of /api/
	cluster string         // the address of the service that is asked
	limits  *limitfilter.RateLimit
	authz   *authzfilter.ExtAuthz
}

// TestConfigurations: Envoy's own types read the configurations, and a client that sends what their
// routes describe gets the answers that the README has.
func TestConfigurations(t *testing.T) {
	awaitHour()
	addresses := startSluice(t)
	readme := string(testkit.ReadFile(t, "README.md"))
	for _, file := range []string{"envoy.yaml", "envoy-authz.yaml"} {
		t.Run(file, func(t *testing.T) {
			c := read(t, file)
			_, block, found := strings.Cut(readme, "```text "+file+"\n")
			want, _, closed := strings.Cut(block, "```")
			if !found || !closed {
				t.Fatal("the README has no output of it")
			}
			conn := dial(t, addresses[c.cluster])
			var got strings.Builder
			for line := range strings.Lines(want) {
				user, _, _ := strings.Cut(line, " ")
				status := http.StatusNotFound // of the application
				if !c.ask(t, conn, "192.0.2.1", user) {
					status = http.StatusTooManyRequests
				}
				fmt.Fprintln(&got, user, status)
			}
			if got.String() != want {
				t.Errorf("answered\n%swant\n%s", &got, want)
			}
			for i := range 6 { // without a user there is the limit of the address alone
				if passes := c.ask(t, conn, "192.0.2.2", ""); passes != (i < 5) {
					t.Errorf("request %d of another address: passes %t", i+1, passes)
				}
			}
		})
	}
}

// awaitHour waits until an hour has begun, if it is about to: its counters begin anew.
func awaitHour() {
	const need = time.Minute
	if left := time.Until(time.Now().Truncate(time.Hour).Add(time.Hour)); left < need {
		time.Sleep(left)
	}
}

// read reads a configuration, and checks it as Envoy does: each field is known, and each
// message keeps its rules.
func read(t *testing.T, file string) *configuration {
	t.Helper()
	var tree any
	if err := yaml.Unmarshal(testkit.ReadFile(t, file), &tree); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	b := new(bootstrappb.Bootstrap)
	if err := protojson.Unmarshal(text, b); err != nil {
		t.Fatal(err)
	}
	validateAll(t, b)
	manager := new(hcmpb.HttpConnectionManager)
	unpack(t, b.GetStaticResources().GetListeners()[0].GetFilterChains()[0].GetFilters()[0].GetTypedConfig(), manager)
	c := &configuration{route: manager.GetRouteConfig().GetVirtualHosts()[0].GetRoutes()[0]}
	if path := c.route.GetMatch().GetPrefix(); path != "/api/" {
		t.Fatalf("the first route is of %q", path)
	}
	var service *corepb.GrpcService
	switch filter := manager.GetHttpFilters()[0].GetTypedConfig(); filter.MessageName().Name() {
	case "RateLimit":
		c.limits = new(limitfilter.RateLimit)
		unpack(t, filter, c.limits)
		service = c.limits.GetRateLimitService().GetGrpcService()
	case "ExtAuthz":
		c.authz = new(authzfilter.ExtAuthz)
		unpack(t, filter, c.authz)
		service = c.authz.GetGrpcService()
	default:
		t.Fatalf("the first filter is %s", filter.MessageName())
	}
	for _, cluster := range b.GetStaticResources().GetClusters() {
		if cluster.GetName() != service.GetEnvoyGrpc().GetClusterName() {
			continue
		}
		protocol := new(upstreampb.HttpProtocolOptions)
		unpack(t, cluster.GetTypedExtensionProtocolOptions()["envoy.extensions.upstreams.http.v3.HttpProtocolOptions"], protocol)
		if protocol.GetExplicitHttpConfig().GetHttp2ProtocolOptions() == nil {
			t.Errorf("the cluster %q has no HTTP/2", cluster.GetName())
		}
		at := cluster.GetLoadAssignment().GetEndpoints()[0].GetLbEndpoints()[0].GetEndpoint().GetAddress().GetSocketAddress()
		c.cluster = fmt.Sprintf("%s:%d", at.GetAddress(), at.GetPortValue())
	}
	return c
}

// validateAll checks the rules of m and of all messages in it, also of those that it has packed.
func validateAll(t *testing.T, m proto.Message) {
	t.Helper()
	checked := 0
	err := protorange.Range(m.ProtoReflect(), func(at protopath.Values) error {
		in, ok := at.Index(-1).Value.Interface().(protoreflect.Message)
		if !ok {
			return nil
		}
		rules, ok := in.Interface().(interface{ ValidateAll() error })
		if !ok {
			return nil
		}
		checked++
		if err := rules.ValidateAll(); err != nil {
			return fmt.Errorf("%s: %w", in.Descriptor().FullName(), err)
		}
		return nil
	})
	if err != nil || checked < 20 {
		t.Errorf("%d messages: %v", checked, err)
	}
}

func unpack(t *testing.T, from *anypb.Any, into proto.Message) {
	t.Helper()
	if err := from.UnmarshalTo(into); err != nil {
		t.Fatal(err)
	}
}

// startSluice starts sluice with sluice.yaml at free ports. It returns the address at which it
// listens in place of each address in the file.
func startSluice(t *testing.T) map[string]string {
	t.Helper()
	bin, file := filepath.Join(t.TempDir(), "sluice"), filepath.Join(t.TempDir(), "sluice.yaml")
	if out, err := exec.CommandContext(t.Context(), "go", "-C", "../../server", "build", "-o", bin, "./cmd/sluice").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	text, addresses := string(testkit.ReadFile(t, "sluice.yaml")), make(map[string]string)
	for _, fixed := range []string{"127.0.0.1:8081", "127.0.0.1:9001", "127.0.0.1:9003"} {
		addresses[fixed] = testkit.FreeAddress(t)
		text = strings.ReplaceAll(text, fixed, addresses[fixed])
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), bin, "serve", "--config", file)
	cmd.Stderr = t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() }) // the end of the test's context has killed it
	return addresses
}

func dial(t *testing.T, address string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // nothing is to be lost
	return conn
}

// ask asks about a request of /api/items from an address, and reports whether it passes. The user
// may be empty.
func (c *configuration) ask(t *testing.T, conn *grpc.ClientConn, from, user string) bool {
	t.Helper()
	header := map[string]string{}
	if user != "" {
		header["x-user"] = user
	}
	if c.limits != nil {
		q := &pb.RateLimitRequest{Domain: c.limits.GetDomain()}
		for _, l := range c.route.GetRoute().GetRateLimits() {
			entries, err := entriesOf(l.GetActions(), from, header)
			if err != nil {
				t.Fatal(err)
			}
			if entries != nil {
				q.Descriptors = append(q.Descriptors, &commonpb.RateLimitDescriptor{Entries: entries})
			}
		}
		r, err := pb.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), q)
		if err != nil || r.GetOverallCode() == pb.RateLimitResponse_UNKNOWN {
			t.Fatal(r, err)
		}
		return r.GetOverallCode() == pb.RateLimitResponse_OK
	}
	own := new(authzfilter.ExtAuthzPerRoute)
	unpack(t, c.route.GetTypedPerFilterConfig()["envoy.filters.http.ext_authz"], own)
	r, err := authpb.NewAuthorizationClient(conn).Check(t.Context(), &authpb.CheckRequest{Attributes: &authpb.AttributeContext{
		Source: &authpb.AttributeContext_Peer{Address: &corepb.Address{Address: &corepb.Address_SocketAddress{SocketAddress: &corepb.SocketAddress{
			Address: from, PortSpecifier: &corepb.SocketAddress_PortValue{PortValue: 4711},
		}}}},
		Request: &authpb.AttributeContext_Request{Http: &authpb.AttributeContext_HttpRequest{
			Method: "GET", Path: "/api/items", Host: "127.0.0.1:10000", Scheme: "http", Headers: header,
		}},
		ContextExtensions: own.GetCheckSettings().GetContextExtensions(),
	}})
	if err != nil || r.GetOkResponse() == nil && r.GetDeniedResponse().GetStatus().GetCode() != http.StatusTooManyRequests {
		t.Fatal(r, err)
	}
	return r.GetOkResponse() != nil
}

// entriesOf returns the descriptor that actions make of a request, or nil if one of them finds
// nothing. They are as Envoy documents them.
func entriesOf(actions []*routepb.RateLimit_Action, from string, header map[string]string) (entries []*commonpb.RateLimitDescriptor_Entry, err error) {
	for _, a := range actions {
		var e commonpb.RateLimitDescriptor_Entry
		switch a := a.GetActionSpecifier().(type) {
		case *routepb.RateLimit_Action_RemoteAddress_:
			e.Key, e.Value = "remote_address", from
		case *routepb.RateLimit_Action_GenericKey_:
			e.Key, e.Value = a.GenericKey.GetDescriptorKey(), a.GenericKey.GetDescriptorValue()
		case *routepb.RateLimit_Action_RequestHeaders_:
			e.Key, e.Value = a.RequestHeaders.GetDescriptorKey(), header[a.RequestHeaders.GetHeaderName()]
			if e.Value == "" {
				return nil, nil
			}
		default:
			return nil, fmt.Errorf("this test knows no action %T", a)
		}
		entries = append(entries, &e)
	}
	return entries, nil
}
