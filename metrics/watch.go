// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/series"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/remote"
)

// watch registers c under the label store.
func (m *Metrics) watch(c *series.Collector, store string, collect func(chan<- prometheus.Metric)) error {
	store = series.Label(store)
	err := prometheus.WrapRegistererWith(prometheus.Labels{"store": store}, m.registerer).Register(c.With(collect))
	if err != nil {
		return fmt.Errorf("metrics: store %q: %w; watch each store once, under a name of its own", store, err)
	}
	return nil
}

// WatchMemory exports the contents of a memory store under the label store: pass its Stats
// method. It is called once a scrape, since it walks all shards.
func (m *Metrics) WatchMemory(stats func() memstore.Stats, store string) error {
	var c series.Collector
	keys := c.Gauge("sluice_keys", "States held in memory: one for each key under each limit.")
	bytes := c.Gauge("sluice_store_bytes", "Memory that these take, room for growth included.")
	evicted := c.Counter("sluice_evictions_total", "Keys evicted before their quota had fully refilled.")
	debt := c.Counter("sluice_evicted_debt_seconds_total", "Time after which the evicted keys would have had their whole quota again, in all.")
	return m.watch(&c, store, func(ch chan<- prometheus.Metric) {
		s := stats()
		series.Put(ch, keys, s.States)
		series.Put(ch, bytes, s.Bytes)
		series.Put(ch, evicted, s.Evicted)
		series.Put(ch, debt, s.EvictedDebt.Seconds())
	})
}

// WatchShared exports the state of a shared store under the label store: pass the Stats method
// of the [remote.Store] that wraps it, which is called at every scrape.
func (m *Metrics) WatchShared(of func() remote.Stats, store string) error {
	var c series.Collector
	up := c.Gauge("sluice_store_up", "1 while requests go to the shared store, 0 while the failure policy decides.")
	outages := c.Counter("sluice_store_outages_total", "Times the shared store was marked down.")
	degraded := c.Counter("sluice_degraded_total", "Decisions that the failure policy made in the store's place, of which a request can have several.", "policy")
	failed := c.Counter("sluice_store_calls_failed_total", "Calls that the shared store did not decide, by the reason.", "reason")
	inFlight := c.Gauge("sluice_store_calls_in_flight", "Store calls in flight, those included whose callers have left.")
	owed := c.Gauge("sluice_store_owed_keys", "Keys with units to be charged to the shared store on its return.")
	settled := c.Counter("sluice_store_owed_units_total", "Units spent in the store's absence, by outcome.", "outcome")
	back := c.Counter("sluice_store_refunds_total", "Decisions that came too late and were given back.")
	lost := c.Counter("sluice_store_refunds_failed_total", "Decisions that came too late and whose refund failed.")
	unreleased := c.Gauge("sluice_store_unreleased_slots", "Slots to be released on the shared store's return.")
	decided := c.Counter("sluice_lease_decisions_total", "Takes under leased limits that were decided without asking the store.", "verdict")
	asked := c.Counter("sluice_lease_store_calls_total", "Questions to the store about takes under leased limits.")
	units := c.Counter("sluice_lease_units_total", "Units taken in advance, and those of them given back unused or lost.", "outcome")
	untracked := c.Counter("sluice_lease_untracked_total", "Takes that were not leased, as too many keys are in demand.")
	saved := c.Counter("sluice_denials_from_memory_total", "Requests denied without asking the shared store, as it would.")
	return m.watch(&c, store, func(ch chan<- prometheus.Metric) {
		f := of()
		series.Put(ch, up, series.Truth(f.Healthy))
		series.Put(ch, outages, f.Outages)
		series.Put(ch, degraded, f.Opened, sluice.FailOpen.String())
		series.Put(ch, degraded, f.DecidedLocally, sluice.FailLocal.String())
		series.Put(ch, degraded, f.Refused, sluice.FailClosed.String())
		series.Put(ch, failed, f.Timeouts, "timeout")
		series.Put(ch, failed, f.Errors, "error")
		series.Put(ch, failed, f.Skipped, "skipped")
		series.Put(ch, failed, f.Overloaded, "crowded")
		series.Put(ch, inFlight, f.InFlight)
		series.Put(ch, owed, f.Owed)
		series.Put(ch, settled, f.Charged, "charged")
		series.Put(ch, settled, f.Dropped, "dropped")
		series.Put(ch, back, f.GivenBack)
		series.Put(ch, lost, f.NotGivenBack)
		series.Put(ch, unreleased, f.Unreleased)
		series.Put(ch, saved, f.Denied)
		series.Put(ch, decided, f.Leases.Allowed, "allowed")
		series.Put(ch, decided, f.Leases.Denied, "denied")
		series.Put(ch, asked, f.Leases.Asked)
		series.Put(ch, units, f.Leases.Leased, "leased")
		series.Put(ch, units, f.Leases.Returned, "returned")
		series.Put(ch, units, f.Leases.Lost, "lost")
		series.Put(ch, untracked, f.Leases.Untracked)
	})
}
