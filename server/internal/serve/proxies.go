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

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/internal/clientip"
	"github.com/sluicegate/sluice/server/internal/front"
)

// proxyLogEvery is the interval of warnings about proxies that are not trusted: any client can
// send their header fields.
const proxyLogEvery = time.Hour

// proxies logs a proxy that is not trusted: its clients share one budget where a rule is by
// ip.
type proxies struct {
	log    *slog.Logger
	finder *clientip.Finder
	fields []string // canonical names; with none nothing is logged
	rule   string   // one that is by ip
	due    atomic.Pointer[time.Time]
}

// newProxies returns the proxies of a configuration. It keeps the last warning's time unless
// the trusted proxies or the header have changed.
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

// Record logs the sender of a request if it looks like a proxy that is not trusted.
func (p *proxies) Record(ctx context.Context, r *front.Record) {
	if r.Ended {
		return
	}
	for _, name := range p.fields {
		if len(r.Request.Header(name)) > 0 {
			p.came(ctx, r.Peer, name)
			return
		}
	}
}

// came logs the sender of a request that has the header field of a proxy.
func (p *proxies) came(ctx context.Context, from, field string) {
	now, due := time.Now(), p.due.Load()
	if now.Before(*due) {
		return
	}
	peer := clientip.Peer(from)
	if !peer.IsValid() || p.finder.Trusts(peer) {
		return
	}
	next := now.Add(proxyLogEvery)
	if p.due.CompareAndSwap(due, &next) { // else another request has logged it
		p.warn(ctx, peer, field)
	}
}

// warn writes the line. A client chooses nothing in it but its address.
func (p *proxies) warn(ctx context.Context, peer netip.Addr, field string) {
	network := netip.PrefixFrom(peer, peer.BitLen()).String()
	flag, quoted, header := ", or --trust "+network, network, ""
	if peer.Is6() {
		quoted = "'" + network + "'" // YAML needs quotes around colons
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
