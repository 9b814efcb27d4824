// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit_test

import (
	"net/http"
	"testing"

	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/policy"
)

// TestTokenThatNobodyVerifies: if a token is required and there is no verifier, no request has
// one.
func TestTokenThatNobodyVerifies(t *testing.T) {
	r := rule(t, "api", policy.First(policy.Claim("sub"), policy.IP()), "1/min")
	mw := newMiddleware(t, httplimit.Options{Store: newStore(newClock()), Rules: []policy.Rule{r}, TokenRequired: true})
	if rec := ask(t, mw.Wrap(ok), "/"); rec.Code != http.StatusUnauthorized {
		t.Errorf("answered %d, want 401", rec.Code)
	}
}
