// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"crypto/tls"
	"testing"
)

// TrustAny makes g accept any certificate of its upstream.
func TrustAny(_ testing.TB, g *Gateway) {
	g.transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
}
