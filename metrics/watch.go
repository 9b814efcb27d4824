// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/remote"
)

// watch registers c under the label store.
func (m *Metrics) watch(c *series, store string, collect func(chan<- prometheus.Metric)) error {
	store, c.collect = label(store), collect
	err := prometheus.WrapRegistererWith(prometheus.Labels{"store": store}, m.registerer).Register(c)
	if err != nil {
		return fmt.Errorf("metrics: store %q: %w; watch each store once, under a name of its own", store, err)
	}
	return nil
}

// WatchMemory exports the contents of a memory store under the label store: pass its Stats
// method. It is called once a scrape, since it walks all shards.
func (m *Metrics) WatchMemory(stats func() memstore.Stats, store string) error {
	var c series
	keys := c.gauge("sluice_keys", "States held in memory: one for each key under each limit.")
	bytes := c.gauge("sluice_store_bytes", "Memory of these states, room for growth included.")
	evicted := c.counter("sluice_evictions_total", "Keys evicted before their quota had fully refilled.")
	debt := c.counter("sluice_evicted_debt_seconds_total", "Time after which the evicted keys would have had their whole quota again, in all.")
	return m.watch(&c, store, func(ch chan<- prometheus.Metric) {
		s := stats()
		put(ch, keys, s.States)
		put(ch, bytes, s.Bytes)
		put(ch, evicted, s.Evicted)
		put(ch, debt, s.EvictedDebt.Seconds())
	})
}

// WatchShared exports the state of a shared store under the label store: pass the Stats method
// of the [remote.Store] that wraps it, which is called at every scrape.
func (m *Metrics) WatchShared(of func() remote.Stats, store string) error {
	var c series
	up := c.gauge("sluice_store_up", "1 while requests go to the shared store, 0 while the failure policy decides.")
	outages := c.counter("sluice_store_outages_total", "Times the shared store was marked down.")
	degraded := c.counter("sluice_degraded_total", "Decisions that the failure policy made in place of the store; a request can have several.", "policy")
	failed := c.counter("sluice_store_calls_failed_total", "Calls that the shared store did not decide, by the reason.", "reason")
	inFlight := c.gauge("sluice_store_calls_in_flight", "Store calls in flight, those included whose callers have left.")
	owed := c.gauge("sluice_store_owed_keys", "Keys with units to be charged to the shared store on its return, and settlements of holds to be sent to it.")
	settled := c.counter("sluice_store_owed_units_total", "Units spent in the store's absence, by outcome.", "outcome")
	back := c.counter("sluice_store_refunds_total", "Decisions that came too late and were given back.")
	lost := c.counter("sluice_store_refunds_failed_total", "Decisions that came too late and whose refund failed.")
	unreleased := c.gauge("sluice_store_unreleased_slots", "Slots to be released on the shared store's return.")
	decided := c.counter("sluice_lease_decisions_total", "Takes under leased limits that were decided without asking the store.", "verdict")
	asked := c.counter("sluice_lease_store_calls_total", "Calls of the store for takes under leased limits.")
	units := c.counter("sluice_lease_units_total", "Units taken in advance, and those of them given back unused or lost.", "outcome")
	untracked := c.counter("sluice_lease_untracked_total", "Takes that were not leased, as too many keys were in demand.")
	saved := c.counter("sluice_denials_from_memory_total", "Requests denied without asking the shared store, as it would.")
	return m.watch(&c, store, func(ch chan<- prometheus.Metric) {
		f := of()
		healthy := 0
		if f.Healthy {
			healthy = 1
		}
		put(ch, up, healthy)
		put(ch, outages, f.Outages)
		put(ch, degraded, f.Opened, sluice.FailOpen.String())
		put(ch, degraded, f.DecidedLocally, sluice.FailLocal.String())
		put(ch, degraded, f.Refused, sluice.FailClosed.String())
		put(ch, failed, f.Timeouts, "timeout")
		put(ch, failed, f.Errors, "error")
		put(ch, failed, f.Skipped, "skipped")
		put(ch, failed, f.Overloaded, "crowded")
		put(ch, inFlight, f.InFlight)
		put(ch, owed, f.Owed)
		put(ch, settled, f.Charged, "charged")
		put(ch, settled, f.Dropped, "dropped")
		put(ch, back, f.GivenBack)
		put(ch, lost, f.NotGivenBack)
		put(ch, unreleased, f.Unreleased)
		put(ch, saved, f.Denied)
		put(ch, decided, f.Leases.Allowed, "allowed")
		put(ch, decided, f.Leases.Denied, "denied")
		put(ch, asked, f.Leases.Asked)
		put(ch, units, f.Leases.Leased, "leased")
		put(ch, units, f.Leases.Returned, "returned")
		put(ch, units, f.Leases.Lost, "lost")
		put(ch, untracked, f.Leases.Untracked)
	})
}
