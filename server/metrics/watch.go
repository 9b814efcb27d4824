// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/gateway"
	"github.com/sluicegate/sluice/gateway/tcp"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/remote"
	"github.com/sluicegate/sluice/server/tally"
)

// WatchMemory exports what a memory store holds: pass its Stats method. It is
// called once a scrape, since it walks all shards. Only one store can be watched.
func (m *Metrics) WatchMemory(stats func() memstore.Stats) {
	var c collector
	keys := c.gauge("sluice_keys", "States held in memory: one for each key under each limit.")
	bytes := c.gauge("sluice_store_bytes", "Memory that these take, room for growth included.")
	evicted := c.counter("sluice_evictions_total", "States forgotten for lack of room before they were as never seen.")
	forgiven := c.counter("sluice_forgiven_seconds_total", "Time after which the evicted states would have been as never seen, in all.")
	m.watch(&c, func(ch chan<- prometheus.Metric) {
		s := stats()
		put(ch, keys, s.States)
		put(ch, bytes, s.Bytes)
		put(ch, evicted, s.Evicted)
		put(ch, forgiven, s.Forgiven.Seconds())
	})
}

// WatchShared exports how a store that is shared with others fares: pass the
// Stats method of the [remote.Store] around it, which is called at every scrape.
// Only one store can be watched.
func (m *Metrics) WatchShared(of func() remote.Stats) {
	var c collector
	up := c.gauge("sluice_store_up", "1 while requests go to the shared store, 0 while the failure policy decides.")
	outages := c.counter("sluice_store_outages_total", "How often the shared store was given up.")
	degraded := c.counter("sluice_degraded_total", "Requests that the failure policy decided in the store's place.", "policy")
	failed := c.counter("sluice_store_calls_failed_total", "Calls that the shared store did not decide, by the reason.", "reason")
	inFlight := c.gauge("sluice_store_calls_in_flight", "Calls that have not come back, those included whose callers have left.")
	owed := c.gauge("sluice_store_owed_keys", "Keys with units to be charged to the shared store on its return.")
	settled := c.counter("sluice_store_owed_units_total", "Units spent in the store's absence, by what became of them.", "outcome")
	back := c.counter("sluice_store_given_back_total", "Decisions that came too late and were given back.")
	lost := c.counter("sluice_store_not_given_back_total", "Decisions that came too late and whose refund failed.")
	decided := c.counter("sluice_lease_decisions_total", "Takes under leased limits that were decided without asking the store.", "verdict")
	asked := c.counter("sluice_lease_store_calls_total", "Questions to the store about takes under leased limits.")
	units := c.counter("sluice_lease_units_total", "Units taken in advance, and those of them given back unused or lost.", "outcome")
	untracked := c.counter("sluice_lease_untracked_total", "Takes that were not leased, as too many keys are in demand.")
	saved := c.counter("sluice_denials_from_memory_total", "Requests denied without asking the shared store, as it would.")
	m.watch(&c, func(ch chan<- prometheus.Metric) {
		f := of()
		put(ch, up, truth(f.Healthy))
		put(ch, outages, f.Outages)
		put(ch, degraded, f.Opened, sluice.FailOpen.String())
		put(ch, degraded, f.Localized, sluice.FailLocal.String())
		put(ch, degraded, f.Refused, sluice.FailClosed.String())
		put(ch, failed, f.Timeouts, "timeout")
		put(ch, failed, f.Errors, "error")
		put(ch, failed, f.Skipped, "skipped")
		put(ch, failed, f.Crowded, "crowded")
		put(ch, inFlight, f.InFlight)
		put(ch, owed, f.Owed)
		put(ch, settled, f.Charged, "charged")
		put(ch, settled, f.Dropped, "dropped")
		put(ch, back, f.GivenBack)
		put(ch, lost, f.NotGivenBack)
		put(ch, saved, f.Denials.Answered)
		put(ch, decided, f.Leases.Allowed, "allowed")
		put(ch, decided, f.Leases.Denied, "denied")
		put(ch, asked, f.Leases.Asked)
		put(ch, units, f.Leases.Leased, "leased")
		put(ch, units, f.Leases.Returned, "returned")
		put(ch, units, f.Leases.Lost, "lost")
		put(ch, untracked, f.Leases.Untracked)
	})
}

// CountTCP counts what became of a connection at the listener of that name:
//
//	sluice_tcp_connections_total{listener,verdict}  allowed, denied-client, denied-rate, denied-open, undecided
func (m *Metrics) CountTCP(listener string, e tcp.Event) {
	m.connections.WithLabelValues(listener, e.Verdict.String()).Inc()
}

// WatchTCP exports what passes TCP listeners, by their names. It is asked at
// every scrape.
//
//	sluice_tcp_open_connections{listener}
//	sluice_tcp_bytes_total{listener,direction}  received from clients, and sent to them
func (m *Metrics) WatchTCP(stats func() map[string]tcp.Stats) {
	var c collector
	open := c.gauge("sluice_tcp_open_connections", "TCP connections that are there now.", "listener")
	bytes := c.counter("sluice_tcp_bytes_total", "Bytes passed on over TCP.", "listener", "direction")
	m.watch(&c, func(ch chan<- prometheus.Metric) {
		for name, s := range stats() {
			put(ch, open, s.Open, name)
			put(ch, bytes, s.Received, name, "received")
			put(ch, bytes, s.Sent, name, "sent")
		}
	})
}

// WatchAbandoned exports what becomes of requests whose client left before the
// response that a limit waits for. It is asked at every scrape.
//
//	sluice_abandoned                the upstream works on now
//	sluice_abandoned_total{end}     seen: settled by the response; lost: there was none;
//	                                unsent: cancelled, as it was not sent whole; full:
//	                                cancelled, as too many went on
func (m *Metrics) WatchAbandoned(stats func() gateway.AbandonedStats) {
	var c collector
	waiting := c.gauge("sluice_abandoned", "Requests whose client has left and whose response a limit waits for.")
	ended := c.counter("sluice_abandoned_total", "Requests whose client left before the response that a limit waits for, by their end.", "end")
	m.watch(&c, func(ch chan<- prometheus.Metric) {
		s := stats()
		put(ch, waiting, s.Waiting)
		put(ch, ended, s.Seen, "seen")
		put(ch, ended, s.Lost, "lost")
		put(ch, ended, s.Unsent, "unsent")
		put(ch, ended, s.Full, "full")
	})
}

// Certificate is how the certificate of a listener fares.
type Certificate struct {
	NotAfter time.Time // when what serves expires
	Current  bool      // it is what its files hold
}

// WatchCertificates exports how the certificates of listeners fare, by their
// names. It is asked at every scrape.
//
//	sluice_certificate_not_after_seconds{listener}  when what serves expires
//	sluice_certificate_current{listener}            0 while what its files hold does not serve
func (m *Metrics) WatchCertificates(of func() map[string]Certificate) {
	var c collector
	notAfter := c.gauge("sluice_certificate_not_after_seconds", "When the certificate that serves expires, in seconds since 1970.", "listener")
	current := c.gauge("sluice_certificate_current", "0 while what the files of the certificate hold could not be put in force.", "listener")
	m.watch(&c, func(ch chan<- prometheus.Metric) {
		for name, cert := range of() {
			put(ch, notAfter, cert.NotAfter.Unix(), name)
			put(ch, current, truth(cert.Current), name)
		}
	})
}

// Config is a configuration that is in force.
type Config struct {
	File, Hash string
	Loaded     time.Time
	Current    bool // it is what its file holds
}

// WatchPolicy exports what became of requests under the rules of a policy and
// which version of its file is in force. Both are asked at every scrape. Only
// one policy can be watched.
//
//	sluice_rule_requests_total{rule,verdict}      allowed, warned, denied, refused, failed
//	sluice_trial_requests_total{rule,level,candidate,verdict}  what is on trial would do
//	sluice_config_info{file,hash}                 1, for the version in force
//	sluice_config_loaded_seconds                  when that was
//	sluice_config_current                         0 while the file as it is now is not in force
func (m *Metrics) WatchPolicy(t *tally.Tally, config func() Config) {
	var c collector
	requests := c.counter("sluice_rule_requests_total", "Requests by rule; warned ones are allowed, too.", "rule", "verdict")
	trials := c.counter("sluice_trial_requests_total", "Requests by what a candidate, or a rule in shadow, would have done.", "rule", "level", "candidate", "verdict")
	info := c.gauge("sluice_config_info", "1, labelled by the configuration in force.", "file", "hash")
	loaded := c.gauge("sluice_config_loaded_seconds", "When the configuration was put in force, in seconds since 1970.")
	current := c.gauge("sluice_config_current", "0 while the file as it is now could not be put in force.")
	m.watch(&c, func(ch chan<- prometheus.Metric) {
		for _, r := range t.Reports() {
			put(ch, requests, r.Allowed, r.Rule, "allowed")
			put(ch, requests, r.Warned, r.Rule, "warned")
			put(ch, requests, r.Denied, r.Rule, "denied")
			put(ch, requests, r.Refused, r.Rule, "refused")
			put(ch, requests, r.Failed, r.Rule, "failed")
			on := r.Candidates
			if r.Judged > 0 { // the rule itself is in shadow
				on = append(on, tally.CandidateReport{Judged: r.Judged, WouldDeny: r.WouldDeny})
			}
			for _, trial := range on {
				put(ch, trials, trial.Judged-trial.WouldDeny, r.Rule, trial.Level, trial.Name, "allowed")
				put(ch, trials, trial.WouldDeny, r.Rule, trial.Level, trial.Name, "denied")
			}
		}
		v := config()
		put(ch, info, 1, v.File, v.Hash)
		put(ch, loaded, float64(v.Loaded.UnixMilli())/1000)
		put(ch, current, truth(v.Current))
	})
}

// Held is what requests that are held back take.
type Held struct {
	Requests        int   // now
	Full, ShareFull int64 // that found no place, and whose key had none left
	ReadAhead       int64 // bytes of bodies that are kept now
	Stopped         int64 // bodies that there was no room for to be read further
}

// WatchHeld exports what requests that are held back take. It is asked at every
// scrape.
//
//	sluice_held_requests            requests that are held back now
//	sluice_not_held_total{reason}   that found no place: full, or share (of their key)
//	sluice_read_ahead_bytes         of bodies that are kept meanwhile
//	sluice_read_ahead_stopped_total bodies that there was no room for
func (m *Metrics) WatchHeld(of func() Held) {
	var c collector
	held := c.gauge("sluice_held_requests", "Requests that are held back now.")
	refused := c.counter("sluice_not_held_total", "Requests that were not held back, as there was no place at all, or none left for their key.", "reason")
	ahead := c.gauge("sluice_read_ahead_bytes", "Bytes of bodies that are kept while their requests are held back.")
	stopped := c.counter("sluice_read_ahead_stopped_total", "Bodies that were not read further while their requests were held back, as there was no room.")
	m.watch(&c, func(ch chan<- prometheus.Metric) {
		h := of()
		put(ch, held, h.Requests)
		put(ch, refused, h.Full, "full")
		put(ch, refused, h.ShareFull, "share")
		put(ch, ahead, h.ReadAhead)
		put(ch, stopped, h.Stopped)
	})
}

// WatchUpstreams exports how connections to upstreams fare. It is asked at every
// scrape.
//
//	sluice_upstream_connections                 that are open, or being dialled
//	sluice_upstream_connections_refused_total{reason}  full: too many are open;
//	                                            descriptors, ports: there were none left
func (m *Metrics) WatchUpstreams(stats func() gateway.ConnectionStats) {
	var c collector
	open := c.gauge("sluice_upstream_connections", "Connections to upstreams that are open now, or being dialled.")
	refused := c.counter("sluice_upstream_connections_refused_total", "Connections to upstreams that could not be opened for want of something here, by what that was.", "reason")
	m.watch(&c, func(ch chan<- prometheus.Metric) {
		s := stats()
		put(ch, open, s.Open)
		put(ch, refused, s.Full, "full")
		put(ch, refused, s.NoDescriptor, "descriptors")
		put(ch, refused, s.NoPort, "ports")
	})
}

// WatchClientMemory exports what clients make the process keep, where that is bounded.
// It is asked at every scrape.
//
//	sluice_client_memory_bytes, sluice_client_memory_limit_bytes
//	sluice_client_memory_refused_total{what}  connection, header, request
func (m *Metrics) WatchClientMemory(stats func() gateway.MemoryStats) {
	var c collector
	taken := c.gauge("sluice_client_memory_bytes", "Memory counted for connections and requests of clients.")
	limit := c.gauge("sluice_client_memory_limit_bytes", "The most of it, by GOMEMLIMIT; 0: not bounded.")
	refused := c.counter("sluice_client_memory_refused_total", "What found no memory, by what it was: connections and headers are closed, requests answered with 503.", "what")
	m.watch(&c, func(ch chan<- prometheus.Metric) {
		s := stats()
		put(ch, taken, s.Taken)
		put(ch, limit, s.Most)
		put(ch, refused, s.Connections, "connection")
		put(ch, refused, s.Headers, "header")
		put(ch, refused, s.Requests, "request")
	})
}

// CutOff is how many requests bounds of the gateway have ended.
type CutOff struct {
	SlowBodies   int64 // by the least rate of bodies
	LongRequests int64 // by the longest time that a request may take
}

// WatchCutOff exports what bounds of the gateway have ended. It is asked at every
// scrape.
//
//	sluice_cut_off_total{bound}  least_body_rate, longest_request
func (m *Metrics) WatchCutOff(of func() CutOff) {
	var c collector
	ended := c.counter("sluice_cut_off_total", "Requests that a bound on their time has ended, by the bound.", "bound")
	m.watch(&c, func(ch chan<- prometheus.Metric) {
		n := of()
		put(ch, ended, n.SlowBodies, "least_body_rate")
		put(ch, ended, n.LongRequests, "longest_request")
	})
}
