// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice/internal/clientip"
	"github.com/sluicegate/sluice/internal/config"
)

// proxyLogEvery is how often the log says that a proxy is not trusted: any client
// can send what looks like one.
const proxyLogEvery = time.Hour

// proxies reports a proxy that is not trusted: its clients share one budget where
// a rule is by ip.
type proxies struct {
	log    *slog.Logger
	finder *clientip.Finder
	fields []string // by their canonical names; none: nothing is reported
	rule   string   // that is by ip
	due    atomic.Pointer[time.Time]
}

// newProxies returns what reports under a configuration, no sooner again than the one
// of before if the operator has not listed trusted proxies since.
func newProxies(c *config.Config, log *slog.Logger, old *snapshot) (*proxies, error) {
	finder, err := clientip.New(clientip.Options{Trusted: c.ClientIP.Trusted, Header: c.ClientIP.Header, Hops: int(c.ClientIP.Hops)})
	if err != nil {
		return nil, err
	}
	rule, byIP := c.RuleByIP()
	p := &proxies{log: log, finder: finder, rule: rule}
	p.due.Store(new(time.Time))
	if old != nil && old.proxies != nil && old.config.ClientIP.Header == c.ClientIP.Header && slices.Equal(old.config.ClientIP.Trusted, c.ClientIP.Trusted) {
		p.due.Store(old.proxies.due.Load())
	}
	switch {
	case !byIP || c.ClientIP.None || c.ClientIP.Hops > 0: // nothing to report
	case c.ClientIP.Header != "":
		p.fields = []string{http.CanonicalHeaderKey(c.ClientIP.Header)}
	default:
		p.fields = []string{"X-Forwarded-For", "Forwarded"}
	}
	return p, nil
}

// look reports the proxy that sent a request, if it looks like one that is not
// trusted.
func (p *proxies) look(r *http.Request) {
	for _, name := range p.fields {
		if len(r.Header[name]) > 0 {
			p.came(r, name)
			return
		}
	}
}

// came reports a request that has the field of a proxy.
func (p *proxies) came(r *http.Request, field string) {
	now, due := time.Now(), p.due.Load()
	if now.Before(*due) {
		return
	}
	peer := clientip.Peer(r.RemoteAddr)
	if !peer.IsValid() || p.finder.Trusts(peer) {
		return
	}
	next := now.Add(proxyLogEvery)
	if p.due.CompareAndSwap(due, &next) { // else another request has reported
		p.warn(r.Context(), peer, field)
	}
}

// warn writes the line. It holds nothing that a client may choose but its address.
func (p *proxies) warn(ctx context.Context, peer netip.Addr, field string) {
	network := netip.PrefixFrom(peer, peer.BitLen()).String()
	flag, quoted, header := ", or --trust "+network, network, ""
	if peer.Is6() {
		quoted = "'" + network + "'" // as YAML has a text with colons
	}
	if field != "X-Forwarded-For" {
		flag, header = "", ", header: "+field
	}
	listener := ""
	if at, ok := ctx.Value(http.LocalAddrContextKey).(net.Addr); ok {
		listener = at.String()
	}
	p.log.Warn("all clients behind a peer share one budget: it sends the field of a proxy, and is not trusted",
		slog.String("peer", peer.String()), slog.String("field", field), slog.String("rule", p.rule), slog.String("listener", listener),
		slog.String("remedy", fmt.Sprintf("if it is a proxy of yours, set client_ip: {trusted: [%s]%s}%s; if it is a client, the field is forged and rightly ignored",
			quoted, header, flag)))
}
