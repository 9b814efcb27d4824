// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"net/http"
	"testing"

	"github.com/sluicegate/sluice/internal/wire"
)

func TestRPC(t *testing.T) {
	for text, want := range map[string]bool{
		"application/grpc": true, "application/grpc+proto": true, "Application/GRPC; charset=utf-8": true,
		"application/grpc-web": false, "application/grpc-web+proto": false, "application/json": false, "": false, "application/grp": false,
	} {
		if got := wire.RPC(http.Header{"Content-Type": {text}}); got != want {
			t.Errorf("%q: got %v", text, got)
		}
	}
	if wire.RPC(nil) || wire.RPC(http.Header{"Content-Type": {"application/grpc", "text/html"}}) {
		t.Error("no type, or two of them, are taken for gRPC's")
	}
}
