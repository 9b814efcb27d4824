// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package attack_test

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
)

// Types and flags of frames, RFC 9113, section 6.
const (
	frameData         = 0
	frameHeaders      = 1
	framePriority     = 2
	frameReset        = 3
	frameSettings     = 4
	framePing         = 6
	frameGoAway       = 7
	frameWindow       = 8
	frameContinuation = 9

	endStream  = 1
	ack        = 1
	endHeaders = 4
)

// http2 is an HTTP/2 connection that sends frames made by the test.
type http2 struct {
	net.Conn
	in     *bufio.Reader
	stream uint32 // the last one
}

// http2 connects. It asks the gateway for an empty table of fields, so that a status can be
// read without one.
func (c client) http2(t *testing.T, settings ...byte) *http2 {
	t.Helper()
	conn := c.dial(t)
	h := &http2{Conn: conn, in: bufio.NewReader(conn)}
	h.raw("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	h.frame(frameSettings, 0, 0, append([]byte{0, 1, 0, 0, 0, 0}, settings...))
	return h
}

// raw writes bytes. It reports false if the gateway has hung up, as it may on an attacker.
func (h *http2) raw(text string) bool {
	_, err := io.WriteString(h, text)
	return err == nil
}

// frame sends a frame, and reports false if the gateway has hung up.
func (h *http2) frame(kind, flags byte, stream uint32, payload []byte) bool {
	return h.raw(string(frame(kind, flags, stream, payload)))
}

func frame(kind, flags byte, stream uint32, payload []byte) []byte {
	head := make([]byte, 9, 9+len(payload))
	binary.BigEndian.PutUint32(head, uint32(len(payload))<<8)
	head[3], head[4] = kind, flags
	binary.BigEndian.PutUint32(head[5:], stream)
	return append(head, payload...)
}

// block returns a block of fields: names and values in turn, uncompressed.
func block(fields ...string) (b []byte) {
	for i, text := range fields {
		if i%2 == 0 {
			b = append(b, 0) // a literal without indexing
		}
		if n := len(text); n < 127 {
			b = append(b, byte(n))
		} else {
			b = append(b, 127)
			for n -= 127; n >= 128; n >>= 7 {
				b = append(b, byte(n)|128)
			}
			b = append(b, byte(n))
		}
		b = append(b, text...)
	}
	return b
}

// get returns the fields of a request, and more.
func get(row string, more ...string) []byte {
	return block(append([]string{":method", "GET", ":scheme", "http", ":authority", "app.example", ":path", "/", "x-row", row}, more...)...)
}

// open begins a stream with a block of fields and returns its number, or 0 if the gateway has
// hung up.
func (h *http2) open(flags byte, fields []byte) uint32 {
	if h.stream++; h.stream%2 == 0 {
		h.stream++
	}
	if !h.frame(frameHeaders, flags, h.stream, fields) {
		return 0
	}
	return h.stream
}

// read returns the next frame.
func (h *http2) read() (kind, flags byte, stream uint32, payload []byte, err error) {
	var head [9]byte
	if _, err := io.ReadFull(h.in, head[:]); err != nil {
		return 0, 0, 0, nil, err
	}
	payload = make([]byte, binary.BigEndian.Uint32(head[:])>>8)
	_, err = io.ReadFull(h.in, payload)
	return head[3], head[4], binary.BigEndian.Uint32(head[5:]), payload, err
}

// status waits for the answer on a stream. It returns 0 if the gateway ended the stream or the
// connection without one.
func (h *http2) status(t *testing.T, stream uint32) (code int) {
	t.Helper()
	for {
		kind, flags, of, payload, err := h.read()
		if err != nil {
			if code == 0 && strings.Contains(err.Error(), "timeout") {
				t.Error("no answer, and the connection stays open")
			}
			return code
		}
		switch {
		case kind == frameSettings && flags&ack == 0:
			h.frame(frameSettings, ack, 0, nil)
		case kind == framePing && flags&ack == 0:
			h.frame(framePing, ack, 0, payload)
		case of != stream:
		case kind == frameReset:
			return code
		case kind == frameHeaders && code == 0:
			if code, err = statusOf(payload); err != nil {
				t.Error(err)
				return 0
			}
			if code < 200 {
				code = 0
			}
		}
		if of == stream && (kind == frameHeaders || kind == frameData) && flags&endStream != 0 {
			return code
		}
	}
}

// statusOf reads the status, which is the first field of an answer.
func statusOf(b []byte) (int, error) {
	for len(b) > 0 && b[0]&0xe0 == 0x20 { // a change of the table's size
		b = b[1:]
	}
	if len(b) > 0 && b[0] >= 0x88 && b[0] <= 0x8e {
		return []int{200, 204, 206, 304, 400, 404, 500}[b[0]-0x88], nil
	}
	if len(b) < 4 || b[0]&0x0f < 8 {
		return 0, fmt.Errorf("no status in %x", b)
	}
	switch b[1] { // a literal, whose name has an index
	case 3:
		return int(b[2]-'0')*100 + int(b[3]-'0')*10 + int(b[4]-'0'), nil
	case 0x82: // of 2 bytes in Huffman's code
		return digitsOf(uint(b[2])<<8 | uint(b[3])), nil
	}
	return 0, fmt.Errorf("no status in %x", b)
}

// digitsOf reads three digits in Huffman code, which has 5 bits for 0, 1 and 2 and 6 for the
// others.
func digitsOf(bits uint) (n int) {
	for at := 16; at > 4 && n < 100; {
		if code := bits >> (at - 5) & 31; code < 3 {
			n, at = n*10+int(code), at-5
			continue
		}
		if at < 6 {
			break
		}
		n, at = n*10+int(bits>>(at-6)&63)-0x16, at-6
	}
	return n
}
