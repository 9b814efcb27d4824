// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package grpclimit_test

import (
	"crypto/tls"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/sluicegate/sluice/grpclimit"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/policy"
)

// TestCertificates: each client has the budget of its certificate's name, on all its
// connections. A client without a verified certificate has no name.
func TestCertificates(t *testing.T) {
	ca := testkit.NewAuthority(t, "ca")
	for _, c := range []struct {
		name     string
		asks     tls.ClientAuthType
		verified bool
	}{
		{"verified", tls.VerifyClientCertIfGiven, true},
		{"any", tls.RequestClientCert, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := &tls.Config{Certificates: []tls.Certificate{ca.Issue(t, nil)}, ClientAuth: c.asks, ClientCAs: ca.Pool()}
			_, dial := start(t, new(service), grpclimit.Options{
				Rules: []policy.Rule{rule(t, "service", policy.Certificate("uri"), "2/h")},
			}, grpc.Creds(credentials.NewTLS(server)))
			call := func(name string, want codes.Code) {
				t.Helper()
				client := &tls.Config{RootCAs: ca.Pool()}
				if name != "" {
					client.Certificates = []tls.Certificate{ca.Issue(t, testkit.URI(t, name))}
				}
				_, err := dial(grpc.WithTransportCredentials(credentials.NewTLS(client))).EmptyCall(t.Context(), new(testgrpc.Empty))
				if got := status.Code(err); got != want {
					t.Errorf("%q: got %v, want %v", name, err, want)
				}
			}
			if !c.verified {
				call("spiffe://example/ada", codes.InvalidArgument)
				return
			}
			for _, name := range []string{"spiffe://example/ada", "spiffe://example/ben"} {
				call(name, codes.OK)
				call(name, codes.OK)
				call(name, codes.ResourceExhausted)
			}
			call("", codes.InvalidArgument)
		})
	}
}
