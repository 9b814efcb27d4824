// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package grpclimit

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
)

// Server limits the calls of a gRPC server under one policy. It does not change, is safe for
// concurrent use and holds no state of its own, which is in the store.
type Server struct {
	opts     Options
	calls    *evaluate.Evaluator // nil if calls are not limited
	messages *evaluate.Evaluator // nil if messages are not limited
	replies  *evaluate.Evaluator // nil if replies are not limited
	idle     sync.Pool           // of *decision
}

// decision is the decision of a call, or of the messages of a stream in one direction, which
// grpc lets one goroutine at a time use.
type decision struct {
	attributes
	call  evaluate.Call
	bytes atomic.Int64 // of messages
}

// unary is the [grpc.UnaryServerInterceptor]. It blocks while a call is delayed. Its errors
// are statuses, or those of the handler.
func (s *Server) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	d, err := s.begin(Call{Context: ctx, FullMethod: info.FullMethod, Message: req})
	defer s.end(d)
	if err != nil {
		return nil, err
	}
	if !d.call.Settles() {
		return handler(ctx, req)
	}
	resp := policy.Response{Status: http.StatusInternalServerError, Read: -1} // if a handler, or a Size, panics
	defer func() { d.settle(resp) }()
	resp.Read = s.size(req)
	reply, err := handler(ctx, req)
	if resp.Status = statusOf(err); err == nil {
		resp.Written = s.size(reply)
	}
	return reply, err
}

// stream is the [grpc.StreamServerInterceptor]. It blocks while the stream is delayed. Its
// errors are statuses, or those of the handler.
func (s *Server) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	d, err := s.begin(Call{Context: ss.Context(), FullMethod: info.FullMethod})
	defer s.end(d)
	if err != nil {
		return err
	}
	if !d.call.Settles() && s.messages == nil && s.replies == nil {
		return handler(srv, ss)
	}
	w := newStream(d, ss)
	code := http.StatusInternalServerError // if the handler panics
	defer func() {
		w.cancel()
		d.settle(policy.Response{Status: code, Read: w.messages.bytes.Load(), Written: w.replies.bytes.Load()})
	}()
	err = handler(srv, w)
	if denied := w.denied.Load(); denied != nil { // even if the handler ignores it
		err = *denied
	}
	code = statusOf(err)
	return err
}

// begin decides a call, and returns the error of one that does not pass.
func (s *Server) begin(c Call) (*decision, error) {
	d := s.idle.Get().(*decision) //nolint:forcetypeassert // nothing else is ever put in
	d.set(s, s.calls, c)
	trailer, err := d.decide()
	grpc.SetTrailer(c.Context, trailer) //nolint:errcheck // a call that is over needs none
	if err == nil && s.opts.Fields && d.call.Limit != nil {
		grpc.SetHeader(c.Context, fields(&d.call)) //nolint:errcheck // a call that is over needs none
	}
	return d, err
}

// end clears d and keeps it for another call.
func (s *Server) end(d *decision) {
	d.attributes, d.call.Event = attributes{}, evaluate.Event{}
	s.idle.Put(d)
}

// decide decides, and returns the trailer and the error of a call or message that does not
// pass. Without an evaluator all pass.
func (d *decision) decide() (metadata.MD, error) {
	if d.evaluator == nil {
		return nil, nil
	}
	if d.evaluator.Decide(d.Context, &d.attributes, &d.call); d.call.Verdict.Passes() {
		return nil, nil
	}
	return refuse(&d.call)
}

// statusOf returns the HTTP status of a handler's error.
func statusOf(err error) int {
	st, ok := status.FromError(err)
	if !ok {
		st = status.FromContextError(err) // as grpc does
	}
	return evaluate.RPCStatus(uint32(st.Code()))
}

// settle settles a call after its handler has returned.
func (d *decision) settle(resp policy.Response) {
	at, ends := d.Context.Deadline()
	resp.Header, resp.Unseen = d.answered, d.Context.Err() != nil || ends && !time.Now().Before(at) // the timer may be late
	d.call.Settle(d.Context, resp)
}

// answered returns the values of a key in the handler's header or trailer.
func (d *decision) answered(name string) []string {
	set, ok := grpc.ServerTransportStreamFromContext(d.Context).(interface {
		Header() (metadata.MD, error)
		Trailer() metadata.MD
	})
	if !ok { // as in a test that calls the interceptor
		return nil
	}
	header, _ := set.Header() // without one there are no values
	return append(header.Get(name), set.Trailer().Get(name)...)
}

// stream is a stream whose messages are counted, and decided by rules for messages.
type stream struct {
	grpc.ServerStream
	cancel            context.CancelFunc
	messages, replies decision
	denied            atomic.Pointer[error]
}

func newStream(d *decision, ss grpc.ServerStream) *stream {
	w, s, c := &stream{ServerStream: ss}, d.server, d.Call
	c.Context, w.cancel = context.WithCancel(c.Context)
	w.messages.set(s, s.messages, c)
	w.replies.set(s, s.replies, c)
	return w
}

// Context returns the stream's context, which ends when a message is denied.
func (w *stream) Context() context.Context { return w.messages.Context }

// RecvMsg receives a message, and blocks while it is delayed.
func (w *stream) RecvMsg(m any) error {
	if denied := w.denied.Load(); denied != nil {
		return *denied
	}
	if err := w.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	return w.pass(&w.messages, m)
}

// SendMsg sends a message, and blocks while it is delayed.
func (w *stream) SendMsg(m any) error {
	if denied := w.denied.Load(); denied != nil {
		return *denied
	}
	if err := w.pass(&w.replies, m); err != nil {
		return err
	}
	return w.ServerStream.SendMsg(m)
}

// pass counts and decides a message. A denied message ends the stream.
func (w *stream) pass(d *decision, m any) error {
	n := d.server.size(m)
	d.Message = m
	trailer, err := d.decide()
	d.call.Settle(d.Context, policy.Response{Status: http.StatusOK, Read: n, Written: n})
	if d.Message = nil; err == nil || d == &w.messages { // a denied reply is not sent
		d.bytes.Add(n)
	}
	if err != nil {
		if w.denied.CompareAndSwap(nil, &err) { // a second trailer would void the first
			grpc.SetTrailer(d.Context, trailer) //nolint:errcheck // a call that is over needs none
		}
		w.cancel()
	}
	return err
}
