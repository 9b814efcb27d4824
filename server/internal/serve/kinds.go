// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"cmp"
	"slices"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/internal/clientip"
	"github.com/sluicegate/sluice/server/internal/front"
	"github.com/sluicegate/sluice/server/internal/front/api"
	"github.com/sluicegate/sluice/server/internal/front/check"
	tcpfront "github.com/sluicegate/sluice/server/internal/front/tcp"
	"github.com/sluicegate/sluice/server/internal/gateway/tcp"
)

// kinds returns the kinds of fronts.
func (s *runtime) kinds() []front.Kind {
	s.resp.Tokens = api.Tokens
	return []front.Kind{
		s.proxy.Kind(),
		s.api.Kind(),
		s.check.Kind(s.clients),
		check.ExtAuthz(s.clients),
		s.rls.Kind(s.clients),
		s.resp.Kind(),
		tcpfront.Kind(func(c *config.Listener) (tcp.Options, error) {
			o, err := s.tcpOptions(c)
			clients := clientip.NewAdmission(c.Allow, c.Deny)
			o.Limits.Admit, o.Dial = clients.Admits, s.proxy.Upstreams.Dial
			return o, err
		}),
	}
}

// kindOf returns the kind of front of a listener.
func (d *listeners) kindOf(c *config.Listener) *front.Kind {
	word := cmp.Or(c.Serve, "proxy")
	return &d.kinds[slices.IndexFunc(d.kinds, func(k front.Kind) bool { return k.Name == word })]
}

// tcpOptions returns the options of a listener's connections.
func (s *runtime) tcpOptions(c *config.Listener) (tcp.Options, error) {
	l, err := s.limitsOf(c)
	address := c.Address
	return tcp.Options{
		Store: s.store, SlotStore: s.slots, Limits: l, Places: s.places, Log: s.log,
		OnDecision: func(e tcp.Event) { s.metrics.CountTCP(s.nameAt(address), e) },
	}, err
}

// nameAt returns the name in metrics of the listener at an address, which a reload may change.
func (s *runtime) nameAt(address string) string {
	for _, l := range listenersOf(s.active()) {
		if l.Address == address {
			return nameOf(&l)
		}
	}
	return address // it is being closed
}

// limitsOf returns a listener's limits of connections and bytes for each client.
func (s *runtime) limitsOf(c *config.Listener) (l tcp.Limits, err error) {
	finder, err := clientip.New(clientip.Options{IPv4Bits: c.Limits.By.IPv4Bits, IPv6Bits: c.Limits.By.IPv6Bits})
	if err != nil {
		return l, err
	}
	l.Key, l.Exempt, l.MaxConnections = finder.Group, s.exempt, c.MaxConnections
	l.Open, l.Scope, l.FailClosed = c.Limits.Open, c.OpenScope(), c.Limits.Failure != sluice.FailOpen
	l.Rate, l.Bytes, err = c.Plans()
	return l, err
}
