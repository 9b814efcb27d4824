// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package grpclimit

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"

	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
)

// Call describes a call, or a message of a stream, to the keys, costs and hooks of this
// package.
type Call struct {
	Context    context.Context //nolint:containedctx // it is the call's, as a request of net/http carries its own
	FullMethod string          // "/package.Service/Method"
	// Message is the request of a unary call, or the message that is decided; nil when a
	// stream opens.
	Message any
}

// CallOf returns the call that has the attributes a, for the functions of a policy.Cost. It
// is the zero Call for attributes of another protocol.
func CallOf(a policy.Attributes) Call {
	if of, ok := a.(*attributes); ok {
		return of.Call
	}
	return Call{}
}

// KeyFunc returns a key that calls f, which must be safe for concurrent use. The name is
// for error texts: "tenant". If the call lacks the key, f returns "". For another fault of the
// client it returns a [*policy.PartError]. Any other error is treated as a store error.
func KeyFunc(name string, f func(Call) (string, error)) policy.Part {
	if f == nil {
		return policy.Func(name, nil)
	}
	return policy.Func(name, func(a policy.Attributes) (string, error) { return f(CallOf(a)) })
}

// ByMethod returns a key of the full method.
func ByMethod() policy.Part {
	return KeyFunc("method", func(c Call) (string, error) { return c.FullMethod, nil })
}

// attributes are the attributes of a call, or of a message of a stream.
type attributes struct {
	Call
	server    *Server
	evaluator *evaluate.Evaluator
	client    netip.Addr
	token     policy.Token
}

// set makes a the attributes of a call that an evaluator is to decide.
func (a *attributes) set(s *Server, f *evaluate.Evaluator, c Call) {
	*a = attributes{Call: c, server: s, evaluator: f}
	if f != nil {
		a.client = f.Client(peerOf(c.Context), a.Header)
	}
}

// peerOf returns the address of the connection's peer.
func peerOf(ctx context.Context) netip.Addr {
	p, ok := peer.FromContext(ctx)
	if !ok || p.Addr == nil {
		return netip.Addr{}
	}
	if tcp, ok := p.Addr.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr()
	}
	at, err := netip.ParseAddrPort(p.Addr.String())
	if err != nil {
		return netip.Addr{} // as on a Unix socket
	}
	return at.Addr().Unmap()
}

// Method returns POST, the method of all calls.
func (a *attributes) Method() string { return http.MethodPost }

// Path returns the full method.
func (a *attributes) Path() string { return a.FullMethod }

// Host returns the host that the client dialled, in lower case and without its port.
func (a *attributes) Host() string { return policy.HostOf(strings.Join(a.Header(":authority"), "")) }

// Header returns the values of a metadata key, whatever the case of name.
func (a *attributes) Header(name string) []string {
	if name == "Host" {
		return []string{a.Host()}
	}
	return metadata.ValueFromIncomingContext(a.Context, name)
}

// Query returns nothing: a call has no query.
func (a *attributes) Query(string) ([]string, error) { return nil, nil }

// Cookie returns nothing: a call has no cookies.
func (a *attributes) Cookie(string) ([]string, error) { return nil, nil }

// Client returns the client's address.
func (a *attributes) Client() netip.Addr { return a.client }

// Claim returns a claim of the call's verified token.
func (a *attributes) Claim(name string) (string, error) {
	o := &a.server.opts
	verify := func() (func(string) (string, error), error) { return nil, nil } // there is no token
	if o.Claims != nil {
		verify = func() (func(string) (string, error), error) { return o.Claims(a.Context) }
	}
	return a.token.Claim(name, verify, o.TokenRequired, func(err error) { a.evaluator.Report(a.Context, a, err) })
}

// Certificate returns a name in the client's certificate, "" if the server has verified none.
func (a *attributes) Certificate(name string) (string, error) {
	if p, ok := peer.FromContext(a.Context); ok {
		if over, ok := p.AuthInfo.(credentials.TLSInfo); ok {
			return policy.VerifiedName(&over.State, name)
		}
	}
	return "", nil
}

// Length returns the size of the message, -1 when a stream opens.
func (a *attributes) Length() int64 {
	if a.Message == nil {
		return -1
	}
	return a.server.size(a.Message)
}

// size returns the size of a message in bytes.
func (s *Server) size(message any) int64 {
	if s.opts.Size != nil {
		return int64(max(s.opts.Size(message), 0))
	}
	if m, ok := message.(proto.Message); ok {
		return int64(proto.Size(m))
	}
	return 1
}
