// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package evaluate_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/internal/source"
	"github.com/sluicegate/sluice/internal/wire"
	"github.com/sluicegate/sluice/policy"
)

// Overrides and exemptions apply to the requests that they name, and are shown as the keys of
// these requests.
func TestWrittenKeysMatch(t *testing.T) {
	tests := map[string]struct {
		by      []policy.Part
		request string // METHOD HOST ADDRESS
		written []string
		key     []string
	}{
		"IPv6":          {by(policy.IP()), "GET x 2001:db8::1", []string{"2001:db8::9"}, []string{"2001:db8::/64"}},
		"network":       {by(policy.Network(24, 48)), "GET x 192.0.2.1", []string{"192.0.2.7"}, []string{"192.0.2.0/24"}},
		"host":          {by(policy.Host()), "GET API.example.com:80 192.0.2.1", []string{"Api.example.com."}, []string{"api.example.com"}},
		"IPv6 host":     {by(policy.Host()), "GET [2001:db8::1]:80 192.0.2.1", []string{"2001:DB8::1"}, []string{"[2001:db8::1]"}},
		"header of it":  {by(policy.Header("Host")), "GET API.example.com 192.0.2.1", []string{"API.example.com"}, []string{"api.example.com"}},
		"method":        {by(policy.Part{Source: source.Method}), "post x 192.0.2.1", []string{"post"}, []string{"POST"}},
		"several parts": {by(policy.Host(), policy.IP()), "GET x 2001:db8::1", []string{"X", "2001:db8::2"}, []string{"x", "2001:db8::/64"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			parts := strings.Fields(test.request)
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.Method, r.Host = parts[0], parts[1]
			var a wire.Attributes
			a.Reset(r, netip.MustParseAddr(parts[2]), nil)

			rule := one("api", test.by, "1/h sliding-log")
			written := slices.Clone(test.written)
			rule.Levels[0].Overrides = []policy.Override{{Key: written, Limits: limits("2/h sliding-log"), Reason: "r", Author: "a"}}
			w := newWorld(t, rule)
			for range 2 {
				w.allow(&a)
			}
			if v := w.decide(&a); v.Allowed {
				t.Error("a third is allowed")
			}
			if got := w.eval.Policy.Rules()[0].Levels[0].Overrides[0].Key; !slices.Equal(got, test.key) {
				t.Errorf("the override is kept as one of %v, want %v", got, test.key)
			}
			rule.Levels[0].ExemptKeys = [][]string{written}
			w = newWorld(t, rule)
			for range 3 {
				w.allow(&a)
			}
			if got := w.eval.Policy.Rules()[0].Levels[0].ExemptKeys[0]; !slices.Equal(got, test.key) {
				t.Errorf("the exemption is kept as one of %v, want %v", got, test.key)
			}
			if !slices.Equal(written, test.written) {
				t.Errorf("the rule that was compiled has changed: %v", written)
			}
		})
	}
}
