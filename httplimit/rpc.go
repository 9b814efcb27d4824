// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit

import (
	"net/http"
	"strconv"

	"github.com/sluicegate/sluice/internal/wire"
	"github.com/sluicegate/sluice/policy/evaluate"
)

// isRPC reports whether a client expects a gRPC answer. Such a client treats any HTTP status
// other than 200 as a failure of the server. All gRPC calls are POST: with other methods a
// client could make a cache keep an empty page for others.
func isRPC(r *http.Request) bool {
	return r.ProtoMajor > 1 && r.Method == http.MethodPost && wire.RPC(r.Header)
}

// writeRPC answers a gRPC call with a status and without a message.
func writeRPC(w http.ResponseWriter, e *evaluate.Event) {
	h := w.Header()
	h["Content-Type"], h["Cache-Control"] = []string{"application/grpc"}, []string{"no-store"}
	code, pushback := e.RPC()
	h["Grpc-Status"] = []string{strconv.FormatUint(uint64(code), 10)}
	var buf [256]byte
	h["Grpc-Message"] = []string{percented(e.AppendDetail(buf[:0]))}
	if pushback != "" {
		h["Grpc-Retry-Pushback-Ms"] = []string{pushback}
	}
	w.WriteHeader(http.StatusOK)
}

// percented returns a text in the encoding of Grpc-Message.
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
