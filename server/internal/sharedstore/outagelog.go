// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sharedstore

import (
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/redisstore/rueidisstore"
)

// outageLog logs the changes of the store's state, and its errors, each at most once in
// logEvery: a store that comes and goes does not flood the log. A change that had to wait is
// logged later, if it still holds.
type outageLog struct {
	*Store
	up               bool // as last reported
	explained        bool // the cause in the log is a server's answer
	reported, warned time.Time
	unsaid           int    // errors since the last warning, not logged
	outages          uint64 // as last reported
	over             uint64 // outages when the store was last reported as available
}

func (l *outageLog) look() {
	l.awaySince()
	stats := l.store.Stats()
	up := l.redis.Err() == nil && stats.Healthy
	if up == l.up && stats.Outages == l.outages {
		l.explain()
		return
	}
	if time.Since(l.reported) < logEvery {
		return
	}
	if up {
		l.log.Info("the store is available again", l.attr(), slog.Uint64("outages", max(stats.Outages-l.over, 1)))
		l.over = stats.Outages
	} else {
		l.explained = rueidisstore.Answered(l.lastFailure())
		l.log.Warn("the store is unavailable", l.attr(), slog.Uint64("outages", max(stats.Outages-l.outages, 1)), slog.String("cause", l.cause()),
			slog.String("meanwhile", l.Meanwhile()), l.since())
		l.alone()
	}
	l.fleet.Poke() // it may have to reconnect
	l.up, l.reported, l.outages = up, time.Now(), stats.Outages
}

// since returns the limits that requests pass without, and since when; empty if there are
// none.
func (l *outageLog) since() slog.Attr {
	what, since := l.NotApplied()
	if what == "" {
		return slog.Attr{}
	}
	return slog.Time(strings.ReplaceAll(what, " ", "_")+"_not_applied_since", since)
}

// alone warns that limits are divided by a configured number of nodes, as this node has never
// reached the store.
func (l *outageLog) alone() {
	if l.nodes.Load() == 0 && slices.Contains(failures(l.o.Config()), sluice.FailLocal) {
		l.log.Warn("this node has never reached the store and does not know how many nodes share it: limits with failure: local are divided by nodes in the configuration",
			l.attr(), slog.Int("nodes", l.divisor()))
	}
}

// explain logs the answer of a server that says why it is unavailable, once in an outage, if
// the first line of the outage had another cause.
func (l *outageLog) explain() {
	if l.up || l.explained || !rueidisstore.Answered(l.lastFailure()) {
		return
	}
	l.explained = true
	l.log.Warn("the store is unavailable: its cause has changed", l.attr(), slog.String("cause", l.cause()))
}

func (l *outageLog) failed(err error) {
	if time.Since(l.warned) < logEvery {
		l.unsaid++
		return
	}
	l.log.Warn("the store failed", l.attr(), slog.Any("error", err), slog.Int("errors_not_logged", l.unsaid))
	l.warned, l.unsaid = time.Now(), 0
}
