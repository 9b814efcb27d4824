// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit

import (
	"net/http"
	"strconv"

	"github.com/sluicegate/sluice/internal/wire"
	"github.com/sluicegate/sluice/policy"
)

// isRPC reports whether a client understands an answer of gRPC, and no other: to
// such a one every other status of HTTP than 200 is a failure of the server. All
// calls are POST: else a client could have a cache keep an empty page for others.
func isRPC(r *http.Request) bool {
	return r.ProtoMajor > 1 && r.Method == http.MethodPost && wire.RPC(r.Header)
}

// writeRPC answers a call of gRPC by its status alone, without a message.
func writeRPC(w http.ResponseWriter, e *policy.Event) {
	h := w.Header()
	h["Content-Type"], h["Cache-Control"] = []string{"application/grpc"}, []string{"no-store"}
	h["Grpc-Status"] = []string{strconv.FormatUint(uint64(e.RPCCode()), 10)}
	var buf [256]byte
	h["Grpc-Message"] = []string{percented(e.AppendDetail(buf[:0]))}
	if wait := e.Pushback(); wait != "" {
		h["Grpc-Retry-Pushback-Ms"] = []string{wait}
	}
	w.WriteHeader(http.StatusOK)
}

// percented returns a text as Grpc-Message has it.
func percented(text []byte) string {
	const digits = "0123456789ABCDEF"
	b := make([]byte, 0, len(text))
	for _, c := range text {
		if c < ' ' || c > '~' || c == '%' {
			b = append(b, '%', digits[c>>4], digits[c&15])
			continue
		}
		b = append(b, c)
	}
	return string(b)
}
