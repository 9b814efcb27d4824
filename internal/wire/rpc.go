// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"net/http"
	"strings"
)

// RPC reports whether the fields of a request or a response are those of gRPC over HTTP/2.
// Those of gRPC-Web are not.
func RPC(h http.Header) bool {
	const kind = "application/grpc"
	types := h["Content-Type"]
	if len(types) != 1 || len(types[0]) < len(kind) || !strings.EqualFold(types[0][:len(kind)], kind) {
		return false
	}
	rest := types[0][len(kind):]
	return rest == "" || rest[0] == '+' || rest[0] == ';'
}
