// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package connectlimit

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"

	"connectrpc.com/connect"
)

// The media types of protocols whose responses always have status 200: gRPC and gRPC-Web, and
// streams of Connect.
const (
	grpcMedia   = "application/grpc"
	webMedia    = "application/grpc-web"
	streamMedia = "application/connect+"
)

const (
	prefix     = 5        // bytes before a message: flags and length
	mostOfEnd  = 64 << 10 // bytes kept of the last message
	compressed = 1 << 0   // flags
	streamEnds = 1 << 1
	webEnds    = 1 << 7
)

// frames keeps the last message of a stream, which states its code. The zero value is the
// beginning of a response.
type frames struct {
	ends byte   // the flag of the last message
	head []byte // of the current message
	left int64  // bytes of it still to come
	last []byte
}

// take reads a part of a response.
func (f *frames) take(p []byte, media string) {
	switch {
	case strings.HasPrefix(media, webMedia):
		f.ends = webEnds
	case strings.HasPrefix(media, streamMedia):
		f.ends = streamEnds
	default:
		return
	}
	for len(p) > 0 && (f.left > 0 || !f.ended()) {
		if f.left == 0 {
			n := min(prefix-len(f.head), len(p))
			f.head, p = append(f.head, p[:n]...), p[n:]
			if len(f.head) < prefix {
				return
			}
			f.left = int64(binary.BigEndian.Uint32(f.head[1:]))
		}
		n := int(min(f.left, int64(len(p))))
		if f.ended() {
			f.last = append(f.last, p[:min(n, mostOfEnd-len(f.last))]...)
		}
		f.left, p = f.left-int64(n), p[n:]
		if f.left == 0 && !f.ended() {
			f.head = f.head[:0]
		}
	}
}

// ended reports whether the last message has begun.
func (f *frames) ended() bool { return len(f.head) == prefix && f.head[0]&f.ends != 0 }

// code returns the code in the last message, 0 for success, and whether it is known.
func (f *frames) code(h http.Header) (connect.Code, bool) {
	if !f.ended() || f.left > 0 {
		return 0, false
	}
	last := f.last
	if f.head[0]&compressed != 0 {
		if h.Get("Grpc-Encoding") != "gzip" && h.Get("Connect-Content-Encoding") != "gzip" {
			return 0, false
		}
		r, err := gzip.NewReader(bytes.NewReader(last))
		if err != nil {
			return 0, false
		}
		if last, err = io.ReadAll(io.LimitReader(r, mostOfEnd)); err != nil {
			return 0, false
		}
	}
	if f.ends == webEnds {
		for line := range strings.Lines(string(last)) {
			if name, value, _ := strings.Cut(line, ":"); strings.EqualFold(name, "grpc-status") {
				return parse(strings.TrimSpace(value))
			}
		}
		return 0, false
	}
	var end struct{ Error struct{ Code connect.Code } }
	if json.Unmarshal(last, &end) != nil {
		return connect.CodeUnknown, false
	}
	return end.Error.Code, true
}

// parse reads a gRPC code.
func parse(number string) (connect.Code, bool) {
	n, err := strconv.ParseUint(number, 10, 32)
	return connect.Code(n), err == nil
}
