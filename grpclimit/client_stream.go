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

// Stream is the interceptor of streams, which paces their opening: that blocks for
// MaxWait at most. A stream that is denied is not opened again, as what was sent on
// it would have to be sent again: the error of RecvMsg says so, and the next stream
// waits.
func (c *Client) Stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
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

// clientStream passes to a budget the first message of the server and how it ends.
type clientStream struct {
	grpc.ClientStream
	sent  call
	began atomic.Bool // the header has been heard
	ended bool        // RecvMsg has failed
}

// Header returns the header, and hears what it says of limits.
func (s *clientStream) Header() (metadata.MD, error) {
	header, err := s.ClientStream.Header()
	if len(header) > 0 && s.began.CompareAndSwap(false, true) {
		s.sent.heard(nil, header, nil)
	}
	return header, err
}

// RecvMsg receives a message, and hears what the first word and the last say of
// limits.
func (s *clientStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	failure := err
	if errors.Is(err, io.EOF) {
		failure = nil
	}
	if failure == nil && !s.began.Load() {
		_, _ = s.Header() // it came before the message
	}
	if err != nil && !s.ended {
		s.ended = true
		s.sent.heard(failure, nil, s.Trailer())
	}
	return err
}
