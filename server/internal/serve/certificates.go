// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sluicegate/sluice/server/internal/gateway/certificate"
	"github.com/sluicegate/sluice/server/internal/metrics"
)

// pairs returns the certificates of the listeners by listener name.
func (d *listeners) pairs() map[string]*certificate.Pair {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := make(map[string]*certificate.Pair)
	for _, o := range d.open {
		if o.pair != nil {
			c := o.config.Load()
			all[cmp.Or(c.Name, c.Address)] = o.pair
		}
	}
	return all
}

// fault returns why the files of p differ from the certificate in use, or nil. It reads the
// files, so a listener without handshakes finds changes too.
func fault(p *certificate.Pair) error {
	_, _ = p.GetCertificate(nil) // the pair always has a certificate, and Err holds the result of reading
	return p.Err()
}

// certificates returns the expiry and the state of each listener's certificate.
func (d *listeners) certificates() map[string]metrics.Certificate {
	all := make(map[string]metrics.Certificate)
	for name, p := range d.pairs() {
		err := fault(p)
		all[name] = metrics.Certificate{NotAfter: p.NotAfter(), Current: err == nil}
	}
	return all
}

// certificateLines describes the expired certificates and those whose reload failed. Each
// begins on a new line.
func (d *listeners) certificateLines(now time.Time) string {
	var b strings.Builder
	pairs := d.pairs()
	for _, name := range slices.Sorted(maps.Keys(pairs)) {
		p := pairs[name]
		err, end := fault(p), p.NotAfter()
		word := "expires"
		if now.After(end) {
			word = "expired"
		}
		switch at := end.UTC().Format(time.RFC3339); {
		case err != nil:
			fmt.Fprintf(&b, "\ncertificate of %s: its last reload failed; the previous one, which %s on %s, stays active:\n%v", name, word, at, err)
		case now.After(end):
			fmt.Fprintf(&b, "\ncertificate of %s: it expired on %s; put a new pair into its files", name, at)
		}
	}
	return b.String()
}
