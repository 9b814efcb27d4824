// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
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
	at := func(listener string) (*policy.Policy, func(netip.Addr) bool, error) { return rulesAt(c, listener) }
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

// rulesAt returns the rules at a listener, by its name or address, and which clients it admits.
// Without one it returns all rules, and the clients of the file.
func rulesAt(c *config.Config, listener string) (*policy.Policy, func(netip.Addr) bool, error) {
	if listener == "" {
		clients := clientip.NewAdmission(c.Allow, c.Deny)
		return c.Policy, clients.Admits, nil
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
