// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"slices"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/policy/evaluate"
	"github.com/sluicegate/sluice/server/internal/metrics"
	"github.com/sluicegate/sluice/server/internal/tally"
)

// noMemory counts a request answered with 503 before any rule was evaluated.
func (s *runtime) noMemory() {
	e := evaluate.Event{Verdict: evaluate.FailedClosed}
	s.tally.Count(&e, tally.Cause{})
	s.counts.Count(&e)
}

// cutOff returns the numbers of bodies and requests cut off by bounds.
func (s *runtime) cutOff() metrics.CutOff {
	return metrics.CutOff{SlowBodies: s.clients.SlowBodies(), LongRequests: s.proxy.LongRequests()}
}

// heldBack returns the numbers of delayed requests and their memory.
func (s *runtime) heldBack() metrics.Held {
	held := s.held.Stats()
	kept, stopped := s.proxy.ReadAhead.Held()
	return metrics.Held{
		InFlight: held.InFlight,
		Requests: held.Held, Full: held.Full, ShareFull: held.ShareFull,
		ReadAhead: kept, Stopped: stopped,
	}
}

// envoyStatistics passes the statistics of Envoy's service to put while a listener has envoy_names.
func (s *runtime) envoyStatistics(put func(name string, value int64, labels ...string)) {
	if slices.ContainsFunc(s.current.Load().config.Listen, func(l config.Listener) bool { return l.RLS.EnvoyNames }) {
		s.rls.Statistics.Each(put)
	}
}
