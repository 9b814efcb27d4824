// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package grpclimit

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/sluicegate/sluice/internal/pacing"
)

// mostSilent is for how long a stream is in flight of which the server says
// nothing. By then the server has counted it, though it may answer hours later.
const mostSilent = time.Second

func (c *Client) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	b, h := c.budget(ctx, method, cc.Target())
	ticket, err := b.Enter(ctx, h)
	if err != nil {
		return nil, unsent(ctx, cc.Target(), err)
	}
	s, err := open(ctx, desc, cc, method, opts...)
	if err != nil { // what the server says comes later
		b.Lost()
		return nil, err
	}
	silent, cancel := context.WithTimeout(ctx, mostSilent)
	stop := context.AfterFunc(silent, b.Lost)
	return &clientStream{ClientStream: s, budget: b, ticket: ticket, land: func() bool {
		defer cancel()
		return stop()
	}}, nil
}

// clientStream tells a budget the first word of the server and how it ends.
type clientStream struct {
	grpc.ClientStream
	budget *pacing.Budget
	ticket uint64
	land   func() bool // reports whether the stream was in flight until now
	began  atomic.Bool // the header has been heard
	ended  bool        // RecvMsg has failed
}

// Header returns the header, and hears what it says of limits.
func (s *clientStream) Header() (metadata.MD, error) {
	header, err := s.ClientStream.Header()
	if len(header) > 0 && s.began.CompareAndSwap(false, true) {
		s.heard(nil, header, nil)
	}
	return header, err
}

// RecvMsg receives a message, and hears what the first word and the last say of
// limits.
func (s *clientStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	switch {
	case err == nil && !s.began.Load():
		_, _ = s.Header() // it has come before the message
	case err != nil && !s.ended:
		s.ended = true
		if errors.Is(err, io.EOF) {
			_, _ = s.Header() // as above
			s.heard(nil, nil, s.Trailer())
			break
		}
		s.heard(err, nil, s.Trailer())
	}
	return err
}

func (s *clientStream) heard(err error, header, trailer metadata.MD) {
	said, ok := statement(err, header, trailer)
	switch landed := s.land(); {
	case landed && ok:
		s.budget.Answered(s.ticket, said)
	case landed:
		s.budget.Lost()
	case said.Denied || len(said.Items) > 0:
		s.budget.Heard(s.ticket, said)
	}
}
