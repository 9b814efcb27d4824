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

	"github.com/sluicegate/sluice/internal/gateway/certificate"
	"github.com/sluicegate/sluice/internal/server/metrics"
)

// pairs returns the certificates of the listeners, by the names of their listeners.
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

// fault returns why the files of a pair do not hold what serves. Where there
// are no handshakes, it is this that looks at them.
func fault(p *certificate.Pair) error {
	_, _ = p.GetCertificate(nil) // there is one, and Err says its result
	return p.Err()
}

// certificates returns how the certificates of the listeners fare.
func (d *listeners) certificates() map[string]metrics.Certificate {
	all := make(map[string]metrics.Certificate)
	for name, p := range d.pairs() {
		err := fault(p)
		all[name] = metrics.Certificate{NotAfter: p.NotAfter(), Current: err == nil}
	}
	return all
}

// certificateLines says which certificates are not as they should be, each in a
// line of its own and those of its fault.
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
