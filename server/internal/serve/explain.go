// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/internal/clientip"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy/evaluate"
	"github.com/sluicegate/sluice/server/internal/explain"
	"github.com/sluicegate/sluice/server/internal/token"
)

// Explain says how a request would be decided under a configuration where no key
// has spent anything. It asks no store but one of its own.
func Explain(ctx context.Context, c *config.Config, q *explain.Request) (*evaluate.Explanation, error) {
	clients := clientip.NewAdmission(c.Allow, c.Deny)
	x := explain.Explainer{Policy: c.Policy, Store: memstore.New(memstore.Options{MaxKeys: 1 << 10}), Admits: clients.Admits}
	if c.Tokens != nil && q.Claims == nil { // else the token's files are not needed, and may be elsewhere
		v, err := token.New(tokenOptions(c.Tokens, time.Now, nil))
		if err != nil {
			return nil, fmt.Errorf("%s: tokens: %w", c.File, err)
		}
		x.Claims = func(r *http.Request) (func(string) (string, error), bool, error) {
			claims, err := v.Claims(r)
			return claims, c.Tokens.Required, err
		}
	}
	return x.Explain(ctx, q)
}
