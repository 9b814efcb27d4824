// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package grpclimit

import (
	"context"
	"errors"
	"io"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// stream is the interceptor of streams. It paces their opening, which blocks for MaxWait at
// most. A denied stream is not opened again, as its messages would have to be sent again:
// RecvMsg returns the denial, and the next stream waits. It returns a [*WaitError] for a
// stream that was not opened.
func (c *Client) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	b, h := c.budget(ctx, method, cc.Target())
	ticket, err := b.Enter(ctx, h)
	if err != nil {
		return nil, unsent(ctx, cc.Target(), err)
	}
	sent := newCall(b, ticket)
	s, err := open(ctx, desc, cc, method, opts...)
	if err != nil {
		sent.heard(err, nil, nil)
		return nil, err
	}
	return &clientStream{ClientStream: s, sent: sent}, nil
}

// clientStream passes a stream's header and end to a budget.
type clientStream struct {
	grpc.ClientStream
	sent  call
	began atomic.Bool // the header was passed on
	ended bool        // RecvMsg has failed
}

// Header returns the header, and passes its statement to the budget.
func (s *clientStream) Header() (metadata.MD, error) {
	header, err := s.ClientStream.Header()
	if len(header) > 0 && s.began.CompareAndSwap(false, true) {
		s.sent.heard(nil, header, nil)
	}
	return header, err
}

// RecvMsg receives a message, and passes the statements of the header and of the end to the
// budget.
func (s *clientStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	failure := err
	if errors.Is(err, io.EOF) {
		failure = nil
	}
	if failure == nil && !s.began.Load() {
		_, _ = s.Header() // the header came before the message
	}
	if err != nil && !s.ended {
		s.ended = true
		s.sent.heard(failure, nil, s.Trailer())
	}
	return err
}
