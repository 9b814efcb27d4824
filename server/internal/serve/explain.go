// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/internal/clientip"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
	"github.com/sluicegate/sluice/server/internal/explain"
	"github.com/sluicegate/sluice/server/internal/token"
)

// Explain says how a request would be decided under a configuration where no key
// has spent anything. It asks no store but one of its own.
func Explain(ctx context.Context, c *config.Config, q *explain.Request) (*evaluate.Explanation, error) {
	at := func(q *explain.Request) (*policy.Policy, func(netip.Addr) bool, error) { return rulesAt(c, q) }
	x := explain.Explainer{At: at, Store: memstore.New(memstore.Options{MaxKeys: 1 << 10})}
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

// rulesAt returns the rules at the listener of a request, and which clients it admits. Without
// one it returns all rules, or to a descriptor those of the first listener for them, and the
// clients of the file.
func rulesAt(c *config.Config, q *explain.Request) (*policy.Policy, func(netip.Addr) bool, error) {
	listener, rules := q.Listener, c.Policy
	if listener == "" {
		at := slices.IndexFunc(c.Listen, func(l config.Listener) bool { return l.Serve == "rls" })
		if len(q.Descriptor) > 0 && at >= 0 {
			rules = c.PolicyOf(&c.Listen[at])
		}
		clients := clientip.NewAdmission(c.Allow, c.Deny)
		return rules, clients.Admits, nil
	}
	var names []string
	for _, l := range listenersOf(c) {
		switch {
		case l.TCP():
			continue
		case l.Address == listener || l.Name == listener:
			clients := clientip.NewAdmission(l.Allow, l.Deny)
			return c.PolicyOf(&l), clients.Admits, nil
		}
		names = append(names, nameOf(&l))
	}
	return nil, nil, fmt.Errorf("listener %q has no rules; use one of %s", listener, strings.Join(names, ", "))
}
