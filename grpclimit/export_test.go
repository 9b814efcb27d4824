// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package grpclimit

import "google.golang.org/grpc"

// Unary and Stream are the interceptors of ServerOptions.
func (s *Server) Unary() grpc.UnaryServerInterceptor   { return s.unary }
func (s *Server) Stream() grpc.StreamServerInterceptor { return s.stream }

// Unary is the interceptor of DialOptions.
func (c *Client) Unary() grpc.UnaryClientInterceptor { return c.unary }
