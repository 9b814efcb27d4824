// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"crypto/tls"
	"net/http"
	"testing"
	"time"
)

// TrustAny makes g accept any certificate of its upstream.
func TrustAny(_ testing.TB, g *Gateway) {
	g.transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
}

// WithDeadlines is WithLeastRate without a least rate.
func WithDeadlines(next http.Handler, d time.Duration) http.Handler {
	return WithLeastRate(next, d, func() int64 { return 0 }, nil)
}
